"""Fixes of what ranks exchange: one fix per file."""
