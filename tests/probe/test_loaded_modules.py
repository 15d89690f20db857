"""Files that a job has loaded, and the folders from which its modules are found."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from whyidle.probe.core import loaded_modules


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Import a module of that name from a file; whatever is imported is gone afterwards."""
    before = set(sys.modules)

    def put(file: str, name: str, start: str = "") -> str:
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        monkeypatch.syspath_prepend(tmp_path / start)
        importlib.import_module(name)
        return str(path.resolve())

    yield put
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("file", "name", "start"),
    [
        ("loaded_one/__init__.py", "loaded_one", "."),
        ("src/loaded_two/deep/train.py", "loaded_two.deep.train", "src"),
        ("loaded_three.py", "loaded_three", "."),
    ],
    ids=["a package", "of a namespace, in src", "a file"],
)
def test_a_module_is_told_with_the_folder_that_its_name_starts_from(
    tmp_path: Path, tree, file: str, name: str, start: str
):
    path = tree(file, name, start)
    assert loaded_modules.loaded_files()[path] == [str((tmp_path / start).resolve())]


def test_over_a_link_both_folders_are_told(tmp_path: Path, tree):
    (tmp_path / "real" / "loaded_four").mkdir(parents=True)
    (tmp_path / "by_link").mkdir()
    (tmp_path / "by_link" / "loaded_four").symlink_to(tmp_path / "real" / "loaded_four")
    tree("by_link/loaded_four/a.py", "loaded_four.a", "by_link")
    starts = [str((tmp_path / name).resolve()) for name in ("by_link", "real")]
    assert (
        loaded_modules.loaded_files()[str((tmp_path / "real/loaded_four/a.py").resolve())] == starts
    )


@pytest.mark.parametrize("file", ["json.py", "json/__init__.py"])
def test_a_folder_that_would_hide_a_library_is_not_told(tmp_path: Path, tree, file: str):
    path = tree("loaded_five/a.py", "loaded_five.a")
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text("")
    assert loaded_modules.loaded_files()[path] == []


def test_a_folder_that_is_gone_is_not_told(tmp_path: Path, tree):
    path = tree("gone/loaded_six.py", "loaded_six", "gone")
    shutil.rmtree(tmp_path / "gone")
    assert loaded_modules.loaded_files()[path] == []


def test_libraries_are_not_told():
    assert not any(
        "site-packages" in path or path == pytest.__file__ for path in loaded_modules.loaded_files()
    )
    assert importlib.util.__file__ not in loaded_modules.loaded_files()


def test_a_script_that_a_profiler_runs_is_seen(tmp_path: Path):
    script = tmp_path / "train.py"
    script.write_text(
        "from whyidle.probe.core import loaded_modules\n"
        f"assert loaded_modules.loaded_files()[{str(script.resolve())!r}] == []\n"
    )
    words = ["-c", f"exec(compile(open({str(script)!r}).read(), {str(script)!r}, 'exec'))"]
    for command in (words, [str(script)]):
        subprocess.run([sys.executable, *command], check=True)
