"""The probe inside processes that run already."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from whyidle.engine.attachment import injection
from whyidle.engine.attachment.injection import execute_remotely, look_from_inside
from whyidle.engine.attachment.target_process import TargetProcess, find_target
from whyidle.engine.recording.launcher import BOOT
from whyidle.errors import InputError

JOB = """
import atexit, gc, os, signal, sys, time
import torch
from torch.optim import optimizer as optimizers
from torch.utils.data import DataLoader, Dataset, dataloader

class Numbers(Dataset):
    def __len__(self):
        return 1 << 20
    def __getitem__(self, index):
        time.sleep(0.01)
        return torch.full((8,), float(index % 7))

def run_entry(*_):
    exec(open(sys.argv[1]).read(), {})

def exits():  # before Python 3.14 those that were cancelled count, too
    return atexit._ncallbacks() if sys.version_info >= (3, 14) else 0

def state():
    functions = [torch.autograd.backward, dataloader._BaseDataLoaderIter.__next__, torch.save,
                 dataloader.DataLoader._get_iterator, torch.nn.Module.eval, os._exit, gc.collect,
                 sys.excepthook, sys.unraisablehook, os.replace]
    hooks = [optimizers._global_optimizer_pre_hooks, optimizers._global_optimizer_post_hooks]
    return [
        [id(one) for one in functions], [len(one) for one in hooks], dict(os.environ),
        len(gc.callbacks), exits(), [type(one) for one in sys.meta_path],
        sorted(name for name in sys.modules if "whyidle" in name), os.listdir("/proc/self/task"),
        sorted(os.listdir("/proc/self/fd")),
    ]

signal.signal(signal.SIGUSR1, run_entry)
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for number, x in enumerate(DataLoader(Numbers(), batch_size=4)):
    loss = model(x).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if number == 3:
        before = state()
        print("go", flush=True)
    if os.path.exists(sys.argv[1] + ".end"):
        break
after = state()
other = [pair for pair in zip(before, after) if pair[0] != pair[1]]
print(other or "the same")
"""
IDLE = "import time\nprint('up', flush=True)\nwhile True: time.sleep(0.02)\n"


@contextmanager
def started(*words: str) -> Iterator[subprocess.Popen[str]]:
    """A process, after its first line of output."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline()
            yield running
        finally:
            running.kill()


