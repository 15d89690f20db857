"""Grow a real trace of one rank to a folder of many ranks, with planted differences.

    python bench/grow_ranks.py rank0.pt.trace.json.gz FOLDER --ranks 256 --copies 2

Every rank reaches the first all-reduce of each step up to ``--skew`` ms late, by chance; rank
``--straggler`` is ``--late`` ms late, in a Python function that the others do not call. All leave
the collective together. The last collective of a step is one of each pipeline stage by itself; in
one stage it takes ``--slow`` ms longer, as over a slow link, and the other stages idle for as long.
Clocks have an offset and drift by up to 20 ppm. File names tell node, stage and data-parallel
index.
"""

from __future__ import annotations

import argparse
import bisect
import gzip
import random
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from isal import igzip

Event = dict[str, Any]
PER_NODE, STAGES, SLOW_STAGE = 8, 4, 1
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation")
IDS = ("correlation", "External id")
ID_STRIDE, GAP_US, DRIFT = 10_000_000, 1_000.0, 20e-6
LATE_FUNCTION = "dataset.py(41): decode_long_record"


class Meeting(NamedTuple):
    """The collectives of a step, us: when the first is launched, begins and ends, and when the last
    ends, whose launch has the ``correlation``."""

    launch: float
    begin: float
    end: float
    last_end: float
    correlation: int


class Shift:
    """Time inserted at some places of a timeline, us."""

    def __init__(self, *inserted: tuple[float, float]) -> None:
        ordered = sorted(inserted)
        self._places = [place for place, _ in ordered]
        self._totals = [0.0, *accumulate(by for _, by in ordered)]

    def move(self, time: float) -> float:
        """The moved time."""
        return time + self._totals[bisect.bisect_right(self._places, time)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranks", type=int, default=256)
    parser.add_argument("--copies", type=int, default=2, help="repetitions of the source's events")
    parser.add_argument("--skew", type=float, default=0.3, help="ms")
    parser.add_argument("--straggler", type=int, default=77, help="a rank")
    parser.add_argument("--late", type=float, default=25.0, help="ms")
    parser.add_argument("--slow", type=float, default=6.0, help="ms")
    options = parser.parse_args()
    data = options.source.read_bytes()
    document = msgspec.json.decode(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    events = repeat_events(document["traceEvents"], options.copies)
    meetings = find_meetings(events)
    if not meetings:
        raise SystemExit("the source has no step with a collective")
    options.folder.mkdir(parents=True, exist_ok=True)
    size = 0
    for rank in range(options.ranks):
        document["traceEvents"] = delay_events(events, meetings, rank, options)
        document.setdefault("distributedInfo", {}).update(
            {"rank": rank, "world_size": options.ranks}
        )
        text = msgspec.json.encode(document)
        size += len(text)
        stage, replica = rank % STAGES, rank // STAGES
        name = f"node{rank // PER_NODE}_pp{stage}_dp{replica}_rank{rank}.pt.trace.json.gz"
        (options.folder / name).write_bytes(igzip.compress(text, 1))
    print(f"{options.ranks} ranks, {size / 1e6:.0f} MB of JSON, {len(meetings)} meetings each")


def repeat_events(events: list[Event], copies: int) -> list[Event]:
    """Repeat events with shifted times and ids."""
    timed = [e for e in events if e.get("ph") == "X"]
    span = max(e["ts"] + e["dur"] for e in timed) - min(e["ts"] for e in timed) + GAP_US
    repeated = [e for e in events if "ts" not in e]
    for copy in range(copies):
        for e in (e for e in events if "ts" in e):
            args = e.get("args", {})
            args = args | {key: args[key] + ID_STRIDE * copy for key in IDS if key in args}
            ids = {"id": e["id"] + ID_STRIDE * copy} if isinstance(e.get("id"), int) else {}
            repeated.append({**e, "ts": e["ts"] + span * copy, "args": args, **ids})
    return repeated


def find_meetings(events: list[Event]) -> list[Meeting]:
    """The all-reduces of each step."""
    steps = sorted(e["ts"] for e in events if str(e.get("name")).startswith("ProfilerStep#"))
    launches = {
        e["args"].get("correlation"): e["ts"] for e in events if e.get("cat") == "cuda_runtime"
    }
    kernels = sorted(
        (e["ts"], e["ts"] + e["dur"], e["args"]["correlation"])
        for e in events
        if e.get("cat") == "kernel" and "AllReduce" in e["name"]
    )
    found: dict[int, Meeting] = {}
    for begin, end, correlation in kernels:
        if (launch := launches.get(correlation)) is not None:
            step = bisect.bisect_right(steps, launch)
            first = found.get(step, Meeting(launch, begin, end, end, correlation))
            found[step] = first._replace(last_end=end, correlation=correlation)
    return list(found.values())


def delay_events(
    events: list[Event], meetings: list[Meeting], rank: int, options: argparse.Namespace
) -> list[Event]:
    """The events of a rank, with what is planted."""
    chance = random.Random(rank)
    stage, is_late = rank % STAGES, rank == options.straggler
    most, slow = 1e3 * max(options.late, options.skew), 1e3 * options.slow
    host, device, added = [], [], []
    for meeting in meetings:
        late = 1e3 * (options.late if is_late else chance.uniform(0, options.skew))
        added += [(meeting.launch, late)] if is_late else []
        host += [(meeting.launch, late), (meeting.end, most - late), (meeting.last_end, slow)]
        # a place just before a kernel's end makes the kernel longer, one after it the pause
        pause = meeting.last_end + (-0.001 if stage == SLOW_STAGE else 0.001)
        device += [(meeting.begin, late), (meeting.end - 0.001, most - late), (pause, slow)]
    staged = {meeting.correlation for meeting in meetings}
    group = {"Process Group Name": f"stage {stage}", "Group size": options.ranks // STAGES}
    whole = {"Group size": options.ranks}
    shifts = {True: Shift(*device), False: Shift(*host)}
    origin = min(e["ts"] for e in events if "ts" in e)
    offset, drift = chance.uniform(-5e3, 5e3), chance.uniform(-DRIFT, DRIFT)

    def set_clock(time: float) -> float:
        return round(time + offset + drift * (time - origin), 3)

    moved = []
    for e in events:
        if "ts" not in e:
            moved.append(e)
            continue
        shift = shifts[e.get("cat") in DEVICE]
        begin = shift.move(e["ts"])
        changed = {"ts": set_clock(begin)}
        if "dur" in e:
            changed["dur"] = round(shift.move(e["ts"] + e["dur"]) - begin, 3)
        args = e.get("args", {})
        if "Group size" in args:
            changed["args"] = args | (group if args.get("correlation") in staged else whole)
        moved.append({**e, **changed})
    main_thread = next(e for e in events if e.get("cat") == "cuda_runtime")
    shape = {key: main_thread[key] for key in ("ph", "pid", "tid")}
    for launch, late in added:
        begin = set_clock(shifts[False].move(launch) - late)
        times = {"ts": begin, "dur": round(late - 1, 3), "args": {}}
        moved.append({**shape, "cat": "python_function", "name": LATE_FUNCTION, **times})
    return moved


if __name__ == "__main__":
    main()
