"""Whose a file in a stack is."""

from pathlib import Path

import pytest

from whyidle.analysis.lines.source_lines import in_library, package_of
from whyidle.model.diagnosis import Place
from whyidle.model.frames import own_files
from whyidle.probe.core.own_files import job_folders, name_file


@pytest.fixture
def job(tmp_path, monkeypatch):
    """A job in a repository, and libraries beside it."""
    for file in (
        *("work/.git/config", "work/scripts/train.py", "work/src/data.py"),
        *("opt/fast/__init__.py", "opt/fast/io/__init__.py", "opt/fast/io/read.py", "opt/one.py"),
    ):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    monkeypatch.chdir(tmp_path / "work/scripts")
    name_file.cache_clear(), job_folders.cache_clear()
    yield tmp_path
    name_file.cache_clear(), job_folders.cache_clear()


@pytest.mark.parametrize("file", ["work/scripts/train.py", "work/src/data.py", "opt/none.py"])
def test_files_of_its_repository_and_of_no_file_are_the_jobs(job, file):
    path = str(job / file)
    assert name_file(path) == path
    assert own_files([f"{path}(3): f"]) == [path]


@pytest.mark.parametrize(("file", "package"), [("fast/io/read.py", "fast"), ("one.py", "one")])
def test_what_lies_outside_is_a_librarys(job, file, package):
    path = str(job / "opt" / file)
    name = name_file(path)
    assert name == f"{job}/opt//{file}"
    assert Path(name).samefile(path)
    assert own_files([f"{name}(3): f"]) == []
    assert in_library(Place(file=name, line=3, function="f"))
    assert package_of(f"{name}(3): f") == package


def test_installed_packages_keep_their_names(job):
    file = "/opt/env/lib/python3.11/site-packages/numpy/linalg.py"
    assert name_file(file) == file
