"""Explains what was recorded elsewhere: traces, folders of ranks, states of a process."""
