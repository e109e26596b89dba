"""Who may read and publish what: rules in Django, compiled for the sidecar."""
