"""How a setting is written into source text: ``@source_form`` declares the form of some knobs.

A form is a function from a file's text and one change to the file's new text. It sees one file at
a time, never guesses, and changes nothing but what the change means: where it is not certain it
leaves the text as it is and says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from whyidle.model.knobs import Setting


@dataclass(frozen=True, slots=True)
class KnobChange:
    """One knob's new setting. ``was`` is the old one where it is known, ``lines`` are those of this
    file that the finding names (from 1), ``options`` the words of the command behind the script.
    ``insert``: no file has a place for it, and this is the script, so a new line may say it.
    ``device`` is the type of the devices that train, ``beside`` what else the same fix sets.
    ``made`` are lines of this file that made what the knob sets while fixes were tried, and why it
    was not set there, empty where it was; None where that is not known of any file."""

    knob: str
    value: Setting
    was: Setting | None = None
    lines: tuple[int, ...] = ()
    options: tuple[str, ...] = ()
    insert: bool = False
    device: str = "cuda"
    beside: Mapping[str, Setting] = field(default_factory=dict)
    made: Mapping[int, str] | None = None


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What became of a file. ``done``: the text now says so somewhere, changed or not. ``why`` are
    places that were left to a person, each as a sentence without full stop; ``notes`` are places
    that trials have said nothing of, and nothing to do where it was written elsewhere."""

    text: str
    done: bool = False
    why: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


Write = Callable[[str, KnobChange], Rewrite]


@dataclass(frozen=True, slots=True)
class SourceForm:
    """The registered form of some knobs; ``env.*`` is every one that begins so. ``write`` raises
    SyntaxError for text that is no Python it knows."""

    id: str
    knobs: tuple[str, ...]
    write: Write


def source_form(*knobs: str) -> Callable[[Write], SourceForm]:
    """Declare how some knobs are written into source text. Its id is its file's name."""

    def declare(write: Write) -> SourceForm:
        stem = write.__module__.rsplit(".", 1)[-1]
        return SourceForm(id=stem.replace("_", "-"), knobs=knobs, write=write)

    return declare
