"""What is asked of the driver, with a stand-in for ``nvidia-smi`` that answers as the real one."""

import pytest

from bench.gpu.stage import SkippedError
from bench.gpu.stages.doctor import ASKED, ask_driver
from bench.gpu.stages.harm import compare_visible, find_uuid
from bench.gpu.target import Target

GPU = Target("cuda", "a GPU", 6.0)
CARD = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-4fdc3b0a-9b1f-2f5a-6e4f-0f2a4a5d6e7f)"
SLICE = "  MIG 1g.10gb     Device  0: (UUID: MIG-8d8fd1b6-1a52-5b5e-a2a4-8b2e3b1a9d55)"


def install_smi(monkeypatch, folder, lines):
    """A ``nvidia-smi`` that prints these lines if it is asked for all that the stage asks."""
    (folder / "answer").write_text("".join(f"{line}\n" for line in lines))
    script = folder / "nvidia-smi"
    script.write_text(f'#!/bin/sh\necho "$@" > {folder}/asked\ncat {folder}/answer\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


@pytest.mark.real_processes("nvidia-smi is a process of its own")
def test_the_driver_describes_every_card(monkeypatch, tmp_path):
    install_smi(
        monkeypatch, tmp_path, ["NVIDIA H100 80GB HBM3, 570.86.15, 81559 MiB, Disabled, Default"]
    )
    assert ask_driver(GPU, tmp_path) == {
        "cards": [
            {
                "name": "NVIDIA H100 80GB HBM3",
                "driver_version": "570.86.15",
                "memory.total": "81559 MiB",
                "mig.mode.current": "Disabled",
                "compute_mode": "Default",
            }
        ]
    }
    asked = (tmp_path / "asked").read_text().split()
    assert asked == [f"--query-gpu={','.join(ASKED)}", "--format=csv,noheader"]


def test_a_slice_is_preferred_to_its_card():
    assert find_uuid(f"{CARD}\n{SLICE}\n") == "MIG-8d8fd1b6-1a52-5b5e-a2a4-8b2e3b1a9d55"
    assert find_uuid(f"{CARD}\n") == "GPU-4fdc3b0a-9b1f-2f5a-6e4f-0f2a4a5d6e7f"
    assert find_uuid("No devices found.") is None


@pytest.mark.real_processes("nvidia-smi is a process of its own")
def test_a_driver_without_devices_is_a_reason_to_skip(monkeypatch, tmp_path):
    install_smi(monkeypatch, tmp_path, ["No devices found."])
    with pytest.raises(SkippedError, match="lists no UUID"):
        compare_visible(GPU)
