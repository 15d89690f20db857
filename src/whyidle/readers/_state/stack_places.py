"""Places of the user's program in stacks that PyTorch recorded, and numbers of unsure origin."""

from __future__ import annotations

import re
from typing import Any

from whyidle.model.diagnosis import Place

_LIBRARY = re.compile(r"site-packages|dist-packages|/torch/|/lib/python\d|^<|^\?\?")


def find_place(frames: Any) -> Place | None:
    """The innermost frame of the user's own program; of a library's without one; None without a
    frame of Python."""
    listed = (
        [frame for frame in frames if isinstance(frame, dict)] if isinstance(frames, list) else []
    )
    places = [_place_of(frame) for frame in listed if str(frame.get("filename")).endswith(".py")]
    own = (place for place in places if not _LIBRARY.search(place.file or ""))
    return next(own, places[0] if places else None)


def _place_of(frame: dict[str, Any]) -> Place:
    return Place(
        file=str(frame.get("filename")),
        line=to_count(frame.get("line")) or None,
        function=str(frame.get("name") or "") or None,
    )


def to_count(value: Any) -> int:
    """A value as an integer of at least 0; 0 if it is none."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return 0
    return number if 0 <= number < 1 << 63 else 0
