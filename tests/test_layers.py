"""The architecture of docs/architecture.md, held by reading every import statement.

Imports go down only. What is not written here may not be imported.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

import whyidle

ROOT = Path(whyidle.__file__).parent
EMULATOR = Path(__file__).parents[1] / "emulator"
"""stands beside the package, under the same rules"""
FILES = sorted([*ROOT.rglob("*.py"), *EMULATOR.rglob("*.py")])

MAY_IMPORT = {
    "model": {"model"},
    "errors": set(),
    "analysis": {"analysis", "model", "errors"},
    "causes": {"causes", "analysis", "model"},
    "fixes": {"fixes", "model"},
    "patches": {"patches", "model"},
    "importers": {"importers", "model", "errors"},
    "sources": {"sources", "model", "errors"},
    "exporters": {"exporters", "model", "errors"},
    "store": {"store", "model", "errors"},
    "catalog": {"catalog", "model", "errors"},
    "engine": {"engine", "catalog", "store", "importers", "analysis", "model", "errors"},
    "testing": {"testing", "engine", "catalog", "importers", "analysis", "model", "errors"},
    "cli": {"cli", "engine", "exporters", "catalog", "store", "model", "errors"},
    "probe": {"probe"},
    "__main__": {"cli"},
    "emulator": {"emulator", "sources", "model", "errors"},
}
"""layer -> the layers that it may import, besides ``whyidle`` itself (its version)"""

FORBIDDEN_NAMES = {"utils", "util", "common", "helpers", "helper", "manager", "misc"}
MOST_LINES = 400
LONGER: dict[str, str] = {}
"""file -> why it may be longer"""

OPTIONAL = {"ray", "torch", "pynvml", "tensorflow", "jax"}
THIRD_PARTY = {
    "model": {"msgspec", "numpy"},
    "analysis": {"numpy"},
    "causes": {"numpy"},
    "fixes": {"numpy"},
    "patches": {"libcst"},
    "importers": {"numpy", "msgspec", "isal"},
    "sources": {"psutil", "pynvml"},
    "exporters": {"numpy", "msgspec", "isal", "rich"},
    "store": {"msgspec", "tomli"},
    "catalog": set(),
    "engine": {"numpy", "msgspec", "psutil", "pynvml", "ray"},
    "testing": {"numpy", "msgspec", "hypothesis", "pytest", "torch"},
    "cli": {"msgspec", "rich"},
    "errors": set(),
    "probe": {"torch"},
    "__main__": set(),
    "emulator": {"numpy", "torch"},
}


def inside(path: Path) -> Path:
    """A file's place in the package, or in the emulator's."""
    return path.relative_to(ROOT if path.is_relative_to(ROOT) else EMULATOR.parent)


def layer(path: Path) -> str:
    return inside(path).parts[0].removesuffix(".py")


@cache
def parse_file(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path: Path) -> Iterator[str]:
    """Absolute names of everything that a file imports, function bodies included."""
    for node in ast.walk(parse_file(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level and layer(path) == "probe":
                continue  # it is loaded by path, under another name, and imports only itself
            assert node.level == 0, f"{path}: relative import"
            base = node.module or ""
            yield from (f"{base}.{alias.name}" for alias in node.names)


def forbidden(own: str, names: Iterable[str]) -> Iterator[str]:
    """The imports of a file that its layer may not have."""
    for name in names:
        top, *rest = name.split(".")
        if top == own == "emulator":
            continue
        if top != "whyidle":
            if top not in sys.stdlib_module_names and top not in THIRD_PARTY.get(own, set()):
                yield name
            continue
        target = rest[0] if rest else ""
        ours = (ROOT / target).is_dir() or (ROOT / f"{target}.py").is_file()
        if ours and own != "__init__" and target not in MAY_IMPORT[own]:
            yield name


def test_imports_go_down_only():
    assert len(FILES) > 100
    wrong = [
        f"{inside(path)} imports {name}"
        for path in FILES
        for name in forbidden(layer(path), imports(path))
    ]
    assert not wrong, "\n".join(["", *wrong])


def test_an_import_that_goes_up_is_noticed():
    names = ["json", "msgspec", "whyidle.model.timeline", "torch", "whyidle.engine.diagnose"]
    assert list(forbidden("model", names)) == ["torch", "whyidle.engine.diagnose"]


NAME_THEIR_OWNER = {"probe", "emulator"}
"""layers whose hooks and parts name what owns them (the loop, the device) in annotations: there, an
import for types only is none"""


def dotted(path: Path) -> str:
    package = ["whyidle"] if path.is_relative_to(ROOT) else []
    return ".".join([*package, *inside(path).parts]).removesuffix(".py")


MODULES = {dotted(path) for path in FILES}


def modules_of(path: Path) -> set[str]:
    """Files of ours that a file imports, for types only or not; see ``NAME_THEIR_OWNER``."""
    tree = parse_file(path)
    typed = [
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    ]
    skipped = typed if layer(path) in NAME_THEIR_OWNER else []
    found = set()
    for node in ast.walk(tree):
        if node in skipped or not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
            continue
        above = dotted(path.parent).split(".")
        above = above[: len(above) - node.level + 1] if node.level else []
        base = ".".join([*above, *filter(None, [node.module])])
        found |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return found & MODULES


def test_no_circles_of_imports():
    waiting = {dotted(path): modules_of(path) for path in FILES}
    assert any(waiting.values())
    while free := [name for name, needs in waiting.items() if not needs & set(waiting)]:
        waiting = {name: needs for name, needs in waiting.items() if name not in free}
    assert not waiting, "these import each other, or what does"


def test_causes_do_not_import_each_other():
    for path in FILES:
        if layer(path) in ("causes", "fixes", "patches") and path.name[0] != "_":
            for name in imports(path):
                parts = name.split(".")
                if parts[:2] == ["whyidle", layer(path)]:
                    module = [part for part in parts[2:] if (part[0] == "_")]
                    assert module, f"{path.name} imports {name}, another plug-in"


def test_no_drawer_for_everything():
    names = {part for path in FILES for part in inside(path).with_suffix("").parts}
    assert not names & FORBIDDEN_NAMES


def test_files_are_short():
    lengths = {str(inside(path)): path.read_text(encoding="utf-8").count("\n") for path in FILES}
    assert not {name: n for name, n in lengths.items() if n > MOST_LINES and name not in LONGER}
    assert not [name for name in LONGER if lengths.get(name, 0) <= MOST_LINES], "no longer needed"


def run_python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_imports_on_a_bare_install():
    """Without any extra: neither a framework nor a vendor's library."""
    modules = [dotted(path).removesuffix(".__init__") for path in ROOT.rglob("*.py")]
    modules = [name for name in modules if "testing" not in name]
    run_python(
        "import importlib, sys\n"
        f"sys.modules.update(dict.fromkeys({sorted(OPTIONAL)!r}))\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
    )


@pytest.mark.parametrize("arguments", [["--help"], ["explain", "--help"], ["--version"], ["oops"]])
def test_help_loads_nothing_heavy(arguments: list[str]):
    loaded = run_python(
        "import sys\n"
        "from whyidle.__main__ import main\n"
        f"try: main({arguments!r})\n"
        "except SystemExit: pass\n"
        "print('LOADED', *sorted({name.partition('.')[0] for name in sys.modules}))\n"
    ).rpartition("LOADED")[2]
    heavy = {"numpy", "rich", "msgspec", "isal", "psutil", "json", "multiprocessing"}
    assert not heavy & set(loaded.split())
