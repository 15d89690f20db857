"""Root causes: interruption."""
