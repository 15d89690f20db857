"""Executors: where the arms of a trial run, one in each file."""
