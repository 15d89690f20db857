"""Size and names of the source: ``python bench/codebase.py``.

Prints how many lines and files the package has, how many functions have a name of one word, which
functions and modules are named by a participle, a pronoun or a preposition alone, and which modules
import each other. ``tests/test_names.py`` holds the limits.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SMALL = 25
SOURCE = Path(__file__).parent.parent / "src" / "whyidle"


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


NOUNS = words(
    """
    bed bring bucketing distributed embed exceed feed heading lightning listing logging mapping
    missing need nesting padding patching ping proceed rating reading recording ring rounding
    seed seeding setting speed spring string thing timing tracing wording
    """
)
"""words that end like a participle and are nouns, adjectives of data (``missing``), or names of
products (``torch.distributed``)"""
IRREGULAR_PARTICIPLES = words(
    """
    become begun been bound broken built chosen come done drawn found given gone gotten grown held
    hidden kept known left lost made meant put ran said seen sent shown spent taken thrown told torn
    won worn written
    """
)
PRONOUNS = words(
    """
    all another any both each every its it mine nobody none nothing one other others own same some
    somebody such that theirs these this those what which who whoever whose
    """
)
PREPOSITIONS = words(
    """
    above across after against along and apart around aside at before below beside besides between
    beyond but by during for from here how in inside into least less meanwhile more most mostly not
    of on once again only onto or outside over since there to together under until upon when where
    whether why with within without
    """
)
"""and conjunctions and adverbs, which say as little"""


def function_names(root: Path = SOURCE) -> Iterator[tuple[Path, str]]:
    """Every function and method of the package, those of Python's own protocols left out."""
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            named = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            if named and not (node.name.startswith("__") and node.name.endswith("__")):
                yield path, node.name


def is_one_word(name: str) -> bool:
    """Whether a name has no underscore within it."""
    return "_" not in name.strip("_")


def says_nothing_alone(name: str) -> bool:
    """Whether a name is a single participle, pronoun, preposition or adverb."""
    word = name.strip("_").lower()
    if "_" in word or word in NOUNS:
        return False
    participle = word in IRREGULAR_PARTICIPLES or re.search(r"[a-z]{2,}(ed|ing)$", word) is not None
    return participle or word in PRONOUNS or word in PREPOSITIONS


def module_names(root: Path = SOURCE) -> dict[str, Path]:
    """The modules below a package by their dotted names; a package is its ``__init__``."""
    names = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        names[".".join(parts).removesuffix(".__init__")] = path
    return names


def imported_modules(name: str, path: Path, modules: dict[str, Path]) -> set[str]:
    """The modules that a module imports anywhere, in functions and for types only included."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join([*(above if node.level else []), *filter(None, [node.module])])
            within = {alias.name: f"{base}.{alias.name}" for alias in node.names}
            found |= {full if full in modules else base for full in within.values()}
    return (found & set(modules)) - {name}


def import_circles(root: Path = SOURCE) -> list[list[str]]:
    """Groups of modules each of which leads, import by import, to all the others of its group."""
    modules = module_names(root)
    imports = {name: imported_modules(name, path, modules) for name, path in modules.items()}
    leads_to = {name: _reachable(name, imports) for name in modules}
    circles = {
        tuple(sorted(other for other in reached if name in leads_to[other]))
        for name, reached in leads_to.items()
        if name in reached
    }
    return [list(circle) for circle in sorted(circles)]


def _reachable(name: str, imports: dict[str, set[str]]) -> set[str]:
    """The modules to which imports lead from one, itself only by way of others."""
    reached: set[str] = set()
    waiting = list(imports[name])
    while waiting:
        if (module := waiting.pop()) not in reached:
            reached.add(module)
            waiting += imports[module]
    return reached


@dataclass(frozen=True, slots=True)
class Figures:
    """What the house is measured by."""

    lines: int
    files: int
    functions: int
    one_word_share: float
    empty_functions: list[str]
    """words that say nothing alone and are a function's whole name"""
    empty_modules: list[str]
    circles: list[list[str]]
    largest_folder: int
    """files of the folder that has most"""
    small_modules: int
    """modules under ``SMALL`` lines, ``__init__`` left out"""
    thresholds: int
    """numbers that a module names at its level"""


def count_thresholds(path: Path) -> int:
    """Names at module level whose value is a number."""
    count = 0
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            value = node.value.operand if isinstance(node.value, ast.UnaryOp) else node.value
            number = isinstance(value, ast.Constant) and type(value.value) in (int, float)
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            count += number * sum(isinstance(n, ast.Name) for t in targets for n in ast.walk(t))
    return count


def measure_codebase(root: Path = SOURCE) -> Figures:
    """Count all of it."""
    files = sorted(root.rglob("*.py"))
    names = [name for _, name in function_names(root)]
    return Figures(
        lines=sum(path.read_text(encoding="utf-8").count("\n") for path in files),
        files=len(files),
        functions=len(names),
        one_word_share=sum(map(is_one_word, names)) / len(names),
        empty_functions=sorted({name for name in names if says_nothing_alone(name)}),
        empty_modules=sorted({path.stem for path in files if says_nothing_alone(path.stem)}),
        circles=import_circles(root),
        largest_folder=max(Counter(path.parent for path in files).values()),
        small_modules=sum(
            path.read_text(encoding="utf-8").count("\n") < SMALL
            for path in files
            if path.name != "__init__.py"
        ),
        thresholds=sum(map(count_thresholds, files)),
    )


def main() -> None:
    """Print the figures."""
    found = measure_codebase()
    print(f"{found.lines:,} lines in {found.files} files, at most {found.largest_folder} a folder")
    print(f"{found.small_modules} modules under {SMALL} lines, {found.thresholds} thresholds")
    print(f"{found.functions:,} functions, {found.one_word_share:.1%} with a name of one word")
    for what, empty in (("functions", found.empty_functions), ("modules", found.empty_modules)):
        print(f"{len(empty)} words that say nothing alone name {what}: {' '.join(empty)}")
    print(f"{len(found.circles)} import circles")
    for circle in found.circles:
        print(f"  {len(circle)} modules: {' '.join(circle)}")


if __name__ == "__main__":
    main()
