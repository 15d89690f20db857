"""The folder of the probe's own files, so that stacks and tracebacks can leave them out."""

from __future__ import annotations

import os

FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""the folder of the whole probe, with a separator at its end"""
