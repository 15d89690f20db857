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
    "tile0/physical_vram_size_bytes": str(12 << 30),
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


XE_CLIENT = """\
pos:    0
flags:  0100002
drm-driver:     xe
drm-client-id:  {client}
drm-pdev:       {pci}
drm-total-system:       0
drm-resident-system:    512 KiB
drm-total-vram0:        24000 KiB
drm-shared-vram0:       16 MiB
drm-resident-vram0:     {resident} KiB
drm-cycles-bcs: 999
drm-total-cycles-bcs:   {total}
drm-cycles-ccs: {cycles}
drm-total-cycles-ccs:   {total}
drm-engine-capacity-ccs:        4
"""
"""as in the kernel's Documentation/gpu/xe/xe-drm-usage-stats.rst"""


def add_client(root: Path, pid: int, text: str, file: str = "9") -> None:
    """A process that has a card open: ``text`` is what the kernel shows of the open file."""
    for folder in ("fd", "fdinfo"):
        (root / f"proc/{pid}" / folder).mkdir(parents=True, exist_ok=True)
    link = root / f"proc/{pid}/fd/{file}"
    link.unlink(missing_ok=True)
    link.symlink_to("/dev/dri/renderD129")
    (root / f"proc/{pid}/fdinfo/{file}").write_text(text)


def make_machine(root: Path) -> None:
    add_card(root, 0, "0000:c1:00.0", AMD_FILES)
    add_card(root, 1, "0000:d1:00.0", INTEL_FILES)
    add_card(root, 2, "0000:00:02.0", {"vendor": "0x8086"})  # integrated graphics
    add_holder(root, 4711, 30 << 30)
    client = {"pci": "0000:d1:00.0", "client": 3, "resident": 2048}
    add_client(root, 4712, XE_CLIENT.format(cycles=100, total=1000, **client))
