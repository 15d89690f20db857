"""Runs a command with the probe in it, reads what the probe writes, and monitors the machine."""
