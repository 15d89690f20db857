"""Checks of this machine for ``whyidle doctor``, one subject per module."""
