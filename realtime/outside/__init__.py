"""The statistics on an address of their own, beside the web server's (docs/operate/figures.md).

Laws:

* Nothing but the statistics and the health of this server is answered there: no page, no admin.
* Where there is a password, nobody reads a figure without it.
"""
