"""Executors, which run the arms of trials, one per file."""
