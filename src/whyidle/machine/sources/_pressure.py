"""Pressure (PSI): how long tasks waited for cores, storage and memory, on Linux. See
https://docs.kernel.org/accounting/psi.html. The machine's pressure is in ``/proc/pressure``; that
of the job's control group next to its limits (version 2 only)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from whyidle.machine.sources._group_hierarchy import GroupHierarchy
from whyidle.machine.sources._open_file import OpenFile, explain_unreadable
from whyidle.model.live.telemetry import Absent, Meter, Reading

RESOURCES: Final = ("cpu", "io", "memory")
_HOW: Final = "boot Linux 4.20 or later with psi=1"
_WAITS: Final = {"cpu": "a core", "io": "storage", "memory": "memory"}
_GROUPS_ONLY: Final = Absent("only control groups of version 2 report pressure")

METERS: Final = tuple(
    Meter(
        id=f"{scope}pressure_{resource}_{how}_{unit}",
        unit="ratio" if unit == "ratio" else "s",
        kind="gauge" if unit == "ratio" else "counter",
        meaning=f"time that {'some' if how == 'some' else 'all'} tasks of the "
        f"{'control group' if scope else 'machine'} waited for {_WAITS[resource]}"
        + (", share of the last 10 s" if unit == "ratio" else ""),
        group=f"{scope}pressure {resource}",
        cost_us=4.7,
    )
    for scope in ("", "group_")
    for resource in RESOURCES
    for how in ("some", "full")
    for unit in ("ratio", "s")
)


class Pressure:
    """Reads one file per resource, of the machine and of the job's control group."""

    def __init__(self, root: Path, levels: GroupHierarchy) -> None:
        own = levels.unified or root / "none"
        self._files: dict[str, OpenFile] = {}
        self.missing: dict[str, Absent] = {}
        for resource in RESOURCES:
            self._open_file(f"pressure_{resource}", root / "proc/pressure" / resource)
            self._open_file(f"group_pressure_{resource}", own / f"{resource}.pressure")

    def _open_file(self, prefix: str, path: Path) -> None:
        file = OpenFile(path)
        if file.read() is not None:  # opens, and then refuses, where the kernel has psi=0
            self._files[prefix] = file
            return
        file.close()
        absent = _GROUPS_ONLY if prefix.startswith("group_") else explain_unreadable(path, _HOW)
        names = (meter.id for meter in METERS if meter.id.startswith(f"{prefix}_"))
        self.missing.update(dict.fromkeys(names, absent))

    def read(self, into: Reading) -> None:
        """Add every value."""
        for prefix, file in self._files.items():
            into.update(parse_pressure(file.read(), prefix))

    def close(self) -> None:
        """Close every file."""
        for file in self._files.values():
            file.close()


def parse_pressure(content: bytes | None, prefix: str) -> Reading:
    """Parse ``some avg10=1.23 avg60=.. avg300=.. total=MICROSECONDS``, and the same of ``full``."""
    into: Reading = {}
    for line in (content or b"").splitlines():
        words = line.split()
        if len(words) == 5 and words[0] in (b"some", b"full"):
            name = f"{prefix}_{words[0].decode()}"
            into[f"{name}_ratio"] = float(words[1].partition(b"=")[2]) / 100
            into[f"{name}_s"] = int(words[4].partition(b"=")[2]) / 1e6
    return into
