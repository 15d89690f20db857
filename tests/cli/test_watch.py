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
from watched_machines import fleet, gpu, job, machine

from emulator import fake_nvml
from emulator.fake_nvml import training
from whyidle.__main__ import main
from whyidle.cli.watch import select_rows
from whyidle.errors import UsageError
from whyidle.machine.sources import nvml
from whyidle.machine.watch.machine_watch import MachineWatch
from whyidle.model.schema import make_schema
from whyidle.reports._number_format import format_age
from whyidle.reports._watch_table import render_machine

CHECK = jsonschema.Draft202012Validator(make_schema("watch"))
GIB = 1 << 30


@pytest.fixture
def cards(monkeypatch):
    def put(*cards):
        monkeypatch.setitem(sys.modules, "pynvml", fake_nvml.module(cards) if cards else None)

    return put


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
    arguments = ["watch", "--once", "--interval", "0.2", "--fail-on-state"]
    assert main([*arguments, "idle-held"]) == 3
    assert "gpu0 idle-held" in capsys.readouterr().err
    assert main([*arguments, "stalled"]) == 0


def test_a_gate_that_cannot_look_does_not_pass(cards, capsys):
    cards()
    assert main(["watch", "--once", "--interval", "0.2", "--fail-on-state", "stalled"]) == 1
    assert "pip install 'whyidle[nvidia]'" in capsys.readouterr().err


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
    assert not select_rows(both, "root", None).jobs
    assert not select_rows(both, "me", None).jobs


@pytest.mark.parametrize("name", ["nobody-of-that-name", "4294967294000", "-1", ""])
def test_an_unknown_user_is_an_error(name: str):
    with pytest.raises(UsageError, match="There is no user") as caught:
        select_rows(machine([gpu(0)], [job(["GPU-0000"])]), name, None)
    assert caught.value.hint == "Users with jobs: alice"


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
    [
        (0.4, "0 s"),
        (59, "59 s"),
        (700, "12 min"),
        (75, "75 s"),
        (10_900, "3.0 h"),
        (200_000, "2 d"),
    ],
)
def test_lengths_of_time(seconds: float, text: str):
    assert format_age(seconds) == text
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


def test_a_file_of_documents_that_cannot_be_written(cards, capsys):
    cards()
    assert main(["watch", "--json", "none/looks.jsonl", "--interval", "0.2"]) == 1
    assert "Cannot write none/looks.jsonl" in capsys.readouterr().err


def test_alerts_need_more_than_one_look(capsys):
    assert main(["watch", "--once", "--alerts"]) == 2
    assert "cannot be combined with --once" in capsys.readouterr().err
