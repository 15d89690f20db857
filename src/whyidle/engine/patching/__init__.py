"""Writes kept fixes into copies of the user's files, and runs the copies."""
