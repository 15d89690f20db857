"""Scoreboard: our verdicts beside a careful reader's, on a folder of real PyTorch traces, and the
share of kernel time whose kernels no rule names.

The folder's README holds a table with one row per trace and the reader's verdict in bold, as in
``| `name` | ... | **launch** - why | source |``. Run::

    python bench/traces.py FOLDER [--markdown OUT]

Exit status 1 where a verdict disagrees that ``ARGUED`` does not name.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path

from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.diagnosis import Diagnosis
from whyidle.readers import kineto

READER = (
    ("warm-up", "interruption"),
    ("near-healthy", "compute"),
    ("compute", "compute"),
    ("input", "input"),
    ("launch", "host"),
    ("comm", "communication"),
    ("h2d", "transfer"),
    ("no gpu", None),
    ("no kernels", None),
    ("edge", "compute"),
    ("tiny", "host"),
)
"""the reader's word -> our bucket (None: no verdict is possible)"""

ARGUED = {
    "toy_mi250_rocm62",
    "odd_cpu_only_gloo_rank34",
    "resnet50_v100_workers4_b",
}
"""where we disagree, for a reason that the events show"""


def readers_verdicts(readme: Path) -> dict[str, tuple[str, str | None]]:
    """By name: (the reader's words, the bucket they mean)"""
    found = {}
    for line in readme.read_text(encoding="utf-8").splitlines():
        row = re.match(r"\| `(?P<name>[\w.]+)` \|.*\| \*\*(?P<word>[^*]+)\*\*", line)
        if row:
            word = row["word"].lower()
            bucket = next((b for key, b in READER if word.startswith(key)), "?")
            found[row["name"]] = row["word"], bucket
    return found


def agrees(diagnosis: Diagnosis, bucket: str | None) -> bool:
    """Whether our leading bucket and state say what the reader says."""
    if bucket is None:
        return diagnosis.verdict.state == "inconclusive"
    if bucket == "compute":
        return diagnosis.verdict.state != "starved" and diagnosis.verdict.bound in ("compute", None)
    return diagnosis.verdict.bound == bucket


def main() -> int:
    """Print the table; optionally write it as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    readmes = [options.folder / "README.md", options.folder.parent / "README.md"]
    expected = readers_verdicts(next(readme for readme in readmes if readme.exists()))
    rows, wrong = [], 0
    for name, (word, bucket) in sorted(expected.items()):
        path = options.folder / f"{name}.pt.trace.json.gz"
        if not path.exists():
            continue
        begin = time.perf_counter()
        diagnosis = diagnose_job([kineto.load(path)])
        took = time.perf_counter() - begin
        good = agrees(diagnosis, bucket)
        mark = "yes" if good else "argued" if name in ARGUED else "NO"
        wrong += mark == "NO"
        top = diagnosis.findings[0].cause if diagnosis.findings else "-"
        verdict = f"{diagnosis.verdict.state} / {diagnosis.verdict.bound or '-'}"
        other = f"{diagnosis.detail.groups.get('other', 0.0):.1%}"
        rows.append((name, word, verdict, top, other, f"{took:.2f}", mark))
        line = f"{name:42} {word:28} {verdict:28} {top:30} {other:>6} {took:5.2f} s  {mark}"
        print(line, flush=True)
    if not rows:
        raise SystemExit(f"{options.folder} holds no trace that its README.md lists")
    agreed = sum(row[-1] == "yes" for row in rows)
    print(f"{agreed} of {len(rows)} agree, {len(rows) - agreed - wrong} argued, {wrong} wrong")
    if options.markdown:
        options.markdown.write_text(table(rows), encoding="utf-8")
    return 1 if wrong else 0


def table(rows: list[tuple[str, ...]]) -> str:
    """The scoreboard as a Markdown table."""
    head = ("trace", "reader", "whyidle", "first finding", "other kernels", "seconds", "agrees")
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
