"""How a person sets knobs by hand, in the words of the framework that the job uses."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from whyidle import catalog
from whyidle.model.diagnosis import Edit, Finding
from whyidle.model.knobs import ENVIRONMENT, LISTS, Setting, as_python

PYTORCH = "pytorch"


def by_hand(knob: str, value: Setting, framework: str | None = PYTORCH) -> str:
    """What a person does to set a knob, as a sentence without full stop. Where nothing is known of
    the framework it says what the knob means."""
    if knob.startswith(ENVIRONMENT):
        variable = knob.removeprefix(ENVIRONMENT)
        behind = ", behind a comma where it is set already," if variable in LISTS else ""
        return f"export {variable}={value}{behind} before the command"
    declared = catalog.find_knob(knob)
    written = catalog.knob_wording(framework).get(knob) or declared.wording
    if not written:
        meaning = f": {declared.meaning}" if declared.meaning else ""
        return f"set {knob} to {as_python(value)}{meaning}"
    return "write " + written.format(value=as_python(value), text=value)


def summarize_edits(edits: Iterable[Edit], framework: str | None = PYTORCH) -> str:
    """What a person writes for several edits, in one line."""
    hands = [by_hand(one.knob, one.value, framework) for one in edits if one.value is not None]
    return ", ".join(hand.removeprefix("write ") for hand in hands)


def patched_difference(knob: str, framework: str | None = PYTORCH) -> str:
    """What is otherwise in a file that sets a knob than in a process that it is applied to, as a
    sentence without full stop; empty where nothing is."""
    return catalog.patch_wording(framework).get(knob, "")


def word_fixes(finding: Finding, framework: str | None) -> Finding:
    """The finding, with what a person writes where a fix only tells which knobs it sets."""
    fixes = [
        msgspec.structs.replace(one, summary=one.summary or summarize_edits(one.edits, framework))
        for one in finding.fixes
    ]
    return msgspec.structs.replace(finding, fixes=fixes)
