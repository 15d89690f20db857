"""Root causes: distributed."""
