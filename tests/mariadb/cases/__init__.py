"""What only MariaDB has, or lacks."""
