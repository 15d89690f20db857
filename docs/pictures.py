"""Draws the pictures of the README and the site from the demonstration. ``make pictures``.

``terminal.svg`` is the report in colours; ``page.png`` is the HTML page, photographed by a headless
Chromium. Both refer to nothing outside themselves.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.diagnosis import Diagnosis
from whyidle.reports import html, terminal
from whyidle.testing.demo import job

FOLDER = Path(__file__).parent / "pictures"
COLUMNS = 96
PAGE_SIZE = (1180, 1000)
COLOURS = 128
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_FONT_FACE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def draw_terminal(diagnosis: Diagnosis) -> None:
    """The first finding of the report, as SVG."""
    report = terminal.render(diagnosis, width=COLUMNS, colours="truecolor")
    lines = Text.from_ansi(report).split("\n", allow_blank=True)
    second = next((n for n, line in enumerate(lines) if line.plain.startswith("  2. ")), len(lines))
    console = Console(record=True, width=COLUMNS, file=StringIO(), color_system="truecolor")
    for line in lines[:second]:
        console.print(line, soft_wrap=True)
    drawn = console.export_svg(
        title="whyidle explain trace.json.gz", theme=MONOKAI, unique_id="whyidle"
    )
    drawn = _FONT_FACE.sub("", drawn).replace("Fira Code", "ui-monospace, Menlo, Consolas")
    (FOLDER / "terminal.svg").write_text(drawn, encoding="utf-8")


def photograph_page(diagnosis: Diagnosis) -> None:
    """The upper part of the HTML page, as PNG."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit(f"page.png was not drawn: none of {', '.join(BROWSERS)} is installed.")
    with tempfile.TemporaryDirectory() as folder:
        page, shot = Path(folder) / "why.html", Path(folder) / "shot.png"
        page.write_text(html.render(diagnosis), encoding="utf-8")
        size = ",".join(map(str, PAGE_SIZE))
        options = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={size}"]
        command = [browser, *options, f"--screenshot={shot}", page.as_uri()]
        subprocess.run(command, check=True, capture_output=True)
        with Image.open(shot) as picture:
            picture.convert("RGB").quantize(COLOURS).save(FOLDER / "page.png", optimize=True)


def main() -> None:
    """Draw both."""
    FOLDER.mkdir(exist_ok=True)
    diagnosis = diagnose_job([job().timeline()])
    draw_terminal(diagnosis)
    photograph_page(diagnosis)


if __name__ == "__main__":
    main()
