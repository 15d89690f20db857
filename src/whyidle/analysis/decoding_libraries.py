"""Whether samples are prepared by libraries for pictures, video, sound or text, or by Python; or
whether a library that stores arrays takes the time to read them."""

from __future__ import annotations

import re
from collections import Counter

from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals
from whyidle.analysis.sampled_lines import sampled_stacks
from whyidle.model.frames import INSTALLED

_LIBRARIES = re.compile(
    rf"{INSTALLED}(torchvision|PIL|cv2|albumentations|skimage|imageio|decord|av|torchaudio|librosa|"
    r"soundfile|tokenizers|transformers|kornia|scipy/(signal|ndimage))(/|\.py)"
)
_STORES = re.compile(r"(?:site|dist)-packages/(h5py|h5netcdf|netCDF4|tables|zarr|pyarrow)/")
MOSTLY = 0.5


def decodes_media(facts: Facts, spans: Intervals) -> bool | None:
    """Whether most looks at the training process in some time lie in such a library; None where
    nobody looked."""
    return _is_mostly_decoding(sampled_stacks(facts, spans))


def decoded_by_workers(facts: Facts) -> bool | None:
    """The same of looks at loader workers."""
    loading = facts.timeline.loading
    return _is_mostly_decoding(Counter(loading.stacks[i] for i in loading.samples["stack"]))


def storage_library(facts: Facts, spans: Intervals) -> str | None:
    """The library that stores arrays, in which most looks at the training process in some time
    lie; None where there is none. Many of their functions are compiled, and then not seen."""
    return _library_of(sampled_stacks(facts, spans))


def stored_by_workers(facts: Facts) -> str | None:
    """The same of looks at loader workers."""
    loading = facts.timeline.loading
    return _library_of(Counter(loading.stacks[i] for i in loading.samples["stack"]))


def _is_mostly_decoding(found: Counter[str]) -> bool | None:
    there = sum(time for stack, time in found.items() if _LIBRARIES.search(stack))
    return there >= MOSTLY * found.total() if found.total() else None


def _library_of(found: Counter[str]) -> str | None:
    spent: Counter[str] = Counter()
    for stack, time in found.items():
        if seen := _STORES.search(stack):  # the innermost
            spent[seen[1]] += time
    enough = found.total() and spent.total() >= MOSTLY * found.total()
    return spent.most_common(1)[0][0] if enough else None
