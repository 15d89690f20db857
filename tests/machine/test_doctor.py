"""What doctor sees, on file systems made for the purpose."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from emulator import fake_nvml
from whyidle.machine import doctor
from whyidle.machine.doctor import Check, examine_machine


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def named(checks: list[Check], name: str) -> Check:
    return next(check for check in checks if check.name == name)


def test_no_gpu(tmp_path: Path):
    (check,) = doctor.check_gpus(tmp_path)
    assert check.state == "absent"


def test_a_driver_without_the_binding_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    root = write(tmp_path, {"proc/driver/nvidia/version": "NVRM version: 550.54.15"})
    monkeypatch.setitem(sys.modules, "pynvml", None)  # as if it were not installed
    (check,) = doctor.check_gpus(root)
    assert (check.state, check.close) == ("gap", "pip install 'whyidle[nvidia]'")


def test_cards_are_named_and_a_broken_driver_is_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    root = write(tmp_path, {"dev/nvidia0": ""})
    library = fake_nvml.module([fake_nvml.training()])
    monkeypatch.setitem(sys.modules, "pynvml", library)
    assert [check.state for check in doctor.check_gpus(root)] == ["ok"]

    def fail() -> None:
        raise library.NVMLError("Driver Not Loaded")

    monkeypatch.setattr(library, "nvmlInit", fail)
    (check,) = doctor.check_gpus(root)
    assert check.state == "gap"
    assert "--gpus all" in check.close


def test_small_shared_memory_and_few_open_files_say_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(doctor.resource, "getrlimit", lambda _: (256, 8192))
    checks = examine_machine(root=tmp_path, environ={}, store=tmp_path).checks
    assert "--shm-size" in named(checks, "/dev/shm").close
    assert named(checks, "open files").close == "ulimit -n 8192"


def test_the_whole_examination_changes_nothing(tmp_path: Path):
    store = tmp_path / "not" / "there"
    machine = examine_machine(root=tmp_path, environ={}, store=store)
    assert {check.topic for check in machine.checks} == {"software", "gpu", "host", "storage"}
    assert list(tmp_path.iterdir()) == []
    gaps = [check for check in machine.checks if check.state == "gap"]
    assert all(check.means and check.close for check in gaps)


def test_a_cpu_build_beside_a_gpu_is_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    package = {"torch-2.13.0+cpu.dist-info/METADATA": "Name: torch\nVersion: 2.13.0+cpu\n"}
    monkeypatch.syspath_prepend(write(tmp_path, package))
    assert named(doctor.check_software(gpu=True), "torch build").state == "gap"
    assert not [c for c in doctor.check_software(gpu=False) if c.state == "gap"]


def test_every_verb_that_needs_an_extra_says_which(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        doctor,
        "installed_version",
        lambda name: None if name in ("duckdb", "lightkube") else "1",
    )
    checks = doctor.check_software(gpu=False)
    assert named(checks, "whyidle attach").state == "ok"
    for verb, package in (("fleet", "duckdb"), ("fleet --ledger kubernetes", "lightkube")):
        check = named(checks, f"whyidle {verb}")
        assert (check.state, check.found) == ("absent", f"{package} is not installed")
        assert check.close == f"pip install 'whyidle[{verb.split()[-1]}]'"
