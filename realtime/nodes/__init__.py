"""The sidecars of a site, as Django asks them: their control sockets, one or all of them, drain."""
