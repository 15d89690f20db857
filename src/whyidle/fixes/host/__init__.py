"""Fixes of what the host does in a step: one fix per file."""
