"""What graphs of living results keep for their backward passes, by module.

Read once, after the job has failed: nodes are walked and nothing is computed. A tensor that hooks
of the script would bring back (checkpoints, offloading) is left alone.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from .looks.step_tape import find_tensors

Node = Any
"""``torch.autograd.graph.Node``"""
OUTSIDE = "outside of modules"


def count_activations(
    torch: Any, models: list[Any], tensors: list[Any], device: str, seen: set[int]
) -> dict[str, int]:
    """Module -> bytes of the storages on the device that are not ``seen``; these are added to it.
    A node belongs to the module of the parameters that it takes, else to that of its input."""
    inner = {id(part) for model in models for part in model.children()}
    owners = {
        id(parameter): f"{name or 'model'} ({type(part).__name__})"
        for model in models
        if id(model) not in inner
        for name, part in model.named_modules()
        for parameter in part.parameters(recurse=False)
    }
    found: dict[str, int] = {}
    owned: dict[Node, str] = {}
    for root in [tensor.grad_fn for tensor in tensors if tensor.grad_fn is not None]:
        for node in _sort_nodes(root, owned):
            before = [parent for parent, _ in node.next_functions if parent is not None]
            taken = before + [p for parent in before for p, _ in parent.next_functions if p]
            own = [owners.get(id(getattr(parent, "variable", None)), "") for parent in taken]
            own += [owned.get(parent, "") for parent in before]
            owned[node] = next(filter(None, own), "")
            for tensor in _saved_by(node):
                with suppress(RuntimeError, NotImplementedError):
                    storage = tensor.untyped_storage()
                    if tensor.device.type == device and storage.data_ptr() not in seen:
                        seen.add(storage.data_ptr())
                        name = owned[node] or OUTSIDE
                        found[name] = found.get(name, 0) + storage.nbytes()
    return dict(sorted(found.items(), key=lambda row: -row[1]))


def _sort_nodes(root: Node, known: dict[Node, str]) -> list[Node]:
    """The nodes from which a graph was made, each after those that it takes."""
    waiting, opened, order = [root], set[Node](), []
    while waiting:
        node = waiting.pop()
        if node in known:
            continue
        if node in opened:
            known[node] = ""
            order.append(node)
            continue
        opened.add(node)
        waiting.append(node)
        waiting += [p for p, _ in node.next_functions if p is not None and p not in opened]
    return order


def _saved_by(node: Node) -> list[Any]:
    saved: list[Any] = []
    for name in dir(node):
        if name.startswith("_raw_saved_"):
            with suppress(RuntimeError):  # its backward pass has given it back
                saved += [getattr(node, name)]
    parts = [p for one in saved for p in (one if isinstance(one, (list, tuple)) else [one])]
    kept = [one.data for one in parts if getattr(one, "unpack_hook", node) is None]
    return list(find_tensors(kept))
