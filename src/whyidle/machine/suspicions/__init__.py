"""Suspicions about jobs that are not watched from inside, one per file: see ``model.suspicion``."""
