"""Writes the pages that are made from source: ``docs/causes``. Run by ``make docs``.

``--check`` writes nothing and exits with 1 where a page is not what the source says.
"""

from __future__ import annotations

import sys
from pathlib import Path

from whyidle import catalog
from whyidle.cli import _pages

FOLDER = Path(__file__).parent / "causes"


def pages() -> dict[str, str]:
    """File name -> content."""
    made = {f"{cause.id}.md": _pages.markdown(cause) for cause in catalog.causes().values()}
    return {"README.md": _pages.index(), **made}


def stale(folder: Path = FOLDER) -> list[str]:
    """Names of pages that are missing, different, or of no cause any more."""
    wanted = pages()
    present = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    return sorted(n for n in {*wanted, *present} if wanted.get(n) != present.get(n))


def main() -> int:
    """Write what is stale, or only say so."""
    names = stale()
    if "--check" in sys.argv:
        print("\n".join(f"stale: docs/causes/{name}; run make docs" for name in names))
        return 1 if names else 0
    FOLDER.mkdir(exist_ok=True)
    wanted = pages()
    for name in names:
        if name in wanted:
            (FOLDER / name).write_text(wanted[name], encoding="utf-8")
        else:
            (FOLDER / name).unlink()
    print(f"{len(names)} of {len(wanted)} pages written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
