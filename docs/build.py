"""Writes what is made from source: ``docs/causes``, ``docs/fixes.md``, and the report in the
README. ``make docs``.

``--check`` writes nothing and exits with 1 where a page is not what the source says.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from whyidle import catalog
from whyidle.cli import _fixes, _pages
from whyidle.engine.diagnose import diagnose
from whyidle.exporters.terminal import render
from whyidle.testing.demo import job

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
_DEMO = re.compile(r"(<!-- demo: .*? -->\n).*?(<!-- /demo -->)", re.DOTALL)
_NEXT = (
    ("whyidle causes dataloader-no-workers", "what it is"),
    ("whyidle report last --html why.html", "with pictures"),
    ("whyidle compare last AFTER", "once you have fixed it"),
)


def pages(root: Path = ROOT) -> dict[Path, str]:
    """Path -> content, of all that is made."""
    folder = root / "docs" / "causes"
    made = {folder / f"{c.id}.md": _pages.markdown(c) for c in catalog.causes().values()}
    readme = README.read_text(encoding="utf-8")
    made[root / "docs" / "fixes.md"] = _fixes.page()
    return {root / "README.md": _demo(readme), folder / "README.md": _pages.index(), **made}


def _demo(readme: str) -> str:
    """The README with the demonstration's report, in place of the one before; of the findings
    only the first."""
    report = render(diagnose([job().timeline()]), width=80, next_steps=_NEXT)
    first, more, rest = report.partition("\n  2. ")
    report = f"{first}\n  ...\n\n  next{rest.rpartition('  next')[2]}" if more else report
    return _DEMO.sub(
        lambda found: f"{found[1]}```\n{report.strip(chr(10))}\n```\n{found[2]}", readme
    )


def stale(root: Path = ROOT) -> list[Path]:
    """Files that are missing, different, or of no cause any more."""
    wanted = pages(root)
    single = [root / "README.md", root / "docs" / "fixes.md"]
    present = [*single, *(root / "docs" / "causes").glob("*.md")]
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
