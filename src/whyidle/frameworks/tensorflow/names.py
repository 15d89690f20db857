"""Names in recordings of TensorFlow and Keras."""

from __future__ import annotations

from typing import Final

from whyidle.frameworks._platform import RULES as PLATFORM
from whyidle.frameworks._xla import RULES as XLA
from whyidle.model.frames import INSTALLED
from whyidle.model.roles import Role, Rule, Vocabulary

RULES: Final = (Rule(Role.FRAMEWORK_CODE, rf"{INSTALLED}(tensorflow|keras)/"),)
VOCABULARY: Final = Vocabulary((*PLATFORM, *XLA, *RULES))
"""the names in all recordings of TensorFlow and Keras"""
