"""Kernels, copies, launches and operators."""
