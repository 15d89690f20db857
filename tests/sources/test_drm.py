"""AMD's and Intel's GPUs, by files as the kernel's documentation describes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from drm_tree import AMD_FILES, add_card, make_machine

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
    assert {key.partition("@")[2] for key in values} == {"gpu1"}
    assert values["energy_j@gpu1"] == pytest.approx(123.456789)
    assert values["clock_sm_mhz@gpu1"] == 1550
    assert values["busy_ratio@gpu1"] is None
    assert "performance monitors" in reader.missing["busy_ratio"].reason


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
