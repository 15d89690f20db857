"""Where the probe's own files lie, so that neither stacks nor tracebacks show them."""

from __future__ import annotations

import os

FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""the folder of the whole probe, with a separator at its end"""
