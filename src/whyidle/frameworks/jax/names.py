"""Names in recordings of JAX."""

from __future__ import annotations

from typing import Final

from whyidle.frameworks._platform import RULES as PLATFORM
from whyidle.frameworks._xla import RULES as XLA
from whyidle.model.frames import INSTALLED
from whyidle.model.roles import Role, Rule, Vocabulary

RULES: Final = (
    Rule(Role.CHECKPOINT, r"numpy/lib/\w*npyio\w*\.py\(\d+\): _?savez(_compressed)?$"),
    Rule(Role.CHECKPOINT, rf"{INSTALLED}flax/serialization\.py\(\d+\): (to_bytes|msgpack_ser\w+)$"),
    Rule(Role.FRAMEWORK_CODE, rf"{INSTALLED}(jax|jaxlib|flax|optax)/"),
    # who calls an operator sleeps while the queue of the device is full
    Rule(Role.COMPUTE_FRAME, r"jax/_src/(dispatch|numpy/ufunc_api)\.py\(\d+\): (apply|__call__)"),
    Rule(Role.MOVING_FRAME, r"jax/_src/.*: (asarray|array|device_put|block_until_ready|_value)$"),
    Rule(Role.COMPILER, r"jax/_src/(compiler|pjit)\.py.*compil"),
    Rule(Role.COMPILE, r"jax/_src/compiler\.py"),
)
VOCABULARY: Final = Vocabulary((*PLATFORM, *XLA, *RULES))
"""the names in all recordings of JAX"""
