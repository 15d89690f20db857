"""Gives each moment of the window to one reason, and explains what is left."""
