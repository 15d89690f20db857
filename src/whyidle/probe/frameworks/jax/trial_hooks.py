"""Installs a trial in a process of JAX: the witness's hooks, seeds and rounding noise."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from ...core import fault_containment
from ...core.events import Events
from ...core.listener import Listener
from ...core.trial_state import NOISE_UNITS
from ...trial.batch_hash import hash_arrays
from ...trial.trial_recorder import TrialRecorder, install_witness
from .compiled_calls import CompiledCalls
from .trial_state import StepState, host_arrays


class TrialSteps(Listener):
    """Tells the witness of every step."""

    listener = "trial steps"
    wants_steps = True

    def __init__(self, witness: TrialRecorder) -> None:
        self.witness = witness

    def on_step(self, optimizer: Any) -> None:
        """Note the step."""
        if optimizer is None:
            self.witness.note_step()
        else:
            self.witness.note_optimizer_step(optimizer)


class RoundingNoise:
    """Changes the outputs of every step by a random relative error as small as rounding."""

    def __init__(self, folder: str, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.failed = False
        self.drawn = 0

    def perturb_outputs(self, outputs: Any) -> Any:
        """Return changed outputs; the same ones after a fault."""
        if self.failed:
            return outputs
        changed: list[Any] = []
        self.failed = True  # unless all goes well
        fault_containment.run_contained(
            self.folder, "rounding noise", lambda: changed.append(self._perturb(outputs))
        )
        self.failed = not changed
        return changed[0] if changed else outputs

    def _perturb(self, outputs: Any) -> Any:
        from jax import tree_util

        numpy: Any = sys.modules["numpy"]  # JAX imports it
        draw = numpy.random.default_rng([self.seed, self.drawn])
        self.drawn += 1

        def change(leaf: Any) -> Any:
            if not hasattr(leaf, "is_deleted") or "float" not in str(leaf.dtype) or leaf.size == 1:
                return leaf
            unit = 2.0 ** (-23 if leaf.dtype.itemsize >= 4 else -10)
            noise = draw.uniform(-NOISE_UNITS * unit, NOISE_UNITS * unit, leaf.shape).astype(
                leaf.dtype
            )
            return leaf * (1 + noise)

        return tree_util.tree_map(change, outputs)


def install_trial_hooks(events: Events, calls: CompiledCalls, awaited: Callable[[], bool]) -> None:
    """Watch this process as ``WHYIDLE_TRIAL`` requests; see the same function for PyTorch."""
    text = os.environ.get("WHYIDLE_TRIAL")
    if not text:
        return
    folder, request = events.recorder.folder, json.loads(text)
    _shift_seeds(int(request.get("seed", 0)))
    state = StepState()
    witness = TrialRecorder(folder, request, state)
    if request.get("profile"):
        witness.waits = awaited
    if request.get("sway"):
        witness.sway = RoundingNoise(folder, request["sway"])

    def note_loss(given: Any, before: Any) -> None:
        loss = state.find_loss()
        if loss is not None:
            witness.note_losses(loss)
        else:
            witness.note_batch(hash_arrays(host_arrays(given, before)))

    def note_result(given: Any, outputs: Any) -> Any:
        before = state.outputs
        outputs = outputs if witness.sway is None else witness.sway.perturb_outputs(outputs)
        state.outputs = outputs
        fault_containment.run_contained(folder, "loss", lambda: note_loss(given, before))
        return outputs

    calls.note_result = note_result
    events.add_listener(witness)
    events.add_listener(TrialSteps(witness))
    install_witness(witness)


def _shift_seeds(added: int) -> None:
    """Add ``added`` to the seeds of the script's own keys."""
    jax = sys.modules["jax"]
    for name in ("key", "PRNGKey"):
        if added and hasattr(jax.random, name):
            setattr(jax.random, name, _with_shifted_seed(getattr(jax.random, name), added))


def _with_shifted_seed(original: Callable[..., Any], added: int) -> Callable[..., Any]:
    @functools.wraps(original)
    def make_key(seed: Any, *args: Any, **named: Any) -> Any:
        return original(seed + added if isinstance(seed, int) else seed, *args, **named)

    return make_key
