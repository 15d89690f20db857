"""A place in the user's program, as documents hold it and as people read it."""

from __future__ import annotations

import msgspec


class Place(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A place in the user's program; None: not recorded."""

    file: str | None
    line: int | None
    function: str | None
    rank: int | None = None

    def __str__(self) -> str:
        """``file.py:12 in function (rank 3)``, as far as recorded."""
        spot = f"{self.file}:{self.line}" if self.file and self.line else self.file or ""
        parts = [spot, f"{'in ' if spot else ''}{self.function}" if self.function else ""]
        parts.append(f"(rank {self.rank})" if self.rank is not None else "")
        return " ".join(part for part in parts if part) or "place not recorded"
