"""Whether libraries for images, video, audio, text or stored arrays take the loading time."""

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
    """Return whether most samples in ``spans`` lie in a media library, if there are any."""
    return _is_mostly_decoding(sampled_stacks(facts, spans))


def decoded_by_workers(facts: Facts) -> bool | None:
    """Return the same for samples of loader workers."""
    loading = facts.timeline.loading
    return _is_mostly_decoding(Counter(loading.stacks[i] for i in loading.samples["stack"]))


def storage_library(facts: Facts, spans: Intervals) -> str | None:
    """Return the array storage library with most samples in ``spans``, if any."""
    return _library_of(sampled_stacks(facts, spans))


def stored_by_workers(facts: Facts) -> str | None:
    """Return the same for samples of loader workers."""
    loading = facts.timeline.loading
    return _library_of(Counter(loading.stacks[i] for i in loading.samples["stack"]))


def _is_mostly_decoding(stacks: Counter[str]) -> bool | None:
    decoding = sum(time for stack, time in stacks.items() if _LIBRARIES.search(stack))
    return decoding >= MOSTLY * stacks.total() if stacks.total() else None


def _library_of(stacks: Counter[str]) -> str | None:
    spent: Counter[str] = Counter()
    for stack, time in stacks.items():
        if match := _STORES.search(stack):  # the innermost
            spent[match[1]] += time
    enough = stacks.total() and spent.total() >= MOSTLY * stacks.total()
    return spent.most_common(1)[0][0] if enough else None
