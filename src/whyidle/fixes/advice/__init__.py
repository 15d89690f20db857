"""Fixes that only people can apply: a table for each family of causes, in ``ADVICE``."""
