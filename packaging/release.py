"""Builds the wheel and the source distribution, checks both, and tries the wheel alone.

    python packaging/release.py [--python PYTHON ...] [--out dist]

Both are built twice: the bytes must be the same. The wheel must hold the package and nothing else,
and the source distribution what a wheel is made from. For every interpreter that ``--python`` names
(default: this one) the wheel is installed into a fresh environment, without the repository, where
``--version``, ``doctor``, ``explain`` and ``run`` must work. Ends with status 1 at the first thing
that does not hold. Needs ``pip install build twine``.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST_INSTALLED_MB = 90
"""of the wheel with everything that it needs, of which NumPy alone takes 58"""
FOREIGN = ("tests/", "emulator/", "clinic/", "field/", "bench/")
"""folders of the repository that no distribution holds"""
SCRIPT = "import time\nfor step in range(20):\n    time.sleep(0.01)\nprint('trained')\n"


class ReleaseError(Exception):
    """Something that does not hold."""


def run(*words: str | Path, cwd: Path = ROOT, status: int = 0, **variables: str) -> str:
    """Run a command and return its output. Raises ReleaseError for another exit status."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        list(map(str, words)), cwd=cwd, env={**kept, **variables}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if done.returncode != status:
        shown = " ".join(map(str, words))
        raise ReleaseError(f"{shown}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def build_twice(out: Path) -> list[Path]:
    """The wheel and the source distribution, which two builds make alike."""
    moment = run("git", "log", "-1", "--format=%ct").strip()
    built = []
    for number in range(2):
        folder = Path(tempfile.mkdtemp(prefix=f"build{number}-"))
        run(sys.executable, "-m", "build", "--outdir", folder, SOURCE_DATE_EPOCH=moment)
        built.append({path.name: path for path in sorted(folder.iterdir())})
    first, second = built
    for name, path in first.items():
        sums = [hashlib.sha256(p.read_bytes()).hexdigest() for p in (path, second[name])]
        if sums[0] != sums[1]:
            raise ReleaseError(f"{name}: two builds differ")
    out.mkdir(parents=True, exist_ok=True)
    return [Path(shutil.copy(path, out)) for path in first.values()]


def check_content(path: Path) -> None:
    """No tests, no benchmarks and no emulator; the license, the types and the data are there."""
    if path.suffix == ".whl":
        names = zipfile.ZipFile(path).namelist()
        outside = [n for n in names if not n.startswith(("whyidle/", "whyidle-"))]
    else:
        with tarfile.open(path) as archive:
            names = [name.partition("/")[2] for name in archive.getnames()]
        outside = [name for name in names if name.startswith(FOREIGN)]
    if outside:
        raise ReleaseError(f"{path.name} holds {', '.join(outside[:5])}")
    for needed in ("py.typed", "LICENSE", "kernel_rules.tsv", "rules.toml", "sitecustomize.py"):
        if not any(name.endswith(needed) for name in names):
            raise ReleaseError(f"{path.name} lacks {needed}")
    print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB, {len(names)} files")


def try_wheel(wheel: Path, python: str) -> None:
    """Install the wheel into a fresh environment, and use it there."""
    with tempfile.TemporaryDirectory(prefix="smoke-") as name:
        folder = Path(name)
        run(python, "-m", "venv", "env", cwd=folder)
        own = folder / "env" / "bin" / "python"
        before = folder_size(folder / "env")
        run(own, "-m", "pip", "install", "--quiet", "--no-input", wheel.absolute(), cwd=folder)
        size = (folder_size(folder / "env") - before) / 1e6
        if size > MOST_INSTALLED_MB:
            raise ReleaseError(f"installed: {size:.0f} MB, more than {MOST_INSTALLED_MB}")
        whyidle = folder / "env" / "bin" / "whyidle"
        version = run(whyidle, "--version", cwd=folder).strip()
        before_s = children_cpu_s()
        run(whyidle, "--help", cwd=folder)
        help_s = children_cpu_s() - before_s
        run(whyidle, "doctor", cwd=folder)
        run(own, "-m", "whyidle.testing.demo", "trace.json.gz", cwd=folder)
        told = run(whyidle, "explain", "trace.json.gz", cwd=folder)
        (folder / "train.py").write_text(SCRIPT)
        if "trained" not in run(whyidle, "run", own, "train.py", cwd=folder):
            raise ReleaseError("whyidle run did not run the script")
        if not told.strip():
            raise ReleaseError("whyidle explain printed nothing")
        print(f"{version} on {run(own, '--version').strip()}: {size:.0f} MB installed, "
              f"--help {1e3 * help_s:.0f} ms of CPU, doctor, explain and run work")  # fmt: skip


def children_cpu_s() -> float:
    """Processor time of all commands until now."""
    times = os.times()
    return times.children_user + times.children_system


def folder_size(folder: Path) -> int:
    """Bytes of all files, compiled ones left out."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return sum(path.stat().st_size for path in files if not path.is_symlink())


def main() -> int:
    """Build, check, try."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="interpreters to try")
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    args = parser.parse_args()
    try:
        built = build_twice(args.out)
        run(sys.executable, "-m", "twine", "check", "--strict", *built)
        for path in built:
            check_content(path)
        for python in args.python:
            try_wheel(next(path for path in built if path.suffix == ".whl"), python)
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
