"""Changes what Keras makes: the policy of layers, and how models are compiled."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from . import KnobSession

LAYERS = ("keras.src.layers.layer", "Layer")
TRAINER = ("keras.src.trainers.trainer", "Trainer")
POLICIES = "keras.src.dtype_policies.dtype_policy"
POLICY, COMPILE = "autocast.dtype", "model.compile"


def runs_on_tensorflow() -> bool:
    """Whether the framework of this process is TensorFlow: Keras on PyTorch imports that first."""
    return "tensorflow" in sys.modules and "torch" not in sys.modules


def set_policy(session: KnobSession, edits: dict[str, Any]) -> None:
    """Let layers compute in a narrow type, and keep their variables in 32 bits, unless the script
    sets a policy. Models scale their losses by themselves where the type is float16."""
    name = f"mixed_{edits[POLICY]}"
    session.wait_for(edits, "the job creates no Keras 3 layers")

    def attach(loaded: Any) -> None:
        policies = importlib.import_module(POLICIES)
        policies.set_dtype_policy(name)
        session.undo.append(lambda: policies.set_dtype_policy("float32"))
        session.replace_function(loaded.Layer, "__init__", make)

    def note_layer(layer: Any) -> None:
        if layer.dtype_policy.name == name:
            session.record_applied(*edits)
        else:
            own = f"the script gives layers their own policy: {layer.dtype_policy.name}"
            session.decline_knobs(edits, own)

    def make(original: Any) -> Any:
        def init(self: Any, *args: Any, **named: Any) -> None:
            original(self, *args, **named)
            session.run_contained(edits, note_layer, self)

        return init

    session.after_import(edits, *LAYERS, attach)


def compile_models(session: KnobSession, edits: dict[str, Any]) -> None:
    """Compile the steps of models by XLA where the script does not say whether."""
    session.wait_for(edits, "the job compiles no Keras 3 model")

    def attach(loaded: Any) -> None:
        def is_free(model: Any, args: tuple[Any, ...], named: dict[str, Any]) -> bool:
            if named.get("run_eagerly") or named.get("jit_compile", "auto") != "auto":
                session.decline_knobs(edits, "the script itself chooses how its model is compiled")
            elif not loaded.model_supports_jit(model):
                session.decline_knobs(edits, "XLA cannot compile a layer of the model")
            else:
                session.record_applied(*edits)
                return True
            return False

        def make(original: Any) -> Any:
            def compile(self: Any, *args: Any, **named: Any) -> Any:  # noqa: A001
                if session.run_contained(edits, is_free, self, args, named):
                    named["jit_compile"] = True
                return original(self, *args, **named)

            return compile

        session.replace_function(loaded.Trainer, "compile", make)

    session.after_import(edits, *TRAINER, attach)
