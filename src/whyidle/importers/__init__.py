"""Recorded evidence in, ``Timeline`` out; one format per file."""
