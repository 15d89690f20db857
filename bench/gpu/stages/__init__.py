"""Stages of the proof: one per file, each independent of the others."""
