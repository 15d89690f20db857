"""Names that profiles of TensorFlow and JAX share: the runtime of XLA, steps and input."""

from __future__ import annotations

from typing import Final

from whyidle.model.frames import INSTALLED
from whyidle.model.roles import Role, Rule
from whyidle.model.timeline import HostKind

_RUNTIME: Final = (HostKind.RUNTIME,)
_MARK: Final = (HostKind.ANNOTATION,)
_TRAINER: Final = rf"{INSTALLED}(keras|tf_keras)/src/.*/?(trainer|training)\.py\(\d+\):"
RULES: Final = (
    Rule(Role.PROFILER_STEP, r"#step_num=(?P<label>\d*)$", _MARK),
    Rule(Role.FRAMEWORK_MARK, r"^ThunkExecutor::Execute$", (HostKind.OP,)),
    Rule(Role.LOADER, r"^(IteratorGetNext|infeed)$", _MARK),
    Rule(Role.BATCH_REQUEST, r"^IteratorGetNext$", _MARK),
    Rule(
        Role.SYNC,
        r"::Await$|^np\.asarray\(jax\.Array\)|[Bb]lock_?([Hh]ost)?_?[Uu]ntil_?[Rr]eady|"
        r"AwaitReady|TFE_TensorHandleResolve|TransferLiteralFromDevice",
        _RUNTIME,
    ),
    Rule(Role.COMPILE, r"^(XlaCompile|HloPassPipeline|.*backend_compile|PJRT_Client_Compile)"),
    Rule(Role.PREDICT_FRAME, rf"{_TRAINER} predict$"),
    Rule(Role.FIT_FRAME, rf"{_TRAINER} fit$"),
    Rule(Role.CHECKPOINT, r"^(SaveV2|MergeV2Checkpoints)|orbax/checkpoint/.*: save"),
)
