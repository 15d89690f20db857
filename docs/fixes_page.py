"""The page of all fixes: those that ``whyidle fix`` applies, and advice."""

from __future__ import annotations

import ast
import inspect
import sys

from whyidle import catalog
from whyidle.model.fix import CONSENTS, Fix
from whyidle.model.knobs import ENVIRONMENT

EVERY_VARIABLE = "env.*"
"""environment variables, as source forms name them"""
_HEAD = """# All fixes

This page lists every fix that a diagnosis may propose; `make docs` generates it from the source.
The diagnosis of a job predicts the gain of each fix, and a trial of `whyidle fix` measures it. A
fix that cannot be applied safely declines and gives the reason. Fixes marked in the column *patch*
can also be written into a plain training script.
"""
_GROUPS = (
    ("Applied automatically", "whyidle applies these fixes to the running process and leaves your "
     "files unchanged: in trials, and with `whyidle run --plan plan.toml`.", ("none", "rounding")),
    ("Applied with consent", "Applied in the same way, if `--allow numerics` or "
     "`--allow convergence` permits it.", ("numerics", "convergence")),
    ("Advice", "These fixes need knowledge of the job, or change what it shows. whyidle predicts "
     "their gain and does not apply them.", ()),
)  # fmt: skip


def fixes_page() -> str:
    """All fixes as tables, grouped by how they are applied."""
    remaining = dict(sorted(catalog.load_fixes().items()))
    forms = {knob for form in catalog.load_source_forms().values() for knob in form.knobs}
    lines = [_HEAD]
    for title, intro, consents in _GROUPS:
        lines += [f"## {title}", "", intro, "", "| fix | what it does | numbers | patch | for |"]
        lines.append("|---|---|---|---|---|")
        for fix in list(remaining.values()):
            if consents and not (fix.consent in consents and _is_automatic(fix)):
                continue
            del remaining[fix.id]
            title_text = fix.title.rstrip(".").replace("``", "`")
            causes = ", ".join(f"[`{cause}`](causes/{cause}.md)" for cause in fix.causes)
            patch = "yes" if _is_automatic(fix) and forms & {*_knob_names(fix)} else ""
            cells = (f"`{fix.id}`", title_text, CONSENTS[fix.consent], patch, causes)
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def _is_automatic(fix: Fix) -> bool:
    knobs = _knob_names(fix)
    by_hand = bool(knobs) and all(catalog.find_knob(knob).by_people for knob in knobs)
    return not by_hand and any(map(_sets_knob, ast.walk(ast.parse(_source_text(fix)))))


def _sets_knob(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    arguments = {keyword.arg: keyword.value for keyword in node.keywords}
    automatic = arguments.get("automatic")
    is_advice = isinstance(automatic, ast.Constant) and automatic.value is False
    return node.func.id == "Proposal" and "edits" in arguments and not is_advice


def _source_text(fix: Fix) -> str:
    return inspect.getsource(sys.modules[fix.decide.__module__])


def _knob_names(fix: Fix) -> list[str]:
    text = _source_text(fix)
    full = [knob for knob in catalog.load_knobs() if f'"{knob}"' in text]
    family = [knob for knob in catalog.load_knobs() if f'f"{knob.partition(".")[0]}.{{' in text]
    return [*full, *family, *([EVERY_VARIABLE] if f'"{ENVIRONMENT}' in text else [])]
