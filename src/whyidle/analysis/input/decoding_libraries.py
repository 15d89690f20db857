"""What samples are and how they are stored, by the libraries that take the loading time."""

from __future__ import annotations

import re
from collections import Counter
from itertools import takewhile
from typing import Literal

from whyidle.analysis.facts import Facts
from whyidle.analysis.intervals import Intervals
from whyidle.analysis.lines.sampled_lines import sampled_stacks
from whyidle.analysis.lines.source_lines import frame_place, in_library
from whyidle.model.cause import MOSTLY
from whyidle.model.frames import INSTALLED
from whyidle.model.roles import Role

DataKind = Literal["images", "video", "audio", "text", "table"]
MEDIA = ("images", "video", "audio")
"""kinds that are decoded"""
_NAMES: dict[DataKind, str] = {
    "images": "torchvision|PIL|cv2|albumentations|skimage|imageio|kornia|scipy/ndimage",
    "video": "decord|av",
    "audio": "torchaudio|librosa|soundfile|scipy/signal",
    "text": r"tokenizers|sentencepiece|tiktoken|nltk|spacy|torchtext|"
    r"transformers/(?:models/\w+/)?tokenization_\w+",
    "table": "pandas|polars",
}
_KINDS = {kind: re.compile(rf"{INSTALLED}(?:{names})(?:/|\.py)") for kind, names in _NAMES.items()}
_STORES = re.compile(r"(?:site|dist)-packages/(h5py|h5netcdf|netCDF4|tables|zarr|pyarrow)/")


def data_kind(stacks: Counter[str]) -> DataKind | None:
    """Return the kind of data whose libraries most of the samples are in; None without one."""
    spent: Counter[DataKind] = Counter()
    for stack, time in stacks.items():
        called = _called_libraries(stack)
        for kind, names in _KINDS.items():
            if names.search(called):
                spent[kind] += time
                break
    most = spent.most_common(1)
    return most[0][0] if most and most[0][1] >= MOSTLY * stacks.total() else None


def _called_libraries(stack: str) -> str:
    """The frames of libraries that the innermost line of the user calls, or the loader."""
    frames = stack.split(";")
    places = ((frame, frame_place(frame, None)) for frame in frames)
    return ";".join(frame for frame, _ in takewhile(lambda f: not f[1] or in_library(f[1]), places))


def decodes_media(facts: Facts, spans: Intervals) -> bool | None:
    """Return whether most samples in ``spans`` lie in a media library, if there are any."""
    return _is_mostly_decoding(_below_loader(facts, sampled_stacks(facts, spans)))


def _below_loader(facts: Facts, stacks: Counter[str]) -> Counter[str]:
    plays = facts.timeline.vocabulary.plays
    inner: Counter[str] = Counter()
    for stack, time in stacks.items():
        frames = stack.split(";")
        below = takewhile(lambda frame: not plays(Role.LOADER_FRAME, frame), frames)
        inner[";".join(below)] += time
    return inner


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
    return data_kind(stacks) in MEDIA if stacks.total() else None


def _library_of(stacks: Counter[str]) -> str | None:
    spent: Counter[str] = Counter()
    for stack, time in stacks.items():
        if match := _STORES.search(stack):  # the innermost
            spent[match[1]] += time
    enough = stacks.total() and spent.total() >= MOSTLY * stacks.total()
    return spent.most_common(1)[0][0] if enough else None
