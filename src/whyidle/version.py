"""The version of whyidle."""

__version__ = "0.2.0"
