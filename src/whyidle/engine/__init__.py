"""The only orchestration: read, diagnose, compare."""
