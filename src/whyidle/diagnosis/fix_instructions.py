"""Describes how to set knobs by hand, in the terms of the job's framework."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from whyidle import catalog
from whyidle.model.diagnosis import Edit, Finding
from whyidle.model.knobs import ENVIRONMENT, LISTS, Setting, as_python

PYTORCH = "pytorch"
EDITS = "{edits}"
"""stands for the wording of the edits in a summary"""
CALL = "(..., "


def by_hand(knob: str, value: Setting, framework: str | None = PYTORCH) -> str:
    """Instruction for setting a knob, without full stop; in the framework's words, or else as
    declared; without any, the knob's meaning."""
    if knob.startswith(ENVIRONMENT):
        variable = knob.removeprefix(ENVIRONMENT)
        behind = ", appended with a comma if it is already set," if variable in LISTS else ""
        return f"export {variable}={value}{behind} before the command"
    declared = catalog.find_knob(knob)
    written = catalog.knob_wording(framework).get(knob) or declared.wording
    if not written:
        meaning = f": {declared.meaning}" if declared.meaning else ""
        return f"set {knob} to {as_python(value)}{meaning}"
    return "write " + written.format(value=as_python(value), text=value)


def summarize_edits(edits: Iterable[Edit], framework: str | None = PYTORCH) -> str:
    """Instruction for several edits, in one line."""
    hands = [by_hand(one.knob, one.value, framework) for one in edits if one.value is not None]
    calls: dict[str, list[str]] = {}
    for hand in hands:  # one call with all of its arguments
        name, arguments, last = hand.removeprefix("write ").partition(CALL)
        if arguments and name.isidentifier():
            calls.setdefault(name, []).append(last.removesuffix(")"))
        else:
            calls[name + arguments + last] = []
    return ", ".join(
        f"{name}{CALL}{', '.join(last)})" if last else name for name, last in calls.items()
    )


def patched_difference(knob: str, framework: str | None = PYTORCH) -> str:
    """Difference between setting a knob in a file and in a process, without full stop."""
    return catalog.patch_wording(framework).get(knob, "")


def word_fixes(finding: Finding, framework: str | None) -> Finding:
    """The finding with its fixes in the framework's words."""
    examples = catalog.fix_wording(framework)
    fixes = []
    for fix in finding.fixes:
        edits = summarize_edits(fix.edits, framework)
        summary = fix.summary.replace(EDITS, edits) or edits
        if fix.fix in examples:
            summary = f"{summary} ({examples[fix.fix]})"
        fixes.append(msgspec.structs.replace(fix, summary=summary))
    return msgspec.structs.replace(finding, fixes=fixes)
