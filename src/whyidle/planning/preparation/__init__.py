"""Data prepared once: ``whyidle prepare``."""
