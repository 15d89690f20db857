"""Fixes of how batches are made: one fix per file."""
