"""Isolation of trials: a command can neither overwrite nor publish anything."""

from whyidle.fix.isolation.backend import LEVELS, Level
from whyidle.fix.isolation.disk_space import RoomWatch
from whyidle.fix.isolation.session import Isolation, IsolationReport, Leak, isolate
from whyidle.fix.isolation.stale_folders import mark_folder

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
