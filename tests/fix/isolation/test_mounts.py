"""What is overlaid, planned without mounting anything."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from whyidle.fix.isolation.mounts import Mount, is_inside, plan_layout, read_mounts

MOUNTINFO = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
28 27 0:25 / /mnt/my\\040disk ro,nosuid shared:1 - tmpfs none rw
29 27 0:26 / /data rw - nfs server:/data ro,vers=4
30 27 0:27 / /home rw - ext4 /dev/vdb rw
31 27 0:28 / /home rw - overlay overlay rw,lowerdir=/x
"""


def test_mounts_are_read_with_their_names_and_rights():
    assert read_mounts(MOUNTINFO) == [
        Mount("/proc", "proc", True),
        Mount("/", "ext4", True),
        Mount("/mnt/my disk", "tmpfs", False),
        Mount("/data", "nfs", False),
        Mount("/home", "overlay", True),
    ]


def test_names_are_compared_whole():
    assert is_inside("/a/b", "/a")
    assert is_inside("/a", "/a")
    assert is_inside("/a", "/")
    assert not is_inside("/ab", "/a")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for each in ("home/me/data", "home/you", "var/tmp/shelf", "tmp/shelf"):
        (tmp_path / each).mkdir(parents=True)
    return tmp_path


def covered(root: Path, *args: object) -> tuple[dict[str, int], list[str]]:
    layout = plan_layout(*args)
    short = {folder[len(str(root)) :]: shelf for folder, shelf in layout.overlays}
    return short, [folder[len(str(root)) :] for folder in layout.read_only]


def test_a_mount_without_others_is_taken_whole(root: Path):
    mounts = [Mount(f"{root}/home", "ext4", True)]
    assert covered(root, mounts, [f"{root}/tmp/shelf"]) == ({"/home": 0}, [])


def test_around_a_mount_further_down_it_is_planned_by_folder(root: Path):
    mounts = [Mount(f"{root}/home", "ext4", True), Mount(f"{root}/home/me/data", "nfs", True)]
    found = covered(root, mounts, [f"{root}/tmp/shelf"])
    assert found == ({"/home/you": 0, "/home/me/data": 0}, ["/home"])


def test_nothing_is_kept_inside_of_what_is_overlaid(root: Path):
    mounts = [Mount(f"{root}/{each}", "ext4", True) for each in ("home", "var", "tmp")]
    shelves = [f"{root}/var/tmp/shelf", f"{root}/tmp/shelf"]
    assert covered(root, mounts, shelves) == ({"/home": 0, "/var": 1, "/tmp": 0}, [])


def test_with_one_shelf_its_own_surroundings_are_read_only(root: Path):
    mounts = [Mount(f"{root}/var", "ext4", True)]
    (root / "var" / "log").mkdir()
    assert covered(root, mounts, [f"{root}/var/tmp/shelf"]) == ({"/var/log": 0}, ["/var"])


def test_what_refuses_an_overlay_is_read_only(root: Path):
    mounts = [Mount(f"{root}/home", "vfat", True), Mount(f"{root}/tmp", "ext4", True)]
    refused = frozenset([f"{root}/home"])
    found = covered(root, mounts, [f"{root}/var/tmp/shelf"], refused)
    assert found == ({"/tmp": 0}, ["/home"])


def test_the_kernel_s_own_and_what_is_read_only_is_left(root: Path):
    mounts = [
        Mount(f"{root}/home", "cgroup2", True),
        Mount(f"{root}/tmp", "ext4", False),
        Mount("/dev/shm", "tmpfs", True),
    ]
    assert covered(root, mounts, [f"{root}/var/tmp/shelf"]) == ({}, [])


def test_mounts_that_cannot_be_reached_are_none_of_ours(root: Path):
    """Another user's containers have theirs in closed folders."""
    hidden = root / "home" / "you" / "closed" / "merged"
    hidden.mkdir(parents=True)
    file = root / "hosts"
    file.write_text("x")
    mounts = [Mount(str(hidden), "overlay", True), Mount(f"{root}/gone", "ext4", True)]
    mounts += [Mount(f"{root}/home", "ext4", True), Mount(str(file), "ext4", True)]
    hidden.parent.chmod(0)
    if os.access(hidden, os.F_OK):  # root's
        hidden.rmdir()
    try:
        found = covered(root, mounts, [f"{root}/tmp/shelf"])
    finally:
        hidden.parent.chmod(0o700)
    assert found == ({"/home/me": 0}, ["/home", "/hosts"])
