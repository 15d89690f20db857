"""Writes kept fixes into copies of the user's files, and prepares running the copies."""
