"""Writes the pages that are made from source. ``make docs``.

These are ``docs/causes``, ``docs/fixes.md``, the index by symptom, the index of the decisions, and
the report in the tutorial, the code on the page about plug-ins, and what was proven on which GPU.
``--check`` writes nothing and exits with 1 where a page is not what the source says.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from whyidle import catalog
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.reports.terminal import render
from whyidle.testing.demo import job

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))

import cause_pages  # noqa: E402  # beside this file, as the next two
import fixes_page  # noqa: E402
import proofs  # noqa: E402

TUTORIAL = Path("docs") / "tutorial.md"
PLUGINS = Path("docs") / "how-to" / "plug-ins.md"
PROVEN = {
    Path("README.md"): ("docs/results/", "docs/gpu.md"),
    Path("docs") / "limits.md": ("results/", "gpu.md"),
    Path("docs") / "gpu.md": ("results/", ""),
    Path("docs") / "results" / "README.md": ("", "../gpu.md"),
}
"""pages that say what was proven on which GPU, and their links"""
_FILE = re.compile(r"(<!-- file: (\S+?\.(\w+)) -->\n).*?(<!-- /file -->)", re.DOTALL)
_DEMO = re.compile(r"(<!-- demo: .*? -->\n).*?(<!-- /demo -->)", re.DOTALL)
_NEXT = (
    ("whyidle causes dataloader-no-workers", "about this cause"),
    ("whyidle report last", "the full report"),
    ("whyidle report last --html why.html", "as an HTML page"),
)


SYMPTOMS = {
    "input": (
        "Utilization swings within each step",
        "The GPU falls to 0 % between batches, while CPU cores, a disk or a network are busy.",
    ),
    "transfer": (
        "Copies stand between kernels",
        "The GPU waits at every `.to(device)` or `.cpu()`.",
    ),
    "host": (
        "Utilization is low and even",
        "One CPU core is at 100 %, and a faster GPU changes nothing.",
    ),
    "device": (
        "Utilization is near 100 %, and training is slow",
        "The GPU works all the time, on something that could be cheaper.",
    ),
    "distributed": (
        "More GPUs hardly make it faster",
        "Utilization is high on all ranks, but power is low on some.",
    ),
    "interruption": (
        "Training pauses for seconds",
        "At checkpoints, evaluations, logging, compilation, or at the start.",
    ),
    "memory": (
        "Memory grows, or is nearly full",
        "Memory of the device or the host, or memory that is freed and allocated in every step.",
    ),
    "hardware": (
        "The same job is slower on one machine, or at some times",
        "Clocks, power or links are below their rating.",
    ),
    "allocation": (
        "The job has other resources than expected",
        "GPUs are reserved and unused, CPU cores are missing, or there are neighbours.",
    ),
}
"""family of causes -> what somebody observes: a heading and a sentence"""


def pages(root: Path = ROOT) -> dict[Path, str]:
    """Path -> content, of all that is made."""
    docs = root / "docs"
    made = {
        docs / "causes" / f"{c.id}.md": cause_pages.cause_markdown(c)
        for c in catalog.load_causes().values()
    }
    tutorial = (ROOT / TUTORIAL).read_text(encoding="utf-8")
    return {
        root / TUTORIAL: _insert_report(tutorial),
        docs / "causes" / "README.md": cause_pages.catalogue_index(),
        docs / "decisions" / "README.md": _list_decisions(),
        docs / "fixes.md": fixes_page.fixes_page(),
        docs / "symptoms.md": _list_symptoms(),
        **{
            root / page: proofs.insert_proofs(
                (ROOT / page).read_text(encoding="utf-8"), ROOT / "docs" / "results", *links
            )
            for page, links in PROVEN.items()
        },
        root / PLUGINS: _insert_files((ROOT / PLUGINS).read_text(encoding="utf-8")),
        **made,
    }


def _insert_report(text: str) -> str:
    """The page with the demonstration's report."""
    report = render(diagnose_job([job().timeline()]), width=80, next_steps=_NEXT)
    return _DEMO.sub(lambda found: f"{found[1]}```\n{report.strip(chr(10))}\n```\n{found[2]}", text)


def _insert_files(text: str) -> str:
    """The page with the files that it names."""

    def insert(found: re.Match[str]) -> str:
        content = (ROOT / found[2]).read_text(encoding="utf-8").strip()
        language = {"py": "python"}.get(found[3], found[3])
        return f"{found[1]}```{language}\n{content}\n```\n{found[4]}"

    return _FILE.sub(insert, text)


def _list_symptoms() -> str:
    """Causes by what somebody observes."""
    lines = [
        "# Causes by symptom",
        "",
        "Symptoms and their possible causes. Made from source by `make docs`. "
        "`whyidle run` and `whyidle explain` tell these causes apart.",
        "",
    ]
    causes = catalog.load_causes().values()
    for family in sorted({cause.family for cause in causes}, key=list(SYMPTOMS).index):
        heading, observed = SYMPTOMS[family]
        lines += [f"## {heading}", "", observed, "", "| cause | what it is |", "|---|---|"]
        lines += [
            f"| [`{cause.id}`](causes/{cause.id}.md) | {cause.title} |"
            for cause in sorted(causes, key=lambda cause: cause.id)
            if cause.family == family
        ]
        lines.append("")
    return "\n".join(lines)


def _list_decisions() -> str:
    """The index of the decision records."""
    lines = [
        "# Decisions",
        "",
        "Decisions that bind, one page each: context, decision, and the alternatives that lost. "
        "The list is made by `make docs`.",
        "",
    ]
    for path in sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md")):
        title = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        number, _, said = title.partition(". ")
        lines.append(f"{number}. [{said}]({path.name})")
    return "\n".join(lines) + "\n"


def stale(root: Path = ROOT) -> list[Path]:
    """Files that are missing, different, or of no cause any more."""
    wanted = pages(root)
    present = {*wanted, *(root / "docs" / "causes").glob("*.md")}
    texts = {path: path.read_text(encoding="utf-8") for path in present if path.exists()}
    return sorted(p for p in {*wanted, *texts} if wanted.get(p) != texts.get(p))


def main() -> int:
    """Write what is stale, or only say so."""
    paths = stale()
    if "--check" in sys.argv:
        print(
            "".join(f"stale: {path.relative_to(ROOT)}; run make docs\n" for path in paths), end=""
        )
        return 1 if paths else 0
    wanted = pages()
    for path in paths:
        if path in wanted:
            path.parent.mkdir(exist_ok=True)
            path.write_text(wanted[path], encoding="utf-8")
        else:
            path.unlink()
    print(f"{len(paths)} of {len(wanted)} pages written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
