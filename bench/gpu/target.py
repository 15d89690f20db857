"""Where the jobs run: on the GPUs of this machine, or rehearsed on the emulated device."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from emulator.environment import add_emulator

ROOT = Path(__file__).resolve().parents[2]
GPU_JOB_S, EMULATED_JOB_S, SHORT_JOB_S = 6.0, 9.0, 3.0
"""seconds that a watched job trains; in a short rehearsal, which proves only that the stages run.
On a GPU a burst begins after 3 s and takes 1 s; the host that emulates one takes longer for both"""
EMULATED = "emulated device"
PROBE_CUDA = (
    "import torch; print(torch.cuda.is_available() and torch.cuda.get_device_name(0) or '')"
)


@dataclass(frozen=True)
class Target:
    """A device and how long each job may use it."""

    kind: str
    """``cuda`` or ``emulated``"""
    name: str
    job_s: float
    """seconds that a job trains"""
    short: bool = False
    """whether a stage runs only its first items, as continuous integration does"""
    out: Path = Path("build/gpu")
    """folder of the results and of the recordings that are kept"""

    @property
    def emulated(self) -> bool:
        """Whether every number is of the emulated device, and proves nothing about a GPU."""
        return self.kind == "emulated"

    @cached_property
    def environment(self) -> dict[str, str]:
        """The environment of every process of the proof; whyidle comes from this checkout."""
        paths = [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        environ["PYTHONUNBUFFERED"] = "1"
        if not self.emulated:
            return environ
        return {**add_emulator(environ), "CUDA_VISIBLE_DEVICES": ""}

    @property
    def counters(self) -> dict[str, str]:
        """What the emulated device needs to publish its counters, as a driver does anyway."""
        return {"WHYIDLE_EMULATED_COUNTERS": "counters"} if self.emulated else {}

    def write_script(
        self, script: Path, folder: Path, changes: Sequence[tuple[str, str]] = ()
    ) -> Path:
        """A copy of a job's script, with each text of ``changes`` in place of the other, and of
        what it imports from its folder. In them ``DEVICE`` stands for PyTorch's name of the device.

        On the emulated device the script's first line imports that device; no line moves.

        Raises:
            ValueError: the script does not hold a text that is to be replaced.
        """
        folder.mkdir(parents=True, exist_ok=True)
        for path in script.parent.glob("*.py"):
            shutil.copy(path, folder)
        copy = folder / script.name
        named = [(old, new.replace("DEVICE", self.kind)) for old, new in changes]
        text = change_text(copy.read_text(encoding="utf-8"), named)
        head = "import emulator.device; " if self.emulated else ""
        copy.write_text(head + text, encoding="utf-8")
        return copy


def change_text(text: str, changes: Sequence[tuple[str, str]]) -> str:
    """A text with others in the place of parts of it.

    Raises:
        ValueError: it lacks one of these parts.
    """
    for old, new in changes:
        if old not in text:
            raise ValueError(f"the script lacks {old.strip()!r}")
        text = text.replace(old, new)
    return text


def find_cuda() -> str:
    """The name of the first CUDA device, or an empty text; asked in a process of its own."""
    answer = subprocess.run(
        [sys.executable, "-c", PROBE_CUDA], capture_output=True, text=True, timeout=120, check=False
    )
    return answer.stdout.strip()
