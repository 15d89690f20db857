"""Diagnosis and comparison as Python objects with renderings."""

from __future__ import annotations

from html import escape
from pathlib import Path

from whyidle.errors import OutputError
from whyidle.model import diagnosis
from whyidle.model.documents import comparison, run_table
from whyidle.reports import html, json, markdown, terminal
from whyidle.reports._comparison_page import comparison_parts
from whyidle.reports._html.sections import render_page
from whyidle.reports._markdown_sections import render_markdown
from whyidle.reports._run_table import summarize_table, table_parts
from whyidle.reports._text_sections import render_text
from whyidle.store.atomic_write import write_atomic


class Diagnosis(diagnosis.Diagnosis, frozen=True, kw_only=True):
    """The diagnosis document ``whyidle/diagnosis/1``.

    ``print(d)`` says verdict and first finding in a line, ``print(d.to_text())`` is the terminal's
    report; in a notebook ``d`` displays the HTML page.
    """

    @classmethod
    def from_document(cls, document: diagnosis.Diagnosis) -> Diagnosis:
        """Convert a document to this class."""
        return cls(**{name: getattr(document, name) for name in document.__struct_fields__})

    def to_text(self, path: str | Path | None = None) -> str:
        """Return the report of the terminal, and write it to ``path`` if given.

        Raises:
            OutputError: the file cannot be written.
        """
        return _write_text(terminal.render(self), path)

    def to_html(self, path: str | Path | None = None) -> str:
        """Return a self-contained HTML page, and write it to ``path`` if given.

        Raises:
            OutputError: the file cannot be written.
        """
        return _write_text(html.render(self), path)

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the document as JSON, and write it to ``path`` if given.

        Raises:
            OutputError: the file cannot be written.
        """
        return _write_text(json.render(self), path)

    def to_markdown(self, path: str | Path | None = None) -> str:
        """Return the report as Markdown for an issue, and write it to ``path`` if given.

        Raises:
            OutputError: the file cannot be written.
        """
        return _write_text(markdown.render(self), path)

    def __repr__(self) -> str:
        count = len(self.findings)
        noun = "finding" if count == 1 else "findings"
        return f"<Diagnosis {self.verdict.state}: {self.verdict.headline} ({count} {noun})>"

    def __str__(self) -> str:
        first = next((f"; {finding}" for finding in self.findings), "")
        return f"{self.verdict.state.upper()}: {self.verdict.headline}{first}"

    def _repr_html_(self) -> str:
        return _frame_page(self.to_html())

    def _repr_markdown_(self) -> str:
        return self.to_markdown()


class Comparison(comparison.Comparison, frozen=True, kw_only=True):
    """The comparison document ``whyidle/comparison/1``."""

    @classmethod
    def from_document(cls, document: comparison.Comparison) -> Comparison:
        """Convert a document to this class."""
        return cls(**{name: getattr(document, name) for name in document.__struct_fields__})

    def __repr__(self) -> str:
        if self.step is None:
            return "<Comparison: step times cannot be compared>"
        certainty = "real" if self.step.real else "within the spread"
        return f"<Comparison: step time ratio {self.step.ratio:.2f}, {certainty}>"

    def __str__(self) -> str:
        return render_text(comparison_parts(self))

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


class RunTable(run_table.RunTable, frozen=True, kw_only=True):
    """The document ``whyidle/run-table/1``: three or more runs, each compared with the baseline."""

    @classmethod
    def from_document(cls, document: run_table.RunTable) -> RunTable:
        """Convert a document to this class."""
        return cls(**{name: getattr(document, name) for name in document.__struct_fields__})

    def to_html(self, path: str | Path | None = None) -> str:
        """Return the table with a chart as an HTML page, and write it to ``path`` if given.

        Raises:
            OutputError: the file cannot be written.
        """
        about = " · ".join(row.name for row in self.runs)
        page = render_page(summarize_table(self), about, table_parts(self), self.whyidle)
        return _write_text(page, path)

    def to_markdown(self, path: str | Path | None = None) -> str:
        """Return the table as Markdown, and write it to ``path`` if given.

        Raises:
            OutputError: the file cannot be written.
        """
        return _write_text(render_markdown(table_parts(self)), path)

    def __repr__(self) -> str:
        return f"<RunTable: {', '.join(row.name for row in self.runs)}>"

    def __str__(self) -> str:
        return render_text(table_parts(self))

    def _repr_html_(self) -> str:
        return _frame_page(self.to_html())


def _frame_page(page: str) -> str:
    return (
        f'<iframe srcdoc="{escape(page)}" sandbox="allow-scripts" '
        'style="width:100%;height:640px;border:0"></iframe>'
    )


def _write_text(text: str, path: str | Path | None) -> str:
    if path is not None:
        try:
            write_atomic(Path(path), text.encode())
        except OSError as error:
            raise OutputError(f"Cannot write {path}.", why=f"{error.strerror or error}.") from error
    return text
