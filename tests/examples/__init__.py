"""The projects of docs/examples, each started by the one command that its page has."""
