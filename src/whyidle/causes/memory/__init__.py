"""Root causes: memory."""
