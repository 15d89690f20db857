"""Root causes: allocation."""
