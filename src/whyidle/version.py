"""The version of whyidle, in a module of its own: the engine writes it into documents."""

__version__ = "0.2.0"
