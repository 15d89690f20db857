"""The architecture of docs/architecture.md, held by reading every import statement.

Imports go down only. What is not written here may not be imported.
"""

from __future__ import annotations

import ast
import re
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

BASE = {"model", "errors"}
PLUGS = {"catalog", "store", *BASE}
JUDGED = {"diagnosis", "analysis", "readers", "version", *PLUGS}
RECORDED = {"record", *JUDGED}
VERBS = {"recordings", "fix", "machine", "runs", "planning", "cluster", "reports", *RECORDED}
MAY_IMPORT = {
    "model": {"model"},
    "errors": set(),
    "version": set(),
    "analysis": {"analysis", *BASE},
    "causes": {"causes", "analysis", "model"},
    "fixes": {"fixes", "model"},
    "patches": {"patches", "model"},
    "frameworks": {"frameworks", "model"},
    "readers": {"readers", "frameworks", *BASE},
    "reports": {"reports", *BASE},
    "store": {"store", *BASE},
    "catalog": {"catalog", "frameworks", *BASE},
    "diagnosis": JUDGED - {"store"},
    "record": RECORDED,
    "recordings": {"recordings", *RECORDED},
    "fix": {"fix", *RECORDED},
    "runs": {"runs", "fix", "analysis", "version", *BASE},
    "planning": {"planning", "fix", *RECORDED},
    "machine": RECORDED,
    "machine.alerts": {"machine.alerts", *BASE},
    "machine.attachment": {"machine.attachment", "machine.sources", *RECORDED},
    "machine.publishers": {"machine.publishers", *BASE},
    "machine.sources": {"machine.sources", *BASE},
    "machine.suspicions": {"machine.suspicions", "model"},
    "machine.tenants": {"machine.tenants", "model"},
    "machine.watch": {"machine.watch", "machine.sources", *RECORDED},
    "cluster": {"cluster"},
    "cluster.ledgers": {"cluster.ledgers", "store", *BASE},
    "cluster.meters": {"cluster.meters", *BASE},
    "cluster.report": {"cluster.report", "catalog", "version", *BASE},
    "cluster.server": {
        *("cluster.server", "machine.watch", "reports", "record", "version", *PLUGS),
    },
    "testing": {
        *("testing", "cluster.ledgers", "cluster.meters", "cluster.report", "record"),
        *JUDGED,
    },
    "api": {"api", *VERBS},
    "integrations": {"integrations", "api", "errors"},
    "cli": {"cli", *VERBS},
    "probe": {"probe"},
    "__main__": {"cli"},
    "emulator": {"emulator", "machine.sources", *BASE},
}
"""layer -> the layers that it may import, or the folders of which it may import all"""
SPLIT = ("machine", "cluster")
"""folders whose folders are layers of their own"""
WIRE = ("whyidle.probe.wire", "whyidle.probe.redaction")
MAY_IMPORT_WIRE = {"model", "readers", "analysis", "diagnosis", "record", "machine", "testing"}
"""layers that may import what the probe and the readers of its files share, and no other part"""

FORBIDDEN_NAMES = {"utils", "util", "common", "helpers", "helper", "manager", "misc"}
MOST_LINES = 400
LONGER: dict[str, str] = {}
"""file -> why it may be longer"""

INTEGRATED = {"ray", "keras", "lightning", "pytorch_lightning", "transformers"}
SERVICES = {"apprise"}
SERVER = {"starlette", "uvicorn", "jinja2"}
TRACKERS = {"mlflow", "tensorboard", "comet_ml"}
OPTIONAL = {
    *TRACKERS,
    *SERVICES,
    "optuna",
    *SERVER,
    "ray",
    "duckdb",
    "lightkube",
    "torch",
    "pynvml",
    "tensorflow",
    "jax",
    "IPython",
    *INTEGRATED,
}
THIRD_PARTY = {
    "model": {"msgspec", "numpy"},
    "analysis": {"numpy", "msgspec"},
    "causes": {"numpy"},
    "fixes": {"numpy"},
    "patches": {"libcst"},
    "frameworks": set(),
    "readers": {"numpy", "msgspec", "isal"},
    "diagnosis": {"numpy", "msgspec"},
    "record": {"numpy", "msgspec", "psutil"},
    "recordings": {"numpy", "msgspec"},
    "fix": {"numpy", "msgspec", "psutil", "ray"},
    "runs": {"msgspec", "numpy"},
    "planning": {"numpy", "msgspec", "psutil", "optuna", "ray", "tomli"},
    "machine": {"msgspec", "psutil", "pynvml", "tomli", "apprise", "numpy", *TRACKERS},
    "cluster": {"msgspec", "lightkube", "httpx", "duckdb", "numpy", "tomli", *SERVER},
    "reports": {"numpy", "msgspec", "isal", "rich"},
    "store": {"msgspec", "tomli"},
    "catalog": set(),
    "testing": {"numpy", "msgspec", "hypothesis", "pytest", "torch"},
    "cli": {"msgspec", "rich", "shtab"},
    "errors": set(),
    "version": set(),
    "api": {"IPython"},
    "integrations": INTEGRATED,
    "probe": {"torch", "tensorflow", "jax", "h5py", "numpy", "pyarrow"},
    "__main__": set(),
    "emulator": {"numpy", "torch"},
}
"""by the first folder"""


def inside(path: Path) -> Path:
    """A file's place in the package, or in the emulator's."""
    return path.relative_to(ROOT if path.is_relative_to(ROOT) else EMULATOR.parent)


