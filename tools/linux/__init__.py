"""The sidecar as packages of Linux: deb, rpm, and a folder that runs anywhere."""
