"""Isolation of trials: a command can neither overwrite nor publish anything."""

from whyidle.engine.isolation.backend import LEVELS, Level
from whyidle.engine.isolation.disk_space import RoomWatch
from whyidle.engine.isolation.session import Isolation, IsolationReport, Leak, isolate
from whyidle.engine.isolation.stale_folders import mark_folder

__all__ = [
    "LEVELS",
    "Isolation",
    "IsolationReport",
    "Leak",
    "Level",
    "RoomWatch",
    "isolate",
    "mark_folder",
]
