"""Jobs of JAX under the probe, in the Python of ``WHYIDLE_JAX_PYTHON`` or in this one."""

import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import whyidle.probe
from whyidle.readers import probe

BOOT = Path(whyidle.probe.__file__).parent / "boot"


@dataclass
class Job:
    """What a job printed, and its recording."""

    out: str
    folder: Path

    @property
    def faults(self):
        return "".join(path.read_text() for path in self.folder.glob("*.faults"))

    @property
    def knobs(self):
        newest = max(self.folder.glob("*.knobs.json"), key=lambda path: path.stat().st_mtime_ns)
        return json.loads(newest.read_text())

    @property
    def timeline(self):
        (spans,) = self.folder.glob("*.spans")
        return probe.load(spans)

    def names(self, role):
        timeline = self.timeline
        return [timeline.names[i] for i in timeline.host.name[timeline.rows_of(role)]]


@pytest.fixture
def run_job(tmp_path):
    python = os.environ.get("WHYIDLE_JAX_PYTHON")
    if python is None and importlib.util.find_spec("optax") is None:
        pytest.skip("no JAX here, and WHYIDLE_JAX_PYTHON is not set")

    def run(script, *, watched=True, **environment):
        file, folder = tmp_path / "train.py", tmp_path / "recording"
        file.write_text(script)
        folder.mkdir(exist_ok=True)
        own = {"PYTHONPATH": str(BOOT), "WHYIDLE_RUN": str(folder)} if watched else {}
        done = subprocess.run(
            [python or sys.executable, str(file)],
            env={**os.environ, "JAX_PLATFORMS": "cpu", **own, **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == "", done.stderr
        return Job(done.stdout, folder)

    return run
