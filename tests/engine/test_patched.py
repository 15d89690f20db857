"""A patched program runs in a mirror of its tree, with its own data and modules."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from whyidle.engine.patch import Kept, Patch, make_patch
from whyidle.engine.patched import mirror
from whyidle.model.diagnosis import Edit

TREE = {
    "jobs/train.py": "import sys\nfrom pathlib import Path\nimport beside\nfrom pkg import loop\n"
    "print(Path('data/a.txt').read_text(), Path(__file__).with_name('near.txt').read_text())\n"
    "print(beside.X, loop.WORKERS, sys.argv[1:], Path.cwd().name)\n"
    "Path('out.txt').write_text('out')\n",
    "jobs/beside.py": "X = 'beside'\n",
    "jobs/near.txt": "near",
    "jobs/data/a.txt": "data",
    "src/pkg/__init__.py": "",
    "src/pkg/loop.py": "import os\nos.environ['A'] = '1'\nWORKERS = os.environ['A']\n",
    "src/pkg/other.json": "{}",
    "big/file.bin": "x",
}
KEPT = Kept("debug-mode-off", [Edit(knob="env.A", value="0", was="1")])


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    for name, text in TREE.items():
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_text(text)
    (tmp_path / "tree" / ".git").mkdir()
    return tmp_path / "tree"


def run(root: Path, patch: Patch, *command: str) -> str:
    scratch = root.parent / "scratch"
    scratch.mkdir()
    made = mirror(patch, [sys.executable, *command], root / "jobs", scratch)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    told = os.environ | made.environment
    told.setdefault("PYTHONPATH", "")
    done = subprocess.run(
        made.command, cwd=made.folder, env=told, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    after = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert after == before, "the user's own files have changed"
    return done.stdout


@pytest.mark.parametrize("words", [("train.py", "--x", "1"), ("-m", "train", "--x", "1")])
def test_the_patched_program_finds_all_it_needs(root: Path, words, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(root / "src"))
    patch = make_patch([KEPT], [sys.executable, *words], root / "jobs")
    assert [path.name for path in patch.files] == ["loop.py"]
    assert run(root, patch, *words) == "data near\nbeside 0 ['--x', '1'] jobs\n"
    assert (root.parent / "scratch" / "jobs" / "out.txt").read_text() == "out"


def test_a_whole_path_names_the_copy(root: Path):
    word = str(root / "jobs" / "train.py")
    patch = make_patch([KEPT], [sys.executable, word], root / "jobs")
    assert "beside 0" in run(root, patch, word)


def test_what_is_no_part_of_the_program_is_linked(root: Path):
    patch = make_patch([KEPT], [sys.executable, "train.py"], root / "jobs")
    run(root, patch, "train.py")
    scratch = root.parent / "scratch"
    assert (scratch / "big").is_symlink()
    assert (scratch / "src" / "pkg" / "other.json").is_symlink()
    assert not (scratch / "src" / "pkg" / "loop.py").is_symlink()
    assert not (scratch / "jobs" / "train.py").is_symlink()
