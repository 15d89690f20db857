"""Runs a command with the probe, monitors the machine, and diagnoses the recording."""
