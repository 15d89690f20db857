"""Checks of this machine for ``whyidle doctor``."""
