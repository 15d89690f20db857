"""Root causes: input."""
