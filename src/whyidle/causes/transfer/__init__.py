"""Root causes: transfer."""
