"""Isolation for people with less power than root: an ordinary user, root without capabilities."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

import whyidle

NOBODY = 65534
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")

SESSION = """
    import os, subprocess, sys
    from pathlib import Path
    from whyidle.fix.isolation import isolate

    scratch = Path(sys.argv[1])
    scratch.mkdir()
    with isolate(scratch) as guard:
        print(guard.level, guard.why)
        folders = guard.places
        done = subprocess.run(guard.command(["sh", "-c", sys.argv[2]]))
        print(done.returncode)
    print([each for each in folders if each.exists()] or False)
"""


def interpreter() -> str:
    """A Python that everybody may execute."""
    for each in (sys.executable, shutil.which("python3", path="/usr/bin")):
        with suppress(OSError):
            if each and not subprocess.run([each, "-c", ""], user=NOBODY, check=False).returncode:
                return each
    pytest.skip("no interpreter that another user may execute")


def session(
    place: Path, python: str, words: list[str], command: str, **options: object
) -> list[str]:
    paths = [Path(whyidle.__file__).parents[1], Path(psutil.__file__).parents[1]]
    done = subprocess.run(
        [*words, python, "-u", "-c", textwrap.dedent(SESSION), str(place / "scratch"), command],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        **options,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that everybody can reach: a user's, in one that is root's."""
    base = Path("/var/tmp") / f"whyidle-{os.getpid()}-{os.urandom(4).hex()}"
    (base / "users" / "me" / "runs").mkdir(parents=True)
    yield base / "users" / "me"
    shutil.rmtree(base)


@ROOT
def test_an_ordinary_user_is_isolated_too(place: Path):
    for each in (place, place / "runs"):
        os.chown(each, NOBODY, NOBODY)
    (place / "old.pt").write_text("old")
    os.chown(place / "old.pt", NOBODY, NOBODY)
    command = "echo new > new.pt; echo more >> old.pt; cat new.pt old.pt; id -u; rm -r runs; exit 3"
    python = interpreter()
    said = session(
        place, python, [], command, user=NOBODY, group=NOBODY, extra_groups=[], cwd=place
    )
    if not said[0].startswith("namespaces"):
        pytest.skip(said[0])
    assert said[1:] == ["new", "oldmore", str(NOBODY), "3", "False"]
    assert sorted(each.name for each in place.iterdir()) == ["old.pt", "runs"]
    assert (place / "old.pt").read_text() == "old"


@ROOT
def test_shared_memory_of_an_ordinary_user_is_kept_apart(place: Path):
    os.chown(place, NOBODY, NOBODY)
    mine = Path("/dev/shm") / place.parents[1].name
    (mine / "in").mkdir(parents=True)
    (mine / "in" / "block").write_text("old")
    for each in (mine, mine / "in", mine / "in" / "block"):
        os.chown(each, NOBODY, NOBODY)
    command = (
        f"cd {mine}; cat in/block; echo new > in/block; cat in/block; rm -r in && mkdir in "
        f"&& ls in; touch ../{mine.name}.new; exit 2"
    )
    try:
        said = session(
            place, interpreter(), [], command, user=NOBODY, group=NOBODY, extra_groups=[], cwd=place
        )
        if not said[0].startswith("namespaces"):
            pytest.skip(said[0])
        assert said[1:] == ["oldnew", "2", "False"]
        assert (mine / "in" / "block").read_text() == "old"
        assert not Path(f"{mine}.new").exists()
    finally:
        shutil.rmtree(mine)


@ROOT
def test_a_folder_that_is_shared_with_others_is_written_too(place: Path):
    """What is not one's own cannot be copied up in a user namespace: it has to be there before."""
    os.chown(place, NOBODY, NOBODY)
    (place / "runs" / "deep").mkdir()
    for each in (place / "runs", place / "runs" / "deep"):
        each.chmod(0o777)  # and root's
    (place / "runs" / "last.pt").write_text("old")
    command = "echo new > runs/deep/new.pt && mv runs/deep/new.pt runs/last.pt && cat runs/last.pt"
    said = session(
        place, interpreter(), [], command, user=NOBODY, group=NOBODY, extra_groups=[], cwd=place
    )
    if not said[0].startswith("namespaces"):
        pytest.skip(said[0])
    assert said[1:] == ["new", "0", "False"]
    assert (place / "runs" / "last.pt").read_text() == "old"


@ROOT
@pytest.mark.skipif(not shutil.which("setpriv"), reason="setpriv is not installed")
def test_root_without_the_power_to_mount_reads_what_is_others_own(place: Path):
    (place / "secret").write_text("x")
    (place / "secret").chmod(0o600)
    os.chown(place / "secret", 1234, 1234)
    words = ["setpriv", "--bounding-set", "-sys_admin"]
    command = "cat secret; echo y >> secret; echo z > new; stat -c %u secret; exit 4"
    said = session(place, sys.executable, words, command, cwd=place)
    if not said[0].startswith("namespaces"):
        pytest.skip(said[0])
    assert said[1:] == ["x1234", "4", "False"]
    assert (place / "secret").read_text() == "x"
    assert not (place / "new").exists()


CONTAINER = """
echo 0 > /proc/sys/user/max_user_namespaces || exit 99
exec setpriv --bounding-set -sys_admin --inh-caps -sys_admin "$@"
"""


@ROOT
@pytest.mark.skipif(not shutil.which("setpriv"), reason="setpriv is not installed")
def test_in_a_container_without_mounts_landlock_is_what_is_left(place: Path):
    """As Docker's are: root, but neither allowed to mount nor to make namespaces."""
    words = ["unshare", "--user", "--map-root-user", "sh", "-c", CONTAINER, "sh"]
    if subprocess.run([*words, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no such container can be made here")
    (place / "old.pt").write_text("old")
    before = {*Path("/var/tmp").iterdir(), *Path("/dev/shm").iterdir()}
    said = session(place, sys.executable, words, "echo new > old.pt; cat old.pt; exit 5", cwd=place)
    if said[0].startswith("python"):
        pytest.skip(said[0])
    assert said[0].startswith("landlock unshare: ")
    assert said[1:] == ["old5", "False"]
    assert (place / "old.pt").read_text() == "old"
    # what other tests have removed meanwhile is no matter
    assert not {*Path("/var/tmp").iterdir(), *Path("/dev/shm").iterdir()} - before
