"""A diagnosis out, one form per file."""
