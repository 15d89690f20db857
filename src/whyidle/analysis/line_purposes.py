"""What a sampled line is for: by the libraries that its stack passes through, then by its own
function and text. The innermost frame that tells decides: a logger that a model's ``forward``
calls is logging, a model that an optimizer's closure calls is the model."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from whyidle.analysis.source_lines import frame_place, in_library
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
        (Purpose.RENDERING, r"draw|render\w*|plot|visuali[sz]e|silhouette"),
        (Purpose.NORMS, r"norms?"),
        (Purpose.LOGGING, r"log|report|progress"),
        (Purpose.SIMULATION, r"env\w*|simulat\w+|rollout|physics"),
    )
)
_TEXTS: Final = tuple(
    (purpose, re.compile(pattern))
    for purpose, pattern in (
        (Purpose.CLIPPING, r"clip_grad"),
        (Purpose.OPTIMIZER, r"\bopt\w*\.\w+\("),
        (Purpose.BACKWARD, r"backward\("),
        (Purpose.LOGGING, r"\.log\(|\bprint\(|\.add_(scalar|histogram|image)|set_postfix|logger\."),
        (Purpose.NORMS, r"norm\(|\.grad\.|\.grad\b.*\.(abs|max|std|mean)\("),
        (Purpose.LOSS, r"^\s*\w*loss\w*\s*[-+*/]?="),
        (Purpose.METRICS, r"argmax|accuracy|f1_score|confusion|\bmetric"),
        (Purpose.SIMULATION, r"\benv\w*\.(step|reset)\("),
    )
)


CALLS_BACK: Final = frozenset({Purpose.FORWARD, Purpose.BACKWARD, Purpose.DATA})
"""purposes of libraries that also hold for the user's code which they call; an optimizer calls a
closure, and a trainer its hooks, for other purposes"""


def own_frames(stack: str) -> list[str]:
    """Return the user's frames of a stack, the innermost first."""
    frames = ((text, frame_place(text, None)) for text in stack.split(";"))
    return [text for text, place in frames if place is not None and not in_library(place)]


class StackPurpose(NamedTuple):
    """What a stack is for."""

    purpose: Purpose
    by_library: bool
    """whether a library tells, not only a name of the user's"""


def purpose_of_stack(vocabulary: Vocabulary, stack: str, text: str) -> StackPurpose:
    """Return what a stack is for; ``text`` is the source of the user's innermost line."""
    own, by_name, entered = set(own_frames(stack)), None, ""
    for frame in stack.split(";"):
        if frame in own:
            entered = frame.rpartition(": ")[2]
            by_name = by_name or _match(_FUNCTIONS, entered)
            if by_name is Purpose.LOSS:
                break
        elif (purpose := _of_library(vocabulary, frame)) is not None:
            own_update = purpose is Purpose.OPTIMIZER and entered == "step"
            if not entered or own_update or purpose in CALLS_BACK:
                return StackPurpose(purpose, by_library=True)
    return StackPurpose(by_name or _match(_TEXTS, text) or Purpose.OTHER, by_library=False)


def _of_library(vocabulary: Vocabulary, frame: str) -> Purpose | None:
    return next((p for role, p in _LIBRARIES.items() if vocabulary.plays(role, frame)), None)


def _match(table: tuple[tuple[Purpose, re.Pattern[str]], ...], text: str) -> Purpose | None:
    return next((purpose for purpose, pattern in table if pattern.search(text)), None)
