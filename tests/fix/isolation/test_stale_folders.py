"""Folders whose maker was killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from whyidle.fix.isolation import isolate, stale_folders

MAKER = """
    import sys, time
    from pathlib import Path
    from whyidle.fix.isolation import isolate

    Path(sys.argv[1]).mkdir()
    with isolate(Path(sys.argv[1])) as guard:
        print(*guard.places[1:], flush=True)
        time.sleep(50)
"""

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Linux only")


def test_what_a_killed_maker_left_goes_at_the_next_start(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [sys.executable, "-c", textwrap.dedent(MAKER), str(tmp_path / "one")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as maker:
        places = [Path(each) for each in maker.stdout.readline().split()]
        try:
            (tmp_path / "two").mkdir()
            with isolate(tmp_path / "two"):
                assert places
                assert all(each.is_dir() for each in places)  # its maker lives
        finally:
            maker.kill()
            maker.wait()
    (tmp_path / "three").mkdir()
    with isolate(tmp_path / "three"):
        assert not any(each.exists() for each in places)


def test_what_is_gone_already_changes_nothing_above_it(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tmp_path.chmod(0o755)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with isolate(scratch) as guard:
        above = {place.parent: place.parent.stat().st_mode for place in guard.places}
        guard.close()
    assert {place: place.stat().st_mode for place in above} == above
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    assert not scratch.exists()


@pytest.fixture
def gone(tmp_path: Path) -> Path:
    """A folder whose maker is gone."""
    code = "import sys; from whyidle.fix.isolation import stale_folders as stale; "
    code += "stale.mark_folder(sys.argv[1])"
    folder = Path(tempfile.mkdtemp(prefix="whyidle-", dir=tmp_path))
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)
    return folder


def test_only_what_is_marked_by_somebody_gone_is_left(gone: Path, tmp_path: Path):
    for name in ("whyidle-mine", "whyidle-unmarked", "another"):
        (tmp_path / name).mkdir()
    stale_folders.mark_folder(tmp_path / "whyidle-mine")
    (tmp_path / "another" / stale_folders.MAKER).write_bytes(
        (gone / stale_folders.MAKER).read_bytes()
    )
    (tmp_path / "whyidle-link").symlink_to(gone)
    found = [each for each in stale_folders.find_stale([str(tmp_path)]) if each.parent == tmp_path]
    assert found == [gone]


@pytest.mark.parametrize(
    ("name", "value", "left"),
    [
        ("boot", "another machine", False),
        ("processes", "pid:[1]", False),
        ("pid", "no number", False),
        ("pid", os.getpid(), True),  # given to us since: we were started at another time
    ],
    ids=["boot", "processes", "number", "given since"],
)
def test_an_id_means_its_process_only_where_it_was_given(
    gone: Path, tmp_path: Path, name: str, value: object, left: bool
):
    told = json.loads((gone / stale_folders.MAKER).read_text())
    (gone / stale_folders.MAKER).write_text(json.dumps({**told, name: value}))
    assert (gone in stale_folders.find_stale([str(tmp_path)])) is left


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_somebody_else_s_are_left_alone(gone: Path, tmp_path: Path):
    os.chown(gone, 65534, 65534)
    assert gone not in stale_folders.find_stale([str(tmp_path)])
