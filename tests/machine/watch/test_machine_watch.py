"""Looks at this machine, with cards that a stand-in for NVML describes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from emulator import fake_nvml
from emulator.fake_nvml import FakeGpu, FakeSlice, training
from whyidle.machine.sources import nvml
from whyidle.machine.tenants import slurm
from whyidle.machine.watch import job_groups
from whyidle.machine.watch.machine_watch import MachineWatch
from whyidle.machine.watch.process_table import ProcessTable, SeenProcess
from whyidle.model.live.tenancy import Reservation

GIB = 1 << 30


@pytest.fixture
def machine(monkeypatch) -> Iterator[Callable[..., MachineWatch]]:
    opened: list[MachineWatch] = []

    def put(*cards: FakeGpu) -> MachineWatch:
        monkeypatch.setitem(sys.modules, "pynvml", fake_nvml.module(cards))
        opened.append(MachineWatch(sources={"nvml": nvml}))
        return opened[0]

    yield put
    for watch in opened:
        watch.close()


@pytest.fixture
def sleeper() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process.pid
        process.terminate()


def card(busy: int, *holders: tuple[int, int], power_w: float = 100.0, **more) -> FakeGpu:
    answers = {
        "UtilizationRates": SimpleNamespace(gpu=busy, memory=0),
        "PowerUsage": int(power_w * 1000),
        "CurrentClocksEventReasons": 0,
        "ComputeRunningProcesses": [
            SimpleNamespace(pid=pid, usedGpuMemory=size) for pid, size in holders
        ],
    }
    used = sum(size for _, size in holders)
    return training(answers=answers, memory=(used, 80 * GIB), gpm=None, **more)


def test_a_machine_without_gpus_says_why(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    watch = MachineWatch(sources={"nvml": nvml})
    look = watch.look()
    watch.close()
    assert look.gpus == []
    assert look.absent is not None
    assert "nvidia-ml-py" in look.absent.reason
    assert "pip install" in look.absent.how
    assert look.host.memory_bytes


def test_free_and_held_and_working(machine, sleeper):
    watch = machine(
        card(0, uuid="GPU-a"),
        card(0, (sleeper, 40 * GIB), uuid="GPU-b"),
        card(97, (os.getppid(), 20 * GIB), uuid="GPU-c", power_w=600.0),
    )
    watch.look()
    look = watch.look()
    free, held, working = look.gpus
    assert (free.state, free.jobs) == ("free", [])
    assert working.state == "active"
    assert held.uuid == "GPU-b"
    job = next(job for job in look.jobs if job.key in held.jobs)
    assert sleeper in job.pids
    assert job.gpus == ["GPU-b"]
    assert job.gpu_memory_bytes == 40 * GIB
    assert job.user


def test_a_sleeping_holder_is_idle_held_once_it_is_a_minute_old(machine, sleeper, monkeypatch):
    watch = machine(card(0, (sleeper, 40 * GIB)))
    watch.look()
    assert watch.look().gpus[0].state == "starved"  # it may still be importing
    monkeypatch.setattr(watch._table, "age_s", lambda pid: 61.0)  # time cannot be waited for
    gpu = watch.look().gpus[0]
    assert gpu.state == "idle-held"
    assert gpu.reason is not None
    assert gpu.reason.text.startswith("likely abandoned: holds 40 GiB")
    assert not gpu.reason.proven


def test_a_process_that_cannot_be_seen(machine):
    watch = machine(card(0, (2**30, 40 * GIB)))
    watch.look()
    look = watch.look()
    job = next(job for job in look.jobs if job.pid == 2**30)
    assert job.user is None
    assert "PID namespace" in job.unread[0]
    assert look.gpus[0].state == "starved"
    assert "cannot be seen" in look.gpus[0].reason.text


def test_in_a_container_a_number_names_a_process_only_if_it_has_the_device_open(tmp_path):
    """The driver counts processes of the machine; the same number may be another one inside."""
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidiactl").touch()
    for pid, opened in ((7, "/dev/nvidia0"), (8, "/dev/null")):
        folder = tmp_path / f"proc/{pid}"
        (folder / "fd").mkdir(parents=True)
        (folder / "fd/3").symlink_to(opened)
        (folder / "stat").write_text(f"{pid} (python) S 1 " + "0 " * 50)
        (folder / "cmdline").write_bytes(b"python\0train.py\0")
        (folder / "cgroup").write_text("0::/\n")
    namespace = tmp_path / "proc/self/ns/pid"
    namespace.parent.mkdir(parents=True)
    namespace.symlink_to("pid:[4026532001]")
    table = ProcessTable(tmp_path)
    table.refresh()
    assert [pid for pid in (7, 8, 9) if table.is_driver_pid(pid)] == [7]
    namespace.unlink()
    namespace.symlink_to("pid:[4026531836]")
    assert [pid for pid in (7, 8, 9) if table.is_driver_pid(pid)] == [7, 8]


def test_memory_of_nobody(machine):
    watch = machine(training(answers={"ComputeRunningProcesses": []}, memory=(GIB * 9, GIB * 80)))
    watch.look()
    assert watch.look().gpus[0].state == "active"  # busy, by somebody


def test_slices_are_rows_of_their_own(machine, sleeper):
    slices = [FakeSlice("MIG-1", 1), FakeSlice("MIG-2", 2)]
    watch = machine(card(0, (sleeper, GIB), uuid="GPU-a", slices=slices, split=True))
    watch.look()
    look = watch.look()
    assert [gpu.uuid for gpu in look.gpus] == ["MIG-1", "MIG-2"]
    assert {gpu.card for gpu in look.gpus} == {"GPU-a"}
    assert all(gpu.busy is None for gpu in look.gpus)  # NVML has none, and zero would be a lie


def test_a_lost_card(machine):
    watch = machine(card(0), card(50, lost=True))
    look = watch.look()
    assert {gpu.gpu: gpu.state for gpu in look.gpus} == {"gpu0": "free", "gpu1": "lost"}


def test_a_reservation_without_a_process(machine, monkeypatch):
    held = Reservation(job="12", user="alice", ordinals=(0, 1), labels={"slurm_job": "12"})
    monkeypatch.setattr(slurm, "reserve", lambda: [held])  # no scheduler runs here
    watch = machine(card(0, uuid="GPU-a"), card(0, uuid="GPU-b"), card(0, uuid="GPU-c"))
    watch.look()
    look = watch.look()
    assert [gpu.state for gpu in look.gpus] == ["idle-reserved", "idle-reserved", "free"]
    assert "job 12 of alice" in look.gpus[0].reason.text
    job = next(job for job in look.jobs if job.key == "slurm:12")
    assert (job.user, job.gpus) == ("alice", ["GPU-a", "GPU-b"])


def test_a_used_and_an_unused_gpu_of_one_process_have_sentences_of_their_own(
    machine, sleeper: int, monkeypatch
):
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    holder = (sleeper, 10 * GIB)
    watch = machine(card(0, holder), card(40, holder))
    for _ in range(5):
        now[0] += 10.0
        look = watch.look()
    idle, busy = look.gpus
    assert (idle.state, busy.state) == ("idle-held", "starved")
    assert "not run a kernel here" in idle.reason.text
    assert "busy 40 %" in busy.reason.text or "busy 40%" in busy.reason.text


def test_a_search_is_one_job_under_the_name_of_its_script(tmp_path):
    table, launcher = ProcessTable(tmp_path), f"{job_groups._PACKAGE}planning/launcher.py"
    for trial, pid in enumerate((100, 200)):
        environ = {"WHYIDLE_RUN": f"/s/{trial}/recording", "WHYIDLE_SEARCH": "/s"}
        for number, words in ((pid, ["-IS", launcher, "train.py"]), (pid + 1, ["train.py"])):
            parent = 1 if number == pid else pid
            command = ["python", *words]
            table.processes[number] = SeenProcess(
                number, parent, number, "me", command, "", environ
            )
    (job,) = job_groups.group_jobs(table, []).values()
    assert (job.root, job.pids) == (101, {101, 201})
