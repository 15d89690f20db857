"""Whether all ranks do a thing, or none. They agree without an exchange, which would wait for ever
for a rank that knows of nothing."""

from __future__ import annotations

import time
from typing import Any

PAUSE_S = 0.01


def agreed(store: Any, key: str, ranks: int, longest_s: float) -> bool:
    """Whether so many have come here before one of them has waited too long. Whoever decides first
    does so for all."""
    come, decided = f"{key}/come", f"{key}/decided"
    store.add(come, 1)
    until = time.monotonic() + longest_s
    while not store.check([decided]):
        if store.add(come, 0) == ranks:
            store.compare_set(decided, "", "yes")
        elif time.monotonic() > until:
            store.compare_set(decided, "", "no")
        else:
            time.sleep(PAUSE_S)
    return bool(store.get(decided) == b"yes")
