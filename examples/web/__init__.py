"""Draw a digit: an exported network in a browser."""
