"""Folders of a mirror that are no part of the program: small ones are real, with links in them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from whyidle.fix.patching import patched_mirror
from whyidle.fix.patching.patched_mirror import MirrorLinks

TREE = ("out/best.pt", "out/logs/a.txt", ".git/HEAD", "venv/pyvenv.cfg", "lib/__pycache__/m.pyc")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in TREE:
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_text(name)
    (tmp_path / "scratch").mkdir()
    return tmp_path / "tree"


def filled(root: Path) -> tuple[Path, MirrorLinks]:
    links = MirrorLinks(root, root.parent / "scratch", {root})
    links.link_folder(root)
    return root.parent / "scratch", links


def test_a_small_folder_can_be_removed_and_the_user_s_files_stay(root: Path):
    scratch, _ = filled(root)
    assert (scratch / "out" / "logs" / "a.txt").read_text() == "out/logs/a.txt"
    shutil.rmtree(scratch / "out")
    (scratch / "out").mkdir()
    assert [(root / name).read_text() for name in TREE] == list(TREE)


def test_hidden_folders_environments_and_what_is_compiled_stay_links(root: Path):
    scratch, links = filled(root)
    kept = [scratch / name for name in (".git", "lib/__pycache__", "venv")]
    assert links.folders == kept
    assert all(each.is_symlink() for each in kept)


@pytest.mark.parametrize("limit", ["SMALL", "MOST_LOOKED_AT"])
def test_a_large_folder_stays_a_link(root: Path, monkeypatch: pytest.MonkeyPatch, limit: str):
    monkeypatch.setattr(patched_mirror, limit, 2)
    scratch, links = filled(root)
    assert (scratch / "out").is_symlink()
    assert scratch / "out" in links.folders


def test_a_link_into_the_tree_leads_to_what_the_job_writes_there(root: Path):
    (root / "latest").symlink_to("out/logs")
    (root / "out" / "away").symlink_to(root.parent)
    scratch, _ = filled(root)
    (scratch / "out" / "logs" / "new.txt").write_text("new")
    assert (scratch / "latest" / "new.txt").read_text() == "new"
    assert not (root / "out" / "logs" / "new.txt").exists()
    assert (scratch / "out" / "away").resolve() == root.parent
