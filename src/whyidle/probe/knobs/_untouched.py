"""What a call of the model that nobody asked for must leave as it is."""

from __future__ import annotations

from typing import Any

from . import _chance


class State:
    """Random number generators, and the buffers of a model."""

    def __init__(self, model: Any) -> None:
        self.drawn = _chance.states()
        self.on_device = _on_device()
        self.versions = [buffer._version for buffer in model.buffers()]

    def holds(self, model: Any) -> bool:
        """Whether it has."""
        import torch

        now = _on_device()
        if (now is None) != (self.on_device is None):
            return False
        if now is not None and not torch.equal(now, self.on_device):
            return False
        versions = [buffer._version for buffer in model.buffers()]
        return versions == self.versions and _chance.same(self.drawn, _chance.states())

    def put_back(self) -> None:
        """As far as random numbers go."""
        import torch

        _chance.restore(self.drawn)
        if self.on_device is not None:
            torch.cuda.set_rng_state(self.on_device)


def _on_device() -> Any:
    import torch

    cuda: Any = torch.cuda
    return cuda.get_rng_state() if cuda.is_initialized() else None
