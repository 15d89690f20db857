"""What holds for every test."""

import pytest


@pytest.fixture(autouse=True)
def mistakes(monkeypatch):
    """A cause that fails fails its test; a user is told of it, and of all else."""
    monkeypatch.setattr("whyidle.engine.diagnose.CONTAINED", ())
