"""What is asked of the driver, with a stand-in for ``nvidia-smi`` that answers as the real one."""

from bench.gpu.stages.harm import find_uuid
from bench.gpu.target import Target

GPU = Target("cuda", "a GPU", 6.0)
CARD = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-4fdc3b0a-9b1f-2f5a-6e4f-0f2a4a5d6e7f)"
SLICE = "  MIG 1g.10gb     Device  0: (UUID: MIG-8d8fd1b6-1a52-5b5e-a2a4-8b2e3b1a9d55)"


def test_a_slice_is_preferred_to_its_card():
    assert find_uuid(f"{CARD}\n{SLICE}\n") == "MIG-8d8fd1b6-1a52-5b5e-a2a4-8b2e3b1a9d55"
    assert find_uuid(f"{CARD}\n") == "GPU-4fdc3b0a-9b1f-2f5a-6e4f-0f2a4a5d6e7f"
    assert find_uuid("No devices found.") is None
