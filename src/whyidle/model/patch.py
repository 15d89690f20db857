"""The declaration of source forms, which write knobs into source text.

A form is a function from a file's text and one change to the new text. It sees one file at a time
and never guesses: where it is not certain, it leaves the text unchanged and gives the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from whyidle.model.knobs import Setting


@dataclass(frozen=True, slots=True)
class KnobChange:
    """One knob's new setting, for one file."""

    knob: str
    value: Setting
    was: Setting | None = None  # old setting, if known
    lines: tuple[int, ...] = ()  # lines of this file that the finding names, from 1
    options: tuple[str, ...] = ()  # words of the command after the script
    insert: bool = False  # whether a new line may be added: the script, and no file has a place
    device: str = "cuda"  # type of the devices that train
    beside: Mapping[str, Setting] = field(default_factory=dict)  # other settings of the fix
    made: Mapping[int, str] | None = None
    """lines of this file that created what the knob sets during trials -> why it was not set there,
    empty where it was; None: not known of any file"""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The result for one file."""

    text: str
    done: bool = False  # whether the text sets the knob somewhere, changed or not
    why: tuple[str, ...] = ()  # places left to a person, sentences without full stop
    notes: tuple[str, ...] = ()  # places that trials did not cover


Write = Callable[[str, KnobChange], Rewrite]


@dataclass(frozen=True, slots=True)
class SourceForm:
    """The registered form of some knobs; ``env.*`` matches every variable. ``write`` raises
    SyntaxError for text that it cannot parse."""

    id: str
    knobs: tuple[str, ...]
    write: Write


def source_form(*knobs: str) -> Callable[[Write], SourceForm]:
    """Declare the source form of some knobs. Its id is the name of its file."""

    def declare(write: Write) -> SourceForm:
        stem = write.__module__.rsplit(".", 1)[-1]
        return SourceForm(id=stem.replace("_", "-"), knobs=knobs, write=write)

    return declare
