"""Orchestration: recording, diagnosis, trials, patches and checks of the machine."""
