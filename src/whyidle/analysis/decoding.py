"""Whether samples are prepared by libraries for pictures, video, sound or text, or by Python."""

from __future__ import annotations

import re
from collections import Counter

from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals
from whyidle.analysis.samples import stacks

_LIBRARIES = re.compile(
    r"(^|[/;])(torchvision|PIL|cv2|albumentations|skimage|imageio|decord|av|torchaudio|librosa|"
    r"soundfile|tokenizers|transformers|kornia|scipy/(signal|ndimage))(/|\.py)"
)
MOSTLY = 0.5


def decoded(facts: Facts, spans: Intervals) -> bool | None:
    """Whether most looks at the training process in some time lie in such a library; None where
    nobody looked."""
    return _mostly(stacks(facts, spans))


def decoded_by_workers(facts: Facts) -> bool | None:
    """The same of looks at loader workers."""
    loading = facts.timeline.loading
    return _mostly(Counter(loading.stacks[i] for i in loading.samples["stack"]))


def _mostly(found: Counter[str]) -> bool | None:
    there = sum(time for stack, time in found.items() if _LIBRARIES.search(stack))
    return there >= MOSTLY * found.total() if found.total() else None
