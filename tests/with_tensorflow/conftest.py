"""The probe in this very process, inside a real TensorFlow."""

import importlib.util
import os
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
if importlib.util.find_spec("tensorflow") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """The session of the probe; its hooks are removed at the end."""
    from whyidle.probe.core import fault_containment  # noqa: PLC0415
    from whyidle.probe.core.session import Session  # noqa: PLC0415
    from whyidle.probe.frameworks.tensorflow.adapter import Adapter  # noqa: PLC0415

    monkeypatch.setattr(fault_containment, "seen", set())
    monkeypatch.setenv("WHYIDLE_PROFILE", "off")
    session = Session(str(tmp_path), Adapter())
    yield session
    session.uninstall()


@pytest.fixture
def faults(watched):
    """What was noted of mistakes of ours so far."""
    folder = Path(watched.events.recorder.folder)
    return lambda: [
        line for path in folder.glob("*.faults") for line in path.read_text().splitlines()
    ]
