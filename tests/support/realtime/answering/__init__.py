"""An app with responders."""
