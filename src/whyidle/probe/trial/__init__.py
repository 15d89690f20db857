"""Runs in a process of an A/B trial in addition to the recording: the witness and its parts."""
