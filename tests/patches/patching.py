"""What the tests of source forms share: apply, and check what holds for every form."""

from __future__ import annotations

import difflib

from whyidle import catalog
from whyidle.model.knobs import Setting
from whyidle.model.patch import Change, Rewrite

FORMS = {knob: form for form in catalog.source_forms().values() for knob in form.knobs}


def rewrite(text: str, knob: str, value: Setting, was: Setting | None = None, **more) -> Rewrite:
    """A form's answer, after checking that it is Python and that a second time changes nothing."""
    change = Change(knob, value, was, **more)
    found = FORMS[knob].write(text, change)
    compile(found.text, "patched.py", "exec", dont_inherit=True)
    again = FORMS[knob].write(found.text, Change(knob, value, was, options=change.options))
    if not change.lines:
        assert again.text == found.text, "a second application changes something"
    if found.text != text:
        assert found.done
    return found


def added(text: str, knob: str, value: Setting, was: Setting | None = None, **more) -> list[str]:
    """Lines that went (``-``) and came (``+``), without their indentation."""
    new = rewrite(text, knob, value, was, **more).text
    lines = difflib.unified_diff(text.splitlines(), new.splitlines(), n=0, lineterm="")
    return [line[0] + line[1:].strip() for line in list(lines)[2:] if not line.startswith("@@")]
