"""Fixes of what the device computes, and of its memory: one fix per file."""
