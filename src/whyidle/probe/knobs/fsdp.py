"""Changes when the modules that ``fully_shard`` shards gather their parameters (FSDP2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import KnobSession

RESHARD = "fsdp.reshard_after_forward"


def apply(session: KnobSession, edits: dict[str, Any]) -> None:
    """Wrap the function that shards modules, before the script imports it."""
    session.wait_for(edits, "the script shards no module with torch.distributed.fsdp.fully_shard")

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def fully_shard(*args: Any, **kwargs: Any) -> Any:
            if type(kwargs.get("reshard_after_forward")) is int:
                session.decline_knobs([RESHARD], "the script shards to fewer ranks after a pass")
                return original(*args, **kwargs)
            session.record_applied(RESHARD)
            return original(*args, **{**kwargs, "reshard_after_forward": edits[RESHARD]})

        return fully_shard

    session.after_import(
        tuple(edits),
        "torch.distributed.fsdp",
        "fully_shard",
        lambda module: session.replace_function(module, "fully_shard", wrap),
    )
