"""Public helpers for tests: build recordings, and the contracts that every plug-in keeps."""
