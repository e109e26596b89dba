"""What leaves for other tools: figures in Prometheus' form, and the files of the audit."""
