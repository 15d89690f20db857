"""Files as the drivers amdgpu and xe show them, in a folder that stands for the root."""

from __future__ import annotations

from pathlib import Path

AMD_FILES = {
    "vendor": "0x1002",
    "product_name": "AMD Instinct MI300X",
    "unique_id": "a1b2c3",
    "gpu_busy_percent": "87",
    "mem_busy_percent": "40",
    "mem_info_vram_used": str(40 << 30),
    "mem_info_vram_total": str(192 << 30),
    "current_link_width": "16",
    "max_link_width": "16",
    "hwmon/hwmon3/power1_average": "612000000",
    "hwmon/hwmon3/power1_cap": "750000000",
    "hwmon/hwmon3/power1_cap_default": "750000000",
    "hwmon/hwmon3/temp1_input": "61000",
    "hwmon/hwmon3/freq1_input": "2100000000",
}
INTEL_FILES = {
    "vendor": "0x8086",
    "tile0/gt0/freq0/cur_freq": "1550",
    "hwmon/hwmon4/energy1_input": "123456789",
    "hwmon/hwmon4/power1_max": "300000000",
    "current_link_width": "8",
    "max_link_width": "16",
}


def add_card(root: Path, number: int, pci: str, files: dict[str, str]) -> Path:
    device = root / "sys/devices" / pci
    for name, text in files.items():
        (device / name).parent.mkdir(parents=True, exist_ok=True)
        (device / name).write_text(text + "\n")
    card = root / f"sys/class/drm/card{number}"
    card.mkdir(parents=True)
    (card / "device").symlink_to(device)
    (root / f"sys/class/drm/card{number}-DP-1").mkdir()
    return device


def add_holder(root: Path, pid: int, size: int) -> None:
    """A process that holds memory of the card on bus 0000:c1:00.0."""
    kfd = root / "sys/class/kfd/kfd"
    node = kfd / "topology/nodes/1"
    node.mkdir(parents=True, exist_ok=True)
    (node / "gpu_id").write_text("51110\n")
    (node / "properties").write_text(f"cpu_cores_count 0\nlocation_id {0xC1 << 8}\ndomain 0\n")
    (kfd / f"proc/{pid}").mkdir(parents=True)
    (kfd / f"proc/{pid}/vram_51110").write_text(f"{size}\n")


def make_machine(root: Path) -> None:
    add_card(root, 0, "0000:c1:00.0", AMD_FILES)
    add_card(root, 1, "0000:d1:00.0", INTEL_FILES)
    add_card(root, 2, "0000:00:02.0", {"vendor": "0x8086"})  # integrated graphics
    add_holder(root, 4711, 30 << 30)
