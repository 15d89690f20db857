"""What ``fix`` asks for before it starts, and how it ends when it is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from functools import partial
from pathlib import Path

import pytest

from whyidle.errors import TrialError
from whyidle.fix.arms import isolation_report as _kept_in
from whyidle.fix.arms.isolation_report import TrialIsolation, told_of
from whyidle.fix.isolation import Leak, isolate, landlock
from whyidle.fix.isolation.disk_space import DiskRoom

pytestmark = pytest.mark.real_processes("signals reach a process that is starting")


def test_with_a_network_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TrialError, match="would overwrite") as caught:
        TrialIsolation(network=True).check_isolation(["python"], yes=False)
    assert "--network --yes" in caught.value.hint
    kept = TrialIsolation(network=True)
    kept.check_isolation(["python"], yes=True)
    assert kept.level


def test_a_launcher_is_not_started_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    kept = TrialIsolation(network=False)
    with pytest.raises(TrialError, match="cannot be isolated"):
        kept.check_isolation(["ssh", "node", "python", "train.py"], yes=False)
    with pytest.raises(TrialError, match="Processes started by docker cannot be isolated"):
        kept.check_isolation(["sudo", "bash", "-c", "cd here && docker run image"], yes=False)
    kept.check_isolation(["ssh", "node"], yes=True)
    kept.check_isolation(["python", "train.py"], yes=False)


def test_where_programs_reach_the_network_it_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """As where Landlock is of a kernel before Linux 6.7."""
    monkeypatch.chdir(tmp_path)
    text = landlock.FENCE.read_text().replace(
        "return system_call(CREATE, None,", "return 3 or system_call(CREATE,"
    )
    (tmp_path / "fence.py").write_text(text)
    monkeypatch.setattr(landlock, "FENCE", tmp_path / "fence.py")
    monkeypatch.setattr(_kept_in, "isolate", partial(isolate, best="landlock"))
    kept = TrialIsolation(network=False)
    kept.check_isolation(["python", "train.py"], yes=True)
    if kept.level != "landlock":
        pytest.skip("no Landlock to be had here")
    with pytest.raises(TrialError, match=r"Linux 6\.7") as caught:
        kept.check_isolation(["python", "train.py"], yes=False)
    assert "reach the network" in caught.value.what
    TrialIsolation(network=True).check_isolation(["python", "train.py"], yes=True)


def test_what_is_not_held_back_is_told_apart():
    leaks = [Leak("connection to hub:443", "a.py:1"), Leak("program rclone", "a.py:2", held=False)]
    assert told_of(leaks, network=False) == [
        f"Blocked in trials: connection to hub:443 (a.py:1). {_kept_in.SENT}",
        "Not blocked in trials: program rclone (a.py:2).",
    ]
    assert told_of(leaks[1:], network=False) == ["Not blocked in trials: program rclone (a.py:2)."]
    assert told_of(leaks, network=True) == [
        "Allowed in trials (--network): connection to hub:443 (a.py:1); program rclone (a.py:2)."
    ]


def test_what_a_connection_costs_is_said_to_be_missing_and_how_to_get_it():
    sends = Leak("connection to 127.0.0.1:8765", f"{Path.cwd() / 'train.py'}:70")
    (told,) = told_of([sends], network=False)
    assert "connection to 127.0.0.1:8765 (train.py:70)." in told
    assert "times do not include it" in told
    assert "--network --yes" in told
    others = [Leak("write to /x refused", "a.py:1"), Leak("connection or look-up, by C", "")]
    assert not [text for text in told_of(others, network=False) if "--network" in text]


def test_with_too_little_room_for_temporary_files_nothing_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(_kept_in, "disk_room", lambda place: DiskRoom(245_000, 3_000_000))
    monkeypatch.setattr(_kept_in, "isolate", lambda *_, **__: pytest.fail("started"))
    with pytest.raises(TrialError) as caught:
        TrialIsolation(network=False).check_isolation(["python", "train.py"], yes=True)
    assert f"{tmp_path}, has 0.2 MB left" in caught.value.what
    assert "TMPDIR=" in caught.value.hint

    def nowhere() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    with pytest.raises(TrialError, match="No usable temporary directory") as caught:
        TrialIsolation(network=False).check_isolation(["python", "train.py"], yes=True)
    assert "TMPDIR=" in caught.value.hint


def test_an_arm_is_not_kept_in_by_less_than_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    kept = TrialIsolation(network=False)
    kept.check_isolation(["python", "train.py"], yes=True)
    if kept.level == "python":
        pytest.skip("there is nothing less")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with kept.isolate_arm(tmp_path / "one"):
        pass
    monkeypatch.setattr(_kept_in, "isolate", partial(isolate, best="python"))
    with pytest.raises(TrialError, match=f"{kept.level} and is now only python") as caught:
        kept.isolate_arm(tmp_path / "two").__enter__()
    assert "no longer" in caught.value.what
    with TrialIsolation(network=False).isolate_arm(tmp_path / "one"):
        pass  # whoever has found no better one goes on


ARM = """
    import subprocess, sys
    from pathlib import Path
    from whyidle.fix.arms.isolation_report import TrialIsolation

    top = Path(sys.argv[1])
    folder = top / "arm-1"
    folder.mkdir()
    kept = TrialIsolation(network=False)
    with kept.isolate_arm(folder) as guard:
        print((folder / "scratch").exists(), (top / ".made-by.json").exists(), flush=True)
        subprocess.run(guard.command(["sleep", "50"]))
"""


@pytest.mark.usefixtures("default_hangup")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_ends_it_ends_the_arm_first(tmp_path: Path, number: signal.Signals):
    folder = Path(tempfile.mkdtemp(prefix="whyidle-fix-", dir=tmp_path))
    words = [sys.executable, "-c", textwrap.dedent(ARM), str(folder)]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        words, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout.readline() == "True True\n"
        child.send_signal(number)
        assert child.wait(60) == 128 + number
    assert not (folder / "arm-1" / "scratch").exists()
