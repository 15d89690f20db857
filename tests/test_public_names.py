"""What others build on changes only where the change log says so: ``docs/surface.py``."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import whyidle

ROOT = Path(__file__).parents[1]
SURFACE = runpy.run_path(str(ROOT / "docs" / "surface.py"))
RECORDED = SURFACE["RECORDED"].read_text(encoding="utf-8").splitlines()
UNRELEASED = re.compile(r"^## \[Unreleased\]$(.*?)^## \[", re.DOTALL | re.MULTILINE)


def removed_lines(log: str) -> list[str]:
    """What the change log lists as removed since the last release."""
    found = UNRELEASED.search(log)
    parts = re.split(r"^### ", found[1] if found else "", flags=re.MULTILINE)
    return [line for part in parts if part.startswith("Removed") for line in part.splitlines()]


def unannounced(recorded: list[str], today: list[str], log: str) -> list[str]:
    """What is gone without a line that names it: an option with its verb, else its last word."""
    announced = removed_lines(log)

    def is_named(item: str) -> bool:
        kind, *words = item.split()
        needed = words if kind in ("option", "verb") else words[-1:]
        return any(all(word in line for word in needed) for line in announced)

    return [item for item in recorded if item not in set(today) and not is_named(item)]


def test_nothing_that_others_build_on_is_gone_unannounced():
    log = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert unannounced(RECORDED, SURFACE["describe_surface"](), log) == []


def test_a_break_is_noticed_and_an_announced_one_is_not():
    today = SURFACE["describe_surface"]()
    gone = ["option explain --json", "key whyidle/diagnosis/1 verdict headline", "verb watch"]
    left = [item for item in today if item not in gone]
    log = "## [Unreleased]\n\n### Removed\n\n- `explain --json`\n- `whyidle watch`\n\n## [0]\n"
    assert unannounced(sorted(gone), left, "") == sorted(gone)
    assert unannounced(sorted(gone), left, log) == [gone[1]]
    assert unannounced(sorted(gone), left, log.replace("Removed", "Added")) == sorted(gone)


def test_every_public_name_is_there():
    assert set(whyidle.__all__) <= set(dir(whyidle))
    assert all(getattr(whyidle, name) is not None for name in whyidle.__all__)
