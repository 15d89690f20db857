"""Closer looks that cost a few steps: memory, the model, ranks."""
