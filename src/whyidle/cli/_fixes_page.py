"""The page of fixes: which ones ``whyidle fix`` applies itself, and which are for people."""

from __future__ import annotations

import ast
import inspect
import sys
from types import ModuleType

from whyidle import catalog
from whyidle.cli._cause_pages import CONSENTS
from whyidle.model.fix import Fix
from whyidle.model.knobs import ENVIRONMENT

EVERY_VARIABLE = "env.*"
"""what a form of source text calls them"""
_HEAD = """# What can be done about it

Every fix that a diagnosis may name, made from its source by `make docs`. Which one is worth
something, and how much, is told of each job by the diagnosis; a trial of `whyidle fix` proves it.
Each declines where it cannot be applied safely, with a sentence that says why. A patch is written
where the script is plain enough for it.
"""
_GROUPS = (
    ("Applied by whyidle", "To the process that runs, the files as they are: in trials, and with "
     "`whyidle run --plan plan.toml`.", ("none", "rounding")),
    ("Applied with consent", "The same, where `--allow numerics` or `--allow convergence` says "
     "that numbers may change.", ("numerics", "convergence")),
    ("For people", "What only somebody can do who knows the job, or what changes what people see: "
     "named and foretold, not applied.", ()),
)  # fmt: skip


def fixes_page() -> str:
    """Tables of all of them, by who applies them."""
    left = dict(sorted(catalog.load_fixes().items()))
    lines = [_HEAD]
    for title, said, consents in _GROUPS:
        own = [
            one
            for one in left.values()
            if not consents or (one.consent in consents and _is_automatic(one))
        ]
        lines += [f"## {title}", "", said, "", "| fix | what it does | numbers | patch | for |"]
        lines.append("|---|---|---|---|---|")
        for one in own:
            del left[one.id]
            told = (
                f"`{one.id}`",
                _docstring_text(one),
                CONSENTS[one.consent],
                _has_patch(one),
                _causes_column(one),
            )
            lines.append(f"| {' | '.join(told)} |")
        lines.append("")
    return "\n".join(lines)


def _is_automatic(one: Fix) -> bool:
    """Whether it is applied to a process: it sets a knob that is not left to people."""
    knobs = _knob_names(one)
    by_hand = bool(knobs) and all(catalog.find_knob(knob).by_people for knob in knobs)
    return not by_hand and any(map(_sets_knob, ast.walk(ast.parse(_source_text(one)))))


def _sets_knob(node: ast.AST) -> bool:
    """Whether this is a plan with edits that nobody is asked for: others of the same fix may
    be left to people."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    given = {each.arg: each.value for each in node.keywords}
    automatic = given.get("automatic")
    left = isinstance(automatic, ast.Constant) and automatic.value is False
    return node.func.id == "Proposal" and "edits" in given and not left


def _source_text(one: Fix) -> str:
    return inspect.getsource(_module_of(one))


def _module_of(one: Fix) -> ModuleType:
    return sys.modules[one.decide.__module__]


def _knob_names(one: Fix) -> list[str]:
    """Those that its file names, as a whole or by what they begin with."""
    text = _source_text(one)
    named = [knob for knob in catalog.load_knobs() if f'"{knob}"' in text]
    begun = [knob for knob in catalog.load_knobs() if f'f"{knob.partition(".")[0]}.{{' in text]
    return [*named, *begun, *([EVERY_VARIABLE] if f'"{ENVIRONMENT}' in text else [])]


def _docstring_text(one: Fix) -> str:
    return one.title.rstrip(".").replace("``", "`")


def _has_patch(one: Fix) -> str:
    """Whether it can be written into a plain script: patches are of fixes that were applied, and
    kept."""
    forms = {knob for form in catalog.load_source_forms().values() for knob in form.knobs}
    return "yes" if _is_automatic(one) and forms & {*_knob_names(one)} else ""


def _causes_column(one: Fix) -> str:
    return ", ".join(f"[`{cause}`](causes/{cause}.md)" for cause in one.causes)
