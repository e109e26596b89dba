"""Tests with Debian's nginx, Apache and HAProxy, as docs/operate/web-servers configures them."""
