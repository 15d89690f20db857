"""`whyidle alerts`, and alerts beside a watch."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from emulator import fake_nvml
from emulator.fake_nvml import training
from whyidle.__main__ import main

FILE = """
use = ["held"]
interval_s = 1
[[rule]]
id = "held"
summary = "held"
of = "gpu"
signal = "whyidle_gpu_state"
labels = { state = "idle-held" }
above = 0.5
window_s = 2
coverage = 0.1
"""


def test_the_shipped_rules_are_listed(capsys):
    assert main(["alerts"]) == 0
    assert "idle-reserved" in capsys.readouterr().out
    assert main(["alerts", "--json", "-"]) == 0
    rules = json.loads(capsys.readouterr().out)
    assert {"stalled", "regression", "xid"} <= {rule["id"] for rule in rules}


def test_a_rule_file_for_prometheus(capsys, tmp_path: Path):
    assert main(["alerts", "--rules"]) == 0
    assert capsys.readouterr().out.count("- alert:") == 10
    path = tmp_path / "alerts.toml"
    path.write_text(FILE)
    target = tmp_path / "rules.yml"
    assert main(["alerts", str(path), "--rules", str(target), "--quiet"]) == 0
    assert target.read_text().count("- alert:") == 1


def test_routes_can_be_tried(capsys, tmp_path: Path):
    assert main(["alerts", "--test"]) == 0
    assert "a test of this route" in capsys.readouterr().out
    path = tmp_path / "alerts.toml"
    path.write_text(FILE + '[[route]]\nkind = "command"\nargv = ["false"]\n')
    assert main(["alerts", str(path), "--test"]) == 1
    error = capsys.readouterr().err
    assert error.count("not published") == 1
    assert "Not delivered by command" in error
    path.write_text(FILE + '[[route]]\nkind = "pigeon"\n')
    assert main(["alerts", str(path), "--test"]) == 2


def test_a_watch_tells_what_fires(capsys, tmp_path: Path, monkeypatch):
    held = {"UtilizationRates": SimpleNamespace(gpu=0, memory=0), "ComputeRunningProcesses": []}
    card = training(answers=held, memory=(30 << 30, 80 << 30))
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml.module([card]))
    path = tmp_path / "alerts.toml"
    path.write_text(FILE)
    looks = iter(range(2))

    def sleep(seconds: float) -> None:
        if next(looks, None) is None:
            raise KeyboardInterrupt  # as the user would

    clock = SimpleNamespace(sleep=sleep, monotonic=time.monotonic)
    monkeypatch.setattr("whyidle.cli.watch.time", clock)  # others sleep as they will
    arguments = ["watch", "--alerts", str(path), "--interval", "0.25", "--json", "looks.jsonl"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert out.count("[FIRING] held GPU 0 on ") == 1
    assert "30 GiB are held" in out


@pytest.mark.parametrize("route", ['kind = "pigeon"', 'kind = "command"\nargv = "x"'])
def test_checking_a_file_checks_its_routes(route: str, tmp_path: Path, capsys):
    path = tmp_path / "alerts.toml"
    path.write_text(f"[[route]]\n{route}\n")
    assert main(["alerts", str(path)]) == 2
    assert "route" in capsys.readouterr().err