def layer(path: Path) -> str:
    parts = inside(path).with_suffix("").parts
    return ".".join(parts[:2]) if parts[0] in SPLIT and len(parts) > 2 else parts[0]


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
            allowed = THIRD_PARTY.get(own.partition(".")[0], set())
            if top not in sys.stdlib_module_names and top not in allowed:
                yield name
            continue
        target = rest[0] if rest else ""
        ours = (ROOT / target).is_dir() or (ROOT / f"{target}.py").is_file()
        if name.startswith(WIRE) and own.partition(".")[0] in MAY_IMPORT_WIRE:
            continue
        targets = {target, ".".join(rest[:2])}
        if ours and own != "__init__" and not targets & MAY_IMPORT[own]:
            yield name


def test_imports_go_down_only():
    assert len(FILES) > 100
    wrong = [
        f"{inside(path)} imports {name}"
        for path in FILES
        for name in forbidden(layer(path), imports(path))
    ]
    assert not wrong, "\n".join(["", *wrong])


def test_the_page_shows_these_layers():
    page = (EMULATOR.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([\w.]+)` \| (.+?) \| .+ \|$", page, re.MULTILINE))
    shown = {name: rows.get(name) for name in MAY_IMPORT}
    assert shown == {
        name: ", ".join(sorted(names - {name})) or "nothing" for name, names in MAY_IMPORT.items()
    }


def test_an_import_that_goes_up_is_noticed():
    names = [
        "json",
        "msgspec",
        "whyidle.model.timeline",
        "torch",
        "whyidle.diagnosis.diagnose",
    ]
    assert list(forbidden("model", names)) == ["torch", "whyidle.diagnosis.diagnose"]


def dotted(path: Path) -> str:
    package = ["whyidle"] if path.is_relative_to(ROOT) else []
    return ".".join([*package, *inside(path).parts]).removesuffix(".py")


MODULES = {dotted(path) for path in FILES}


def modules_of(path: Path) -> set[str]:
    """Files of ours that a file imports, for types only or not."""
    tree = parse_file(path)
    found = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Import | ast.ImportFrom):
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


PROBE_MAY_IMPORT = {
    "__init__": {"core", "knobs"},
    "wire": set(),
    "redaction": set(),
    "core": {"core", "redaction", "wire"},
    "trial": {"core", "trial"},
    "frameworks": {"core", "frameworks", "knobs", "trial", "wire"},
    "knobs": {"core", "frameworks", "knobs"},
    "isolation": {"isolation"},
    "preparation": {"frameworks", "knobs", "preparation"},
    "boot": set(),
}
"""part of the probe -> the parts that it may import"""
NO_FRAMEWORK = {"__init__", "wire", "redaction", "core", "trial", "boot"}
"""parts that import no framework, not even inside a function"""


def part(name: str) -> str:
    """The part of the probe that a dotted name lies in."""
    inner = name.split(".")[2:]
    return inner[0] if inner else "__init__"


def foreign_parts(path: Path) -> set[str]:
    """What a file of the probe imports and may not: other parts, and frameworks."""
    own = part(dotted(path).removesuffix(".__init__"))
    found = {part(name) for name in modules_of(path)} - {"__init__"} - PROBE_MAY_IMPORT[own]
    if own in NO_FRAMEWORK:
        found |= {name.partition(".")[0] for name in imports(path)} - sys.stdlib_module_names
    return found


def test_the_probe_s_core_knows_no_framework():
    paths = [path for path in FILES if layer(path) == "probe"]
    assert len(paths) > 50
    wrong = [f"{inside(path)} imports {name}" for path in paths for name in foreign_parts(path)]
    assert not wrong, "\n".join(["", *wrong])


ONE_A_FILE = (
    *("causes", "fixes", "patches", "machine.suspicions", "machine.tenants"),
    *("cluster.ledgers", "cluster.meters"),
)


def test_causes_do_not_import_each_other():
    for path in FILES:
        if layer(path) in ONE_A_FILE and path.name[0] != "_":
            for name in imports(path):
                parts = name.split(".")
                if ".".join(parts).startswith(f"whyidle.{layer(path)}."):
                    module = [part for part in parts if part[0] == "_"]
                    assert module, f"{path.name} imports {name}, another plug-in"


def test_no_drawer_for_everything():
    names = {part for path in FILES for part in inside(path).with_suffix("").parts}
    assert not names & FORBIDDEN_NAMES


def test_files_are_short():
    lengths = {str(inside(path)): path.read_text(encoding="utf-8").count("\n") for path in FILES}
    assert not {name: n for name, n in lengths.items() if n > MOST_LINES and name not in LONGER}
    assert not [name for name in LONGER if lengths.get(name, 0) <= MOST_LINES], "no longer needed"


HEAVY = {"numpy", "rich", "msgspec", "isal", "psutil", "json", "multiprocessing"}


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
    modules = [name for name in modules if "integrations." not in name]  # they name their extra
    modules = [name for name in modules if ".server" not in name]  # whyidle serve names it
    run_python(
        "import importlib, sys\n"
        f"sys.modules.update(dict.fromkeys({sorted(OPTIONAL)!r}))\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
    )


def test_importing_the_package_loads_nothing_heavy():
    loaded = run_python("import whyidle, sys; print(*sys.modules)").split()
    assert [name for name in loaded if name.startswith("whyidle.")] == ["whyidle.version"]
    assert not HEAVY & {name.partition(".")[0] for name in loaded}


@pytest.mark.parametrize("arguments", [["--help"], ["explain", "--help"], ["--version"], ["oops"]])
def test_help_loads_nothing_heavy(arguments: list[str]):
    loaded = run_python(
        "import sys\n"
        "from whyidle.__main__ import main\n"
        f"try: main({arguments!r})\n"
        "except SystemExit: pass\n"
        "print('LOADED', *sorted({name.partition('.')[0] for name in sys.modules}))\n"
    ).rpartition("LOADED")[2]
    assert not HEAVY & set(loaded.split())