def load_file() -> ModuleType:
    spec = importlib.util.spec_from_file_location("running_process", BOOT / "running_process.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.real_processes("a real process is recorded for seconds")
def test_a_running_loop_is_recorded_and_left_without_a_trace(tmp_path: Path):
    pytest.importorskip("torch")
    place = tmp_path / "entry"

    def signal_job(target: TargetProcess, entry: Path) -> None:
        """What Python 3.14 does by itself: the main thread executes the file."""
        shutil.copy(entry, place)
        os.kill(target.pid, signal.SIGUSR1)

    (tmp_path / "job.py").write_text(JOB)
    with started(sys.executable, str(tmp_path / "job.py"), str(place)) as job:
        diagnosis = look_from_inside(find_target(job.pid), 3, signal_job)
        (tmp_path / "entry.end").touch()
        rest, _ = job.communicate(timeout=30)
        assert job.returncode == 0
    assert rest.strip() == "the same"
    assert diagnosis.findings[0].cause == "dataloader-no-workers"
    assert diagnosis.findings[0].where[0].function == "__getitem__"
    assert diagnosis.steps.count >= 3  # on a machine that others use, too
    assert diagnosis.steps.mean_s is not None
    assert diagnosis.steps.mean_s > 0.04  # four samples of 10 ms
    assert diagnosis.run.exit_status is None
    assert "look from inside" in diagnosis.coverage.notes[0]


def test_a_look_that_was_given_up_is_not_begun_and_its_folder_removed(tmp_path: Path):
    folder = tmp_path / "look"
    folder.mkdir()
    (folder / "entry.py").touch()
    load_file().record_process(str(folder / "alive"), str(folder / "injected.json"), 1.0)
    assert not folder.exists()


def test_nothing_begins_once_whoever_asked_has_died(tmp_path: Path):
    (tmp_path / "alive").touch()  # and nobody has locked it
    load_file().record_process(str(tmp_path / "alive"), str(tmp_path / "injected.json"), 1.0)
    assert not (tmp_path / "injected.json").exists()


def test_a_process_that_is_switched_off_is_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("WHYIDLE_DISABLE", "1")
    with (tmp_path / "alive").open("wb") as alive:
        fcntl.flock(alive, fcntl.LOCK_EX)
        told = tmp_path / "injected.json"
        load_file().record_process(str(tmp_path / "alive"), str(told), 1.0)
    assert json.loads(told.read_text())["why"] == "Its environment says WHYIDLE_DISABLE=1."


def test_a_process_without_a_framework_is_an_error():
    with (
        started(sys.executable, "-c", IDLE) as job,
        pytest.raises(InputError, match="has loaded neither"),
    ):
        look_from_inside(find_target(job.pid), 3)


def test_an_older_python_and_another_program_are_errors(tmp_path: Path):
    entry = tmp_path / "entry.py"
    entry.touch()
    with started(sys.executable, "-c", IDLE) as job:
        if sys.version_info < (3, 14):
            with pytest.raises(InputError, match=r"3\.14 is the first") as caught:
                execute_remotely(find_target(job.pid), entry)
            assert "whyidle attach" in caught.value.hint
            entry.touch()
    with subprocess.Popen(["sleep", "30"]) as other:
        time.sleep(0.1)
        with pytest.raises(InputError, match="Its program is"):
            execute_remotely(find_target(other.pid), entry)
        other.kill()


def test_a_main_thread_that_waits_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(injection, "ENTERED_S", 0.2)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(injection.tempfile, "tempdir", None)
    with started(sys.executable, "-c", IDLE) as job:
        target = replace(find_target(job.pid), libraries=frozenset({"torch"}))
        with pytest.raises(InputError, match=r"has run no Python for 0\.2 s"):
            look_from_inside(target, 3, lambda *_: None)
    (folder,) = tmp_path.glob("whyidle-attach-*")
    assert [path.name for path in folder.iterdir()] == ["entry.py"]  # it finds no look


@pytest.fixture
def python_314() -> str:
    found = os.environ.get("WHYIDLE_PYTHON_314") or shutil.which("python3.14")
    if found is None:
        pytest.skip("no python3.14 on PATH, and none in WHYIDLE_PYTHON_314")
    return found


@pytest.mark.real_processes("a real process of Python 3.14 is entered")
def test_python_3_14_executes_an_entry(python_314: str, tmp_path: Path):
    entry, told = tmp_path / "entry.py", tmp_path / "told"
    entry.write_text(f"open({str(told)!r}, 'w').close()")
    with started(python_314, "-c", IDLE) as job:
        execute_remotely(find_target(job.pid), entry)
        for _ in range(100):
            if told.exists():
                break
            time.sleep(0.05)
        assert told.exists()
        assert job.poll() is None


@pytest.mark.real_processes("a real process of Python 3.14 is entered")
def test_python_3_14_that_allows_no_remote_execution_is_told(python_314: str, tmp_path: Path):
    entry = tmp_path / "entry.py"
    entry.touch()
    with (
        started(python_314, "-X", "disable-remote-debug", "-c", IDLE) as job,
        pytest.raises(InputError, match="PYTHON_DISABLE_REMOTE_DEBUG"),
    ):
        execute_remotely(find_target(job.pid), entry)


@pytest.mark.real_processes("a real process of Python 3.14 is recorded for seconds")
def test_python_3_14_is_recorded_by_itself(python_314: str, tmp_path: Path):
    words = [python_314, "-c", "import torch"]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip(f"{python_314} has no PyTorch")
    (tmp_path / "job.py").write_text(JOB)
    with started(python_314, str(tmp_path / "job.py"), str(tmp_path / "entry")) as job:
        diagnosis = look_from_inside(find_target(job.pid), 3)
        (tmp_path / "entry.end").touch()
        rest, _ = job.communicate(timeout=30)
    assert rest.strip() == "the same"
    assert diagnosis.findings[0].cause == "dataloader-no-workers"
