"""Changes when the modules that ``fully_shard`` shards gather their parameters (FSDP2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import KnobSession

RESHARD, PREFETCH = "fsdp.reshard_after_forward", "fsdp.prefetch"


def apply(session: KnobSession, edits: dict[str, Any]) -> None:
    """Wrap the function that shards modules, before the script imports it."""
    session.wait_for(edits, "the script shards no module with torch.distributed.fsdp.fully_shard")

    def replace(module: Any) -> None:
        session.replace_function(
            module, "fully_shard", lambda original: _wrap_sharding(session, edits, original)
        )

    session.after_import(tuple(edits), "torch.distributed.fsdp", "fully_shard", replace)


def _wrap_sharding(
    session: KnobSession, edits: dict[str, Any], original: Callable[..., Any]
) -> Callable[..., Any]:
    def fully_shard(module: Any, *args: Any, **kwargs: Any) -> Any:
        if RESHARD in edits:
            kwargs = _keep_gathered(session, edits, kwargs)
        sharded = original(module, *args, **kwargs)
        if PREFETCH in edits:
            session.run_contained([PREFETCH], _gather_ahead, session, edits[PREFETCH], sharded)
        return sharded

    return fully_shard


def _keep_gathered(
    session: KnobSession, edits: dict[str, Any], kwargs: dict[str, Any]
) -> dict[str, Any]:
    if type(kwargs.get("reshard_after_forward")) is int:
        session.decline_knobs([RESHARD], "the script shards to fewer ranks after the forward pass")
        return kwargs
    session.record_applied(RESHARD)
    return {**kwargs, "reshard_after_forward": edits[RESHARD]}


def _gather_ahead(session: KnobSession, ahead: int, sharded: Any) -> None:
    """Let each sharded module inside one gather those after it, in the order in which they were
    made; in another order of use they are only gathered too early."""
    from torch.distributed.fsdp import FSDPModule

    inside = [m for m in sharded.modules() if isinstance(m, FSDPModule) and m is not sharded]
    for index, module in enumerate(inside[:-1]):
        module.set_modules_to_forward_prefetch(inside[index + 1 : index + 1 + ahead])
        session.record_applied(PREFETCH)
