"""Root causes: hardware."""
