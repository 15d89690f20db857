"""Cores, processes and telemetry of the host."""
