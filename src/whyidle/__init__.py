"""whyidle: why is my GPU idle, or busy for nothing, and how do I fix it?"""

__version__ = "0.1.0"
