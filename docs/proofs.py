"""What has been proven on which GPU, from the files ``docs/results/gpu-DEVICE-DATE.json`` alone.

``docs/build.py`` puts it where pages have the mark ``gpu``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

SCHEMA = "whyidle/gpu-results/1"
FILE = re.compile(r"gpu-.+-(\d{4}-\d\d-\d\d)\.json")
MARK = re.compile(r"(<!-- gpu -->\s*).*?(\s*<!-- /gpu -->)", re.DOTALL)
NONE = "whyidle has been proven on no GPU yet"


def describe_proofs(results: Path, link: str, how: str) -> str:
    """Sentences in Markdown; ``link`` leads to the folder of the results, ``how`` to the page that
    says how to make them.

    Raises:
        ValueError: a file is no result of a GPU.
    """
    proofs = [_describe_file(path, link) for path in sorted(results.glob("gpu-*.json"))]
    if not proofs:
        return f"{NONE}: [run the proof]({how})." if how else f"{NONE}."
    return f"The proof of whyidle has run on {'; '.join(proofs)}."


def _describe_file(path: Path, link: str) -> str:
    stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    named = FILE.fullmatch(path.name)
    if stored.get("schema") != SCHEMA or stored["emulated"] or named is None:
        raise ValueError(f"{path.name} is no result of a GPU")
    items = [row for stage in stored["stages"].values() for row in stage.values()]
    counts = {
        status: sum(row["status"] == status for row in items)
        for status in ("done", "skipped", "failed")
    }
    wrong = sum(
        row.get("result", {}).get("right") is False
        for row in stored["stages"].get("truth", {}).values()
    )
    parts = [f"{counts['done']} of {len(items)} parts done"]
    parts += [f"{counts[status]} {status}" for status in ("skipped", "failed") if counts[status]]
    parts += [f"{wrong} wrong first findings"] if wrong else []
    page = f"{link}{path.with_suffix('.md').name}"
    return f"[{stored['device']}]({page}) ({named[1]}: {', '.join(parts)})"


def insert_proofs(text: str, results: Path, link: str, how: str) -> str:
    """The page with what has been proven at its mark."""
    proofs = describe_proofs(results, link, how)
    return MARK.sub(lambda found: f"{found[1]}{proofs}{found[2]}", text)
