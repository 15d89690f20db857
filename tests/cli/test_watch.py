"""`whyidle watch`: documents and tables of looks at this machine."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import msgspec
import pytest

from emulator import fake_nvml
from emulator.fake_nvml import training
from whyidle.__main__ import main
from whyidle.cli.watch import select_rows
from whyidle.engine.monitoring.machine_watch import MachineWatch
from whyidle.errors import UsageError
from whyidle.exporters._watch_table import render_machine, short_time
from whyidle.model.diagnosis import Place
from whyidle.model.schema import make_schema
from whyidle.model.watch_document import (
    Reason,
    Tenant,
    WatchedGpu,
    WatchedHost,
    WatchedJob,
    WatchedMachine,
)
from whyidle.sources import nvml

CHECK = jsonschema.Draft202012Validator(make_schema("watch"))
GIB = 1 << 30


@pytest.fixture
def cards(monkeypatch):
    def put(*cards):
        monkeypatch.setitem(sys.modules, "pynvml", fake_nvml.module(cards) if cards else None)

    return put


def reason(text: str) -> Reason:
    return Reason(
        text=text,
        proven=True,
        cause="dataloader-no-workers",
        place=Place(file="train.py", line=64, function="main"),
    )


def gpu(index: int, state: str = "active", **changes) -> WatchedGpu:
    made = WatchedGpu(
        gpu=f"gpu{index}", uuid=f"GPU-{index:04}", name="H100", card=None, pci=None, state=state,
        since_s=700.0, busy=0.31, sm_active=0.2, tensor_active=0.08, dram_active=0.3,
        memory_used_bytes=40 * GIB, memory_bytes=80 * GIB, power_w=190.0, power_limit_w=700.0,
        energy_j=1.0, temperature_c=60.0, clock_reasons=[], held_back_s={}, xid_events=0,
        xid_last=None, jobs=["slurm:4711"], reason=None,
    )  # fmt: skip
    return msgspec.structs.replace(made, **changes)


def job(gpus: list[str], **changes) -> WatchedJob:
    made = WatchedJob(
        key="slurm:4711", pid=7, pids=[7, 8], user="alice",
        tenant=Tenant(kind="slurm", job="4711", labels={}), command="/usr/bin/python train.py",
        age_s=9000.0, gpus=gpus, gpu_memory_bytes=40 * GIB, cores_used=1.2, memory_bytes=GIB,
        state="starved", since_s=700.0, steps=None, reason=reason("input 59 %"), suspicions=[],
        unread=[],
    )  # fmt: skip
    return msgspec.structs.replace(made, **changes)


def machine(gpus: list[WatchedGpu], jobs: list[WatchedJob]) -> WatchedMachine:
    host = WatchedHost(
        name="node7", cores=64.0, cores_used=8.0, memory_bytes=GIB, memory_used_bytes=GIB,
        pressure_cpu=0.1, pressure_io=0.0, pressure_memory=0.0,
    )  # fmt: skip
    return WatchedMachine(
        time="2026-11-27T14:02:10.000+00:00", window_s=1.0, host=host, driver="580.95", gpus=gpus,
        absent=None, jobs=jobs, notes=[],
    )  # fmt: skip


def fleet(count: int) -> WatchedMachine:
    states = ["starved", "idle-held", "active", "free"]
    gpus = [gpu(n, states[n % 4], reason=reason("input 59 %")) for n in range(count)]
    return machine(gpus, [job([one.uuid or "" for one in gpus])])


def test_one_look_without_a_gpu(cards, capsys):
    cards()
    assert main(["watch", "--once", "--json", "--interval", "0.2"]) == 0
    document = json.loads(capsys.readouterr().out)
    CHECK.validate(document)
    assert document["gpus"] == []
    assert "nvidia-ml-py" in document["absent"]["reason"]
    assert document["host"]["memory_bytes"] > 0


def test_the_table_without_a_gpu_says_what_to_do(cards, capsys):
    cards()
    assert main(["watch", "--once", "--interval", "0.2"]) == 0
    out = capsys.readouterr().out
    assert "no GPU is shown" in out
    assert "pip install 'whyidle[nvidia]'" in out


def test_a_gate_that_does_not_hold(cards, capsys):
    idle = {"UtilizationRates": SimpleNamespace(gpu=0, memory=0), "ComputeRunningProcesses": []}
    cards(training(answers=idle, memory=(30 * GIB, 80 * GIB)))
    arguments = ["watch", "--once", "--interval", "0.2", "--fail-on"]
    assert main([*arguments, "idle-held"]) == 3
    assert "gpu0 idle-held" in capsys.readouterr().err
    assert main([*arguments, "stalled"]) == 0


def test_documents_keep_the_schema(cards):
    cards(training())
    watch = MachineWatch(sources={"nvml": nvml})
    watch.look()
    CHECK.validate(json.loads(msgspec.json.encode(watch.look())))
    watch.close()


@pytest.mark.parametrize("word", ["x", "0", "1e9"])
def test_an_impossible_interval(word, capsys):
    assert main(["watch", "--once", "--interval", word]) == 2
    assert "seconds" in capsys.readouterr().err


def test_an_unknown_state(capsys):
    assert main(["watch", "--once", "--fail-on", "bored"]) == 2
    assert "idle-held" in capsys.readouterr().err


def test_rows_are_selected_by_user_and_gpu():
    other = job(["GPU-0001"], key="pid:9", user="bob")
    both = machine(
        [gpu(0), gpu(1, jobs=["pid:9"]), gpu(2, "free", jobs=[])], [job(["GPU-0000"]), other]
    )
    assert [one.gpu for one in select_rows(both, "bob", None).gpus] == ["gpu1"]
    assert [one.user for one in select_rows(both, None, ["0", "gpu2"]).jobs] == ["alice"]
    assert [one.gpu for one in select_rows(both, None, ["GPU-0001"]).gpus] == ["gpu1"]
    with pytest.raises(UsageError, match="gpu0, gpu1, gpu2"):
        select_rows(both, None, ["7"])


@pytest.mark.parametrize("width", [40, 80, 100, 160, 240])
@pytest.mark.parametrize("count", [1, 8, 64])
def test_tables_fit_and_keep_the_reason(width: int, count: int):
    text = render_machine(fleet(count), width=width, colours=None)
    assert max(map(len, text.split("\n"))) <= width
    text.encode("ascii")
    assert text.count("starved") >= (count + 3) // 4
    assert text.count("input 59 %") == count


def test_a_short_screen_keeps_what_matters():
    text = render_machine(fleet(64), width=100, colours=None, height=40)
    assert text.count("\n") <= 40
    assert text.count("idle-held") == 17  # and the head counts them
    assert "alice slurm 4711: input 59 %" in text
    assert "16 more active, 16 more free" in text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (59, "59 s"), (700, "12 min"), (10_900, "3 h"), (200_000, "2 d")],
)
def test_lengths_of_time(seconds: float, text: str):
    assert short_time(seconds) == text
    assert len(text) <= 6


def test_jobs_without_a_gpu_tell_their_reason():
    text = render_machine(machine([], [job([], key="run:1")]), width=80, colours=None)
    assert "jobs without a GPU" in text
    assert "input 59 % (train.py:64" in text


def test_lines_of_documents_are_appended(cards, tmp_path: Path, monkeypatch):
    cards()
    target = tmp_path / "looks.jsonl"
    waits = iter([None, None])

    def sleep(seconds):
        if next(waits, seconds) is not None:
            raise KeyboardInterrupt  # as the user would

    clock = SimpleNamespace(sleep=sleep, monotonic=time.monotonic)
    monkeypatch.setattr("whyidle.cli.watch.time", clock)  # others sleep as they will
    assert main(["watch", "--json", str(target), "--interval", "0.2"]) == 0
    lines = target.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 2
    for line in lines:
        CHECK.validate(json.loads(line))
