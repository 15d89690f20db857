"""What the tests of source forms share: apply, and check what holds for every form."""

from __future__ import annotations

import difflib
from dataclasses import replace

from whyidle import catalog
from whyidle.model.knobs import Setting
from whyidle.model.patch import KnobChange, Rewrite

FORMS = list(catalog.load_source_forms().values())


def rewrite(text: str, knob: str, value: Setting, was: Setting | None = None, **more) -> Rewrite:
    """A form's answer, after checking that it is Python and that a second time changes nothing."""
    change = KnobChange(knob, value, was, **more)
    found = _write(text, change)
    compile(found.text, "patched.py", "exec", dont_inherit=True)
    again = _write(found.text, replace(change, lines=()))
    if not change.lines:
        assert again.text == found.text, "a second application changes something"
    if found.text != text:
        assert found.done
    return found


def _write(text: str, change: KnobChange) -> Rewrite:
    """What all forms of the knob make of it, one after another."""
    family = change.knob.partition(".")[0] + ".*"
    done, why, notes = False, (), ()
    for form in FORMS:
        if change.knob in form.knobs or family in form.knobs:
            found = form.write(text, change)
            text, done, why = found.text, done or found.done, why + found.why
            notes += found.notes
    return Rewrite(text, done, why, notes)


def added(text: str, knob: str, value: Setting, was: Setting | None = None, **more) -> list[str]:
    """Lines that went (``-``) and came (``+``), without their indentation."""
    new = rewrite(text, knob, value, was, **more).text
    lines = difflib.unified_diff(text.splitlines(), new.splitlines(), n=0, lineterm="")
    return [line[0] + line[1:].strip() for line in list(lines)[2:] if not line.startswith("@@")]
