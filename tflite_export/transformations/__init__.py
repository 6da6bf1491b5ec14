"""One change of the graph a module."""
