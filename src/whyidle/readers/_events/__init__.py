"""Trace events in JSON, which several formats use."""
