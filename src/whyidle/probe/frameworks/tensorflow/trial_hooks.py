"""Installs a trial in a process of TensorFlow: the witness's hooks, seeds and rounding noise."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from typing import Any

from ...core import fault_containment
from ...core.events import Events
from ...core.listener import Listener
from ...core.trial_state import NOISE_UNITS
from ...trial.batch_hash import hash_arrays
from ...trial.trial_recorder import TrialRecorder, install_witness
from .step_hooks import TracedCalls
from .training_function import TrainingFunctions
from .trial_state import KerasState, find_loss, host_arrays


class TrialSteps(Listener):
    """Tells the witness of every step."""

    listener = "trial steps"
    wants_steps = True

    def __init__(self, witness: TrialRecorder, calls: TracedCalls) -> None:
        self.witness, self.calls = witness, calls

    def on_step(self, optimizer: Any) -> None:
        """Note the step, and change parameters by as much as rounding does, if asked to."""
        self.witness.ended = self.calls.ended
        if self.witness.sway is not None:
            self.witness.sway.perturb_variables()
        if optimizer is None:
            self.witness.note_step()
        else:
            self.witness.note_optimizer_step(optimizer)


class RoundingNoise:
    """Changes every parameter after every step by a random relative error as small as rounding."""

    def __init__(self, folder: str, seed: int, state: KerasState) -> None:
        self.folder, self.seed, self.state = folder, seed, state
        self.failed = False
        self.drawn = 0

    def perturb_variables(self) -> None:
        """Change all parameters."""
        if not self.failed:
            fault_containment.run_contained(self.folder, "rounding noise", self._perturb)

    def _perturb(self) -> None:
        import tensorflow

        variables = self.state.variables()
        self.failed = True  # unless all goes well
        if not variables:
            return
        for number, variable in enumerate(variables):
            kind = tensorflow.as_dtype(variable.dtype)
            unit = 2.0**-10 if kind.size < 4 else 2.0**-23
            seed = [self.seed, self.drawn + number]
            noise = tensorflow.random.stateless_uniform(
                variable.shape,
                seed,
                -NOISE_UNITS * unit,
                NOISE_UNITS * unit,
                dtype=tensorflow.float32,
            )
            value = tensorflow.convert_to_tensor(variable)
            variable.assign(value * (1 + tensorflow.cast(noise, kind)))
        self.drawn += len(variables)
        self.failed = False


def install_trial_hooks(
    events: Events, found: TrainingFunctions, calls: TracedCalls, awaited: Callable[[], bool]
) -> None:
    """Watch this process as ``WHYIDLE_TRIAL`` requests; see the same function for PyTorch."""
    text = os.environ.get("WHYIDLE_TRIAL")
    if not text:
        return
    folder, request = events.recorder.folder, json.loads(text)
    _seed_generators(int(request.get("seed", 0)))
    state = KerasState(found)
    witness = TrialRecorder(folder, request, state)
    if request.get("profile"):
        witness.waits = awaited
    if request.get("sway"):
        witness.sway = RoundingNoise(folder, request["sway"], state)
    events.add_listener(witness)
    events.add_listener(TrialSteps(witness, calls))

    def note_result(given: Any, result: Any, steps: int) -> None:
        loss = find_loss(result)
        if loss is not None:
            witness.note_losses(loss, steps)
        else:
            witness.note_batch(hash_arrays(host_arrays(given)))

    calls.note_result = note_result
    _watch_gradients(events, witness)
    install_witness(witness)


def _watch_gradients(events: Events, witness: TrialRecorder) -> None:
    """Note the losses of steps that no function traces."""
    from tensorflow.python.eager import backprop, context

    original, is_eager = backprop.GradientTape.gradient, context.executing_eagerly

    @functools.wraps(original)
    def gradient(self: Any, target: Any, *args: Any, **kwds: Any) -> Any:
        if is_eager():
            events.run_contained("tf loss", witness.note_losses, target)
        return original(self, target, *args, **kwds)

    backprop.GradientTape.gradient = gradient


def _seed_generators(added: int) -> None:
    """Seed TensorFlow's generators as in every arm; add ``added`` to the script's own seeds."""
    import tensorflow
    from tensorflow.python.framework import random_seed

    tensorflow.random.set_seed(added)
    if not added:
        return
    original = random_seed.set_seed

    def set_seed(seed: Any) -> Any:
        return original(seed + added if isinstance(seed, int) else seed)

    random_seed.set_seed = set_seed
    tensorflow.random.set_seed = set_seed
