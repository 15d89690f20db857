"""What doctor sees, on file systems made for the purpose."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from whyidle.machine.checks import doctor, gpu_checks, host_checks
from whyidle.machine.checks.doctor import examine_machine
from whyidle.model.machine import Check


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def named(checks: list[Check], name: str) -> Check:
    return next(check for check in checks if check.name == name)


def test_cgroup_2_takes_the_tightest_of_group_and_ancestors(tmp_path: Path):
    root = write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/a/b\n",
            "sys/fs/cgroup/a/b/cpu.max": "max 100000",
            "sys/fs/cgroup/a/cpu.max": "350000 100000",
            "sys/fs/cgroup/a/b/memory.max": "2147483648",
            "sys/fs/cgroup/a/b/memory.current": "1",
            "sys/fs/cgroup/a/memory.max": "max",
        },
    )
    assert host_checks.group_limits(root)["cores_quota"] == 3.5
    assert host_checks.group_limits(root)["group_memory_limit_bytes"] == 2 << 30


def test_cgroup_1(tmp_path: Path):
    root = write(
        tmp_path,
        {
            "proc/self/cgroup": "4:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
        },
    )
    assert host_checks.group_limits(root)["cores_quota"] == 2.0
    assert host_checks.group_limits(root)["group_memory_limit_bytes"] is None


@pytest.mark.parametrize("text", ["", "nonsense", "0::/\n"])
def test_no_limit_is_none(tmp_path: Path, text: str):
    root = write(tmp_path, {"proc/self/cgroup": text, "sys/fs/cgroup/cpu.max": "max 100000"})
    assert host_checks.group_limits(root)["cores_quota"] is None
    assert host_checks.group_limits(root)["group_memory_limit_bytes"] is None


def test_no_gpu(tmp_path: Path):
    (check,) = gpu_checks.check_gpus(tmp_path)
    assert check.state == "absent"


def test_locked_counters_say_how_to_open_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    root = write(
        tmp_path,
        {
            "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  "
            "550.54.15  Tue",
            "proc/driver/nvidia/params": "Mobile: 1\nRmProfilingAdminOnly: 1\n",
        },
    )
    monkeypatch.setitem(sys.modules, "pynvml", None)  # as if it were not installed
    checks = gpu_checks.check_gpus(root)
    assert named(checks, "NVIDIA driver").found.startswith("550.54.15")
    locked = named(checks, "hardware counters")
    assert locked.state == "gap"
    assert "NVreg_RestrictProfilingToAdminUsers=0" in locked.close
    write(root, {"proc/driver/nvidia/params": "RmProfilingAdminOnly: 0\n"})
    assert named(gpu_checks.check_gpus(root), "hardware counters").state == "ok"


def test_amd(tmp_path: Path):
    nodes = "sys/class/kfd/kfd/topology/nodes"
    root = write(
        tmp_path,
        {
            f"{nodes}/0/properties": "simd_count 0\n",
            f"{nodes}/1/properties": "cpu_cores_count 0\nsimd_count 304\n",
            f"{nodes}/1/name": "aqua_vanjaram\n",
        },
    )
    assert named(gpu_checks.check_gpus(root), "GPU").found == "AMD: aqua_vanjaram"


class FakeNvml:
    """The binding's surface, as far as doctor touches it."""

    class NVMLError(Exception):
        pass

    def __init__(self, *, broken: bool = False) -> None:
        self.broken, self.shut = broken, False

    def nvmlInit(self) -> None:  # noqa: N802
        if self.broken:
            raise self.NVMLError("Driver Not Loaded")

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.shut = True

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return 1

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetName(self, handle: int) -> str:  # noqa: N802
        return "NVIDIA H100"

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:  # noqa: N802
        return SimpleNamespace(total=80 << 30)

    def nvmlDeviceGetMigMode(self, handle: int) -> Any:  # noqa: N802
        raise self.NVMLError("Not Supported")


@pytest.mark.parametrize(
    ("files", "environ", "kind"),
    [
        ({}, {}, None),
        ({".dockerenv": ""}, {}, "Docker"),
        ({"run/.containerenv": ""}, {}, "Podman"),
        ({".dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "x"}, "Kubernetes"),
        ({}, {"container": "lxc"}, "lxc"),
        ({}, {"APPTAINER_NAME": "x"}, "Apptainer"),
    ],
)
def test_containers(tmp_path: Path, files: dict[str, str], environ: dict[str, str], kind: str):
    assert host_checks.check_container(write(tmp_path, files), environ) == kind


def test_the_file_system_is_that_of_the_longest_mount(tmp_path: Path):
    mounts = "/dev/sda / ext4 rw 0 0\nhost:/x /data nfs4 rw 0 0\na /da tmpfs rw 0 0\n"
    root = write(tmp_path, {"proc/mounts": mounts})
    assert host_checks.file_system(root, Path("/data/set")) == "nfs4"
    assert host_checks.file_system(root, Path("/home")) == "ext4"
    assert host_checks.file_system(tmp_path / "none", Path("/")) is None


def test_the_whole_examination_changes_nothing(tmp_path: Path):
    store = tmp_path / "not" / "there"
    machine = examine_machine(root=tmp_path, environ={}, folder=tmp_path, store=store)
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
