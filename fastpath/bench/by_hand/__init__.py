"""Publishers and subscribers for a server that runs already, as somebody starts them by hand."""
