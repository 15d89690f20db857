"""Root causes: device."""
