"""The site in the containers: the least that a project is, to be replaced by one of your own."""
