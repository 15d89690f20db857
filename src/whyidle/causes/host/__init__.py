"""Root causes: host."""
