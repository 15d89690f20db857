"""Stored runs beside each other: comparison, table, history."""
