"""What ``import whyidle`` offers; ``whyidle/__init__.py`` lists it and imports it on first use."""
