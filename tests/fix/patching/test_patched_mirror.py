"""A patched program runs in a mirror of its tree, with its own data and modules."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from whyidle.fix.patching import patched_mirror
from whyidle.fix.patching.patched_mirror import make_mirror
from whyidle.fix.patching.source_patch import KeptFix, SourcePatch, make_patch
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
KEPT = KeptFix("debug-mode-off", [Edit(knob="env.A", value="0", was="1")])


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    for name, text in TREE.items():
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_text(text)
    (tmp_path / "tree" / ".git").mkdir()
    return tmp_path / "tree"


def run(root: Path, patch: SourcePatch, *command: str) -> str:
    scratch = root.parent / "scratch"
    scratch.mkdir()
    made = make_mirror(patch, [sys.executable, *command], root / "jobs", scratch)
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
    assert (scratch / "big" / "file.bin").is_symlink()
    assert (scratch / "src" / "pkg" / "other.json").is_symlink()
    assert not (scratch / "src" / "pkg" / "loop.py").is_symlink()
    assert not (scratch / "jobs" / "train.py").is_symlink()


REMOVES = (
    "import os\nos.environ['A'] = '1'\nimport shutil\nshutil.rmtree('data')\nos.mkdir('data')\n"
)


def test_a_folder_of_results_can_be_removed_and_made_anew(root: Path):
    (root / "jobs" / "train.py").write_text(REMOVES)
    patch = make_patch([KEPT], [sys.executable, "train.py"], root / "jobs")
    run(root, patch, "train.py")
    assert not list((root.parent / "scratch" / "jobs" / "data").iterdir())


@pytest.mark.parametrize(("said", "ours"), [
    ("OSError: Cannot call rmtree on a symbolic link", True),
    ("NotADirectoryError: [Errno 20] Not a directory: 'data'", True),
    ("FileExistsError: [Errno 17] File exists: '../jobs/data'", True),
    ("rm: cannot remove ‘data/’: Not a directory", True),
    ("NotADirectoryError: [Errno 20] Not a directory: 'near.txt'", False),
    ("FileNotFoundError: [Errno 2] No such file or directory: 'data'", False),
])  # fmt: skip
def test_an_error_about_a_folder_that_is_a_link_here_is_known(
    root: Path, monkeypatch: pytest.MonkeyPatch, said: str, ours: bool
):
    (root.parent / "scratch").mkdir()
    patch = make_patch([KEPT], [sys.executable, "train.py"], root / "jobs")
    monkeypatch.setattr(patched_mirror, "SMALL", 0)
    made = make_mirror(patch, ["train.py"], root / "jobs", root.parent / "scratch")
    assert made.failed_on_link(f"starting\n{said}\n") == ours


def test_where_no_folder_is_a_link_no_error_is_about_one(root: Path):
    shutil.rmtree(root / ".git")
    patch = make_patch([KEPT], [sys.executable, "train.py"], root)
    (root.parent / "scratch").mkdir()
    made = make_mirror(patch, ["train.py"], root, root.parent / "scratch")
    assert not made.failed_on_link("OSError: Cannot call rmtree on a symbolic link")


LINKED = (
    "import os\nfrom pathlib import Path\nos.environ['A'] = '1'\n"
    "print(os.environ['A'], Path(__file__).with_name('near.txt').read_text())\n"
)


@pytest.mark.parametrize(("links", "word", "near"), [
    ({"exp/train.py": "../common/train.py"}, "exp/train.py", "exp"),
    ({"exp": "common"}, "exp/train.py", "common"),
    ({"exp/one": "../common", "jobs/two": "../exp/one"}, "jobs/two/train.py", "common"),
    ({"exp/train.py": "../common/other.py", "common/other.py": "train.py"}, "exp/train.py", "exp"),
], ids=["file", "folder", "through two folders", "through two files"])  # fmt: skip
@pytest.mark.parametrize("whole", [False, True])
def test_a_link_leads_to_the_patched_file(root: Path, links, word, near, whole: bool):
    for name, text in {"common/train.py": LINKED, "common/near.txt": "common"}.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    for name, target in links.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).symlink_to(target)
    if near == "exp":
        (root / "exp" / "near.txt").write_text("exp")
    named = str(root / word) if whole else f"../{word}"
    patch = make_patch([KEPT], [sys.executable, named], root / "jobs")
    assert [path.name for path in patch.files] == ["train.py"]
    assert run(root, patch, named) == f"0 {near}\n"


def test_a_module_that_is_a_link_is_the_patched_one(root: Path):
    (root / "jobs" / "beside.py").rename(root / "src" / "beside.py")
    (root / "src" / "beside.py").write_text("import os\nos.environ['A'] = '1'\nX = os.environ['A']")
    (root / "jobs" / "beside.py").symlink_to("../src/beside.py")
    patch = make_patch([KEPT], [sys.executable, "train.py"], root / "jobs")
    assert "\n0 0 " in run(root, patch, "train.py")
