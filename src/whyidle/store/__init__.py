"""Runs on disk: one folder per run, written whole or not at all."""
