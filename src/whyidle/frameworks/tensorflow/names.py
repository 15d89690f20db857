"""Names in recordings of TensorFlow and Keras."""

from __future__ import annotations

from typing import Final

from whyidle.frameworks._platform import RULES as PLATFORM
from whyidle.frameworks._xla import RULES as XLA
from whyidle.model.frames import INSTALLED
from whyidle.model.roles import Role, Rule, Vocabulary
from whyidle.model.timeline import HostKind

_PYTHON: Final = (HostKind.PYTHON,)
RULES: Final = (
    Rule(Role.FRAMEWORK_CODE, rf"{INSTALLED}(tensorflow|keras|tf_keras)/"),
    Rule(Role.OPERATOR_FRAME, r"tensorflow/python/eager/execute\.py\(\d+\): quick_execute"),
    # who asks for an operator sleeps while TensorFlow's own threads run it
    Rule(Role.COMPUTE_FRAME, r"tensorflow/python/eager/execute\.py\(\d+\): quick_execute"),
    Rule(Role.COMPUTE_FRAME, r"python/ops/gen_(?!io_)\w+\.py\(\d+\): (?!iterator_get_next)"),
    Rule(
        Role.LOGGING, r"tensorflow/python/ops/summary_ops_v2\.py|keras/.*/tensorboard\.py", _PYTHON
    ),
    Rule(Role.CHECKPOINT, r"keras/.*saving/.*: save_(model|weights)$", _PYTHON),
    Rule(Role.MODEL_CODE, rf"{INSTALLED}(keras|tf_keras)/src/(layers|models|engine)/"),
    Rule(Role.LOSS_CODE, rf"{INSTALLED}(keras|tf_keras)/src/losses/"),
    Rule(Role.UPDATE_CODE, rf"{INSTALLED}(keras|tf_keras)/src/optimizers/"),
    Rule(Role.BACKWARD_CODE, r"tensorflow/python/eager/backprop\.py"),
    Rule(Role.DATA_CODE, r"python/data/ops/(iterator|dataset)_ops\.py|trainers/data_adapters/"),
    Rule(Role.WORKER_ENTRY, r"tensorflow/python/ops/script_ops\.py\(\d+\): __call__$"),
    Rule(
        Role.WORKER_ENTRY,
        r"keras/src/trainers/data_adapters/py_dataset_adapter\.py\(\d+\): (_run|get_index)$",
    ),
)
VOCABULARY: Final = Vocabulary((*PLATFORM, *XLA, *RULES))
"""the names in all recordings of TensorFlow and Keras"""
