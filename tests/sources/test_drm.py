"""AMD's and Intel's GPUs, by files as the kernel's documentation describes them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from drm_tree import AMD_FILES, INTEL_FILES, XE_CLIENT, add_card, add_client, make_machine

from whyidle.errors import InputError
from whyidle.model.telemetry import Absent, Target
from whyidle.sources import amd, intel


def test_a_card_of_amd_and_who_holds_it(tmp_path: Path):
    make_machine(tmp_path)
    reader = amd.open(Target(root=tmp_path))
    values = reader.read()
    assert values["busy_ratio@gpu0"] == pytest.approx(0.87)
    assert values["memory_used_bytes@gpu0"] == 40 << 30
    assert values["power_w@gpu0"] == pytest.approx(612)
    assert values["temperature_c@gpu0"] == pytest.approx(61)
    assert values["clock_sm_mhz@gpu0"] == pytest.approx(2100)
    assert values["process_memory_bytes@gpu0.pid4711"] == 30 << 30
    assert reader.facts["uuid@gpu0"] == "GPU-a1b2c3"
    assert reader.facts["pci@gpu0"] == "0000:c1:00.0"


def test_intel_s_cards_follow_amd_s_and_integrated_graphics_are_left_out(tmp_path: Path):
    make_machine(tmp_path)
    reader = intel.open(Target(root=tmp_path))
    values = reader.read()
    assert {key.partition("@")[2] for key in values} == {"gpu1", "gpu1.pid4712"}
    assert values["energy_j@gpu1"] == pytest.approx(123.456789)
    assert values["clock_sm_mhz@gpu1"] == 1550
    assert values["memory_total_bytes@gpu1"] == 12 << 30
    assert values["busy_ratio@gpu1"] is None, "one look at a counter tells nothing"


CARD = "0000:d1:00.0"


def intel_machine(root: Path, clients: dict[int, list[dict[str, int]]]) -> None:
    add_card(root, 0, CARD, INTEL_FILES)
    for pid, shown in clients.items():
        for number, client in enumerate(shown):
            values = {"pci": CARD, "client": pid, "resident": 1024, **client}
            add_client(root, pid, XE_CLIENT.format(**values), str(number))


def test_intel_s_use_is_added_up_over_processes(tmp_path: Path):
    intel_machine(tmp_path, {
        11: [{"cycles": 0, "total": 1000}, {"cycles": 5, "total": 1000, "client": 2}],
        12: [{"cycles": 0, "total": 1000}],
        13: [{"cycles": 0, "total": 1000, "client": 12}],  # forked: shows its parent's client
    })  # fmt: skip
    reader = intel.open(Target(root=tmp_path))
    reader.read()
    intel_machine_later = {
        11: [{"cycles": 250, "total": 2000}, {"cycles": 155, "total": 2000, "client": 2}],
        12: [{"cycles": 300, "total": 2000}],
    }
    for pid, shown in intel_machine_later.items():
        for number, client in enumerate(shown):
            values = {"pci": CARD, "client": pid, "resident": 1024, **client}
            add_client(tmp_path, pid, XE_CLIENT.format(**values), str(number))
    values = reader.read()
    assert values["process_busy_ratio@gpu0.pid11"] == pytest.approx(0.4)
    assert values["process_busy_ratio@gpu0.pid12"] == pytest.approx(0.3)
    assert values["busy_ratio@gpu0"] == pytest.approx(0.7)
    assert values["process_memory_bytes@gpu0.pid11"] == 2 << 20
    assert values["memory_used_bytes@gpu0"] == 3 << 20
    assert values["processes@gpu0"] == 2
    assert not reader.missing


def test_i915_counts_nanoseconds_and_calls_memory_local(tmp_path: Path):
    add_card(tmp_path, 0, CARD, INTEL_FILES)
    shown = (
        f"drm-driver:\ti915\ndrm-pdev:\t{CARD}\ndrm-client-id:\t7\ndrm-total-local0:\t64 MiB\n"
        "drm-memory-system0:\t9 MiB\ndrm-engine-copy:\t5 ns\ndrm-engine-compute:\t{} ns\n"
    )
    add_client(tmp_path, 21, shown.format(0))
    reader = intel.open(Target(root=tmp_path))
    reader.read()
    time.sleep(0.02)
    add_client(tmp_path, 21, shown.format(10**12))
    values = reader.read()
    assert values["busy_ratio@gpu0"] == 1.0
    assert values["memory_used_bytes@gpu0"] == 64 << 20


def test_nobody_uses_a_card_of_intel(tmp_path: Path):
    intel_machine(tmp_path, {})
    values = intel.open(Target(root=tmp_path)).read()
    assert values["busy_ratio@gpu0"] == values["memory_used_bytes@gpu0"] == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root may look at all processes")
def test_hidden_processes_leave_a_card_of_intel_unknown(tmp_path: Path):
    intel_machine(tmp_path, {11: [{"cycles": 0, "total": 1000}], 12: []})
    (tmp_path / "proc/12/fd").mkdir(parents=True)
    (tmp_path / "proc/12/fd").chmod(0)
    reader = intel.open(Target(root=tmp_path))
    values = reader.read()
    assert values["memory_used_bytes@gpu0"] is None
    assert values["process_memory_bytes@gpu0.pid11"] == 1 << 20
    assert "other users" in reader.missing["memory_used_bytes"].reason


def test_what_a_driver_does_not_show_is_unknown(tmp_path: Path):
    device = add_card(tmp_path, 0, "0000:c1:00.0", {**AMD_FILES, "gpu_busy_percent": "N/A"})
    (device / "hwmon/hwmon3/power1_average").unlink()
    values = amd.open(Target(root=tmp_path)).read()
    assert values["busy_ratio@gpu0"] is None
    assert values["power_w@gpu0"] is None
    assert values["processes@gpu0"] == 0


def test_nvidia_s_cards_come_first(tmp_path: Path):
    make_machine(tmp_path)
    for name in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / "proc/driver/nvidia/gpus" / name).mkdir(parents=True)
    assert "busy_ratio@gpu2" in amd.open(Target(root=tmp_path)).read()
    assert "energy_j@gpu3" in intel.open(Target(root=tmp_path)).read()


@pytest.mark.parametrize("source", [amd, intel])
def test_a_machine_without(source, tmp_path: Path):
    assert isinstance(source.probe(Target(root=tmp_path)), Absent)
    with pytest.raises(InputError):
        source.open(Target(root=tmp_path))
