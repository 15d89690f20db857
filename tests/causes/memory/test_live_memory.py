"""A training job in a control group that is too small for it, and in one with room."""

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import whyidle

pytest.importorskip("torch")

pytestmark = pytest.mark.live

JOB = Path(__file__).with_name("memory_job.py")
SOURCE = Path(whyidle.__file__).parent.parent
LIMIT = 640 << 20
CACHED, SPARED = "256", "0"
"""MB that the job keeps for itself: what is left is less than its file, or more"""


def group():
    """An empty control group below our own, of whichever version has limits of memory."""
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        for mount, limit in (("memory", "memory.limit_in_bytes"), ("", "memory.max")):
            if controllers == mount:
                folder = Path("/sys/fs/cgroup", mount, path.lstrip("/"), f"limited{os.getpid()}")
                with contextlib.suppress(OSError):
                    folder.mkdir()
                    if (folder / limit).exists():
                        return folder, folder / limit
                    folder.rmdir()
    return pytest.skip("no memory control group can be made below ours")


@pytest.fixture
def limited():
    if not Path("/proc/pressure/memory").exists():
        pytest.skip("the kernel does not tell its pressure (PSI)")
    folder, limit = group()
    try:
        try:
            limit.write_text(str(LIMIT))
        except OSError as error:
            pytest.skip(f"no limit can be set on memory: {error}")
        yield folder
    finally:
        for _ in range(50):  # until those in it are gone
            with contextlib.suppress(OSError):
                folder.rmdir()
            if not folder.exists():
                break
            time.sleep(0.1)


def watched(folder, held, within):
    """The findings of the job, all of it within the group."""
    entries = [str(SOURCE), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    run = [sys.executable, "-m", "whyidle", "run", "--quiet", "--no-store", "--json", "told.json"]
    enter = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(within / "cgroup.procs")]
    subprocess.run(
        [*enter, *run, sys.executable, str(JOB), held],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(entries)},
        check=True,
        capture_output=True,
        timeout=120,
    )
    return json.loads((folder / "told.json").read_text())["findings"]


def test_a_group_that_is_too_small_is_the_first_finding(tmp_path, limited):
    first = watched(tmp_path, CACHED, limited)[0]
    assert first["cause"] == "host-memory-pressure"
    assert first["severity"] != "info"
    values = {row["quantity"]: row["value"] for row in first["evidence"]}
    assert values["limit of the job's control group"] == LIMIT
    assert values["memory of the job's control group"] > 0.9 * LIMIT
    assert values["page faults that waited for storage"] > 100
    assert first["fixes"]


def test_with_room_it_is_silent(tmp_path, limited):
    found = watched(tmp_path, SPARED, limited)
    assert "host-memory-pressure" not in [one["cause"] for one in found]
