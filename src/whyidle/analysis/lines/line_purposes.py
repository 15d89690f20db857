"""What a sampled line is for: by the libraries that its stack passes through, then by its own
function and text. The innermost frame that tells decides: a logger that a model's ``forward``
calls is logging, a model that an optimizer's closure calls is the model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from whyidle.analysis.lines.source_lines import (
    frame_place,
    in_library,
    source_line,
    split_statements,
)
from whyidle.model.diagnosis import Place
from whyidle.model.purposes import Purpose
from whyidle.model.roles import Role, Vocabulary

_LIBRARIES: Final = {
    Role.CLIPPING_CODE: Purpose.CLIPPING,
    Role.LOSS_CODE: Purpose.LOSS,
    Role.UPDATE_CODE: Purpose.OPTIMIZER,
    Role.BACKWARD_CODE: Purpose.BACKWARD,
    Role.METRIC_CODE: Purpose.METRICS,
    Role.LOG_CODE: Purpose.LOGGING,
    Role.DRAWING_CODE: Purpose.RENDERING,
    Role.SIMULATION_CODE: Purpose.SIMULATION,
    Role.SUBPROCESS_CODE: Purpose.SUBPROCESS,
    Role.FILE_CODE: Purpose.FILES,
    Role.EXCHANGE_CODE: Purpose.COMMUNICATION,
    Role.DATA_CODE: Purpose.DATA,
    Role.MODEL_CODE: Purpose.FORWARD,
}
"""role of a library's frame -> what its time is for; the first that matches counts"""
_FUNCTIONS: Final = tuple(
    (purpose, re.compile(rf"(?:^|_)(?:{words})(?:$|_)", re.IGNORECASE))
    for purpose, words in (
        (Purpose.LOSS, r"\w*loss\w*|criterion|objective"),
        (Purpose.METRICS, r"acc|accuracy|metrics?|f1|auc|iou|bleu|psnr|ssim|wer|cer|errors?"),
        (Purpose.NORMS, r"norms?"),
    )
)
_TEXTS: Final = tuple(
    (purpose, re.compile(pattern))
    for purpose, pattern in (
        (Purpose.CLIPPING, r"clip_grad"),
        (Purpose.OPTIMIZER, r"\bopt\w*\.(step|zero_grad)\("),
        (Purpose.BACKWARD, r"backward\("),
        (
            Purpose.LOGGING,
            r"\b(self|wandb)\.log\(|\bprint\(|\.add_(scalar|histogram|image)|set_postfix|logger\.",
        ),
        (Purpose.NORMS, r"norm\(|\.grad\.|\.grad\b.*\.(abs|max|std|mean)\("),
        (Purpose.LOSS, r"^\s*\w*loss\w*\s*[-+*/]?="),
        (Purpose.METRICS, r"argmax|accuracy|f1_score|confusion|\bmetric"),
    )
)


CALLS_BACK: Final = frozenset({Purpose.FORWARD, Purpose.BACKWARD, Purpose.DATA})
"""purposes of libraries that also hold for the user's code which they call; an optimizer calls a
closure, and a trainer its hooks, for other purposes"""


class StackPurpose(NamedTuple):
    """What a stack is for."""

    purpose: Purpose
    by_library: bool
    """whether a library tells, not only a name of the user's"""


class _Frame(NamedTuple):
    own: Place | None
    """its place if it is the user's"""
    library: Purpose | None
    """what its library is for"""


class FrameReader(dict[str, _Frame]):
    """Reads frames of stacks, each once; thousands of stacks share them."""

    def __init__(self, vocabulary: Vocabulary, rank: int | None) -> None:
        super().__init__()
        self._vocabulary, self._rank = vocabulary, rank

    def own_places(self, stack: str) -> list[Place]:
        """Return the user's frames of a stack, the innermost first."""
        frames = map(self.__getitem__, stack.split(";"))
        return [own for own, _ in frames if own is not None]

    def purpose_of(self, stack: str, text: str) -> StackPurpose:
        """Return what a stack is for; ``text`` is the source of the user's innermost line."""
        by_name, entered = None, ""
        for own, purpose in map(self.__getitem__, stack.split(";")):
            if own is not None:
                entered = own.function or "<module>"
                by_name = by_name or _match(_FUNCTIONS, entered)
                if by_name is Purpose.LOSS:
                    break
            elif purpose is not None:
                own_update = purpose is Purpose.OPTIMIZER and entered == "step"
                if not entered or own_update or purpose in CALLS_BACK:
                    return StackPurpose(purpose, by_library=True)
        return StackPurpose(by_name or _match(_TEXTS, text) or Purpose.OTHER, by_library=False)

    def entered_library(self, stack: str) -> Purpose | None:
        """Return what the library is for that the user's innermost line calls."""
        entered = None
        for frame in map(self.__getitem__, stack.split(";")):
            if frame.own is not None:
                return entered
            entered = frame.library
        return None

    def __missing__(self, text: str) -> _Frame:
        place, plays = frame_place(text, self._rank), self._vocabulary.plays
        own = place if place is not None and not in_library(place) else None
        library = (p for role, p in _LIBRARIES.items() if own is None and plays(role, text))
        self[text] = _Frame(own, next(library, None))
        return self[text]


def quote_line(
    sources: Mapping[str, str], place: Place | None, purpose: Purpose = Purpose.OTHER
) -> str:
    """The source of a place's line: of several statements the one that is for its purpose, by name
    or as the only one whose call says nothing else; all of them where that is not certain."""
    line = source_line(sources, place)
    if len(statements := split_statements(line)) < 2:
        return line
    named = [(one, _match(_TEXTS, one)) for one in statements]
    fitting = [one for one, found in named if found is purpose]
    fitting = fitting or [one for one, found in named if found is None and "(" in one]
    whole = line.partition(statements[0])[0] + ";".join(statements)  # no clauses, which are cut off
    return fitting[0] if len(fitting) == 1 else whole


def _match(table: tuple[tuple[Purpose, re.Pattern[str]], ...], text: str) -> Purpose | None:
    return next((purpose for purpose, pattern in table if pattern.search(text)), None)
