"""What a recording shows, as the diagnosis document holds it."""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal[
    "training", "inference", "prefill", "decode", "graph_capture", "warm_up", "microbenchmark"
]


class Recording(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a trace shows. ``engine`` is the serving engine, if one is known, ``why`` the
    evidence."""

    kind: Kind
    engine: str | None
    why: str

    @property
    def title(self) -> str:
        """The kind in words."""
        text = self.kind.replace("warm_up", "warm-up").replace("_", " ")
        return f"{text} with {self.engine}" if self.engine else text

    @property
    def serves(self) -> bool:
        """Whether it is of a serving engine."""
        return self.kind in ("prefill", "decode")
