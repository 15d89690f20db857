"""Fixes by subject, and tables of advice; see ``whyidle.model.fix``."""
