"""The loader from within: what batches cost where they are made, and what that costs the step.

Costs are means over the batches made in scope, in seconds; shares are of the step (0-1).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whyidle.analysis.intervals import Intervals, union
from whyidle.analysis.loader import MULTI, nexts
from whyidle.analysis.places import frame_place, in_library, own_frame
from whyidle.analysis.pressure import waits_for_memory
from whyidle.analysis.queue import Waited, epochs, passed
from whyidle.analysis.repeats import from_storage, made_again, second
from whyidle.analysis.restarts import begun_and_ended
from whyidle.analysis.scoped import Scoped
from whyidle.analysis.stopping import Stops, stops
from whyidle.model.diagnosis import Place

LEAST_SHARE = 0.01
"""share of the step below which the loader is not worth a word"""
MOSTLY = 0.5
"""a part that holds at least this share of a batch's cost is what the batch waits for"""
EXPLAINED = 0.1
"""share of the waiting that the workers' own figures must account for: on a crowded machine
everything takes several times as long, in proportion to what it needs"""
READY = 0.15
"""share of the step in which ready batches are taken, from which on their hand-off is to blame:
from here on peers call waiting for data critical; less is what it takes with short steps"""
FEW_TENSORS = 4
"""a batch of so few tensors is as lean as is advised: its hand-off is only to blame where packing
and unpacking were seen to take the time"""
FEW_BATCHES = 4
LEAST_SAMPLES = 8
"""the chance that a coin-flip augmentation leaves so many samples alike twice is 0.4 %"""
SMALL_FILE = 256 * 1024
"""files up to this many bytes cost their latency, not their bytes: at 1 GB/s it takes 0.26 ms"""


class Workers:
    """The loader workers of one rank."""

    def __init__(self, facts: Scoped) -> None:
        self.facts = facts
        self.loading = facts.timeline.loading

    # -- what was seen ----------------------------------------------------------------------

    @cached_property
    def made(self) -> NDArray[Any]:
        """Batches made by workers in scope; all, where the scope holds hardly any."""
        rows = self.loading.batches
        rows = rows[rows["worker"] >= 0]
        inside = rows[self.facts.scope.covers(rows["end"])]
        return inside if len(inside) >= FEW_BATCHES else rows

    @cached_property
    def takes(self) -> NDArray[Any]:
        """Batches taken from workers in scope."""
        rows = self.loading.takes
        return rows[self.facts.scope.covers(rows["start"])]

    @cached_property
    def settings(self) -> Mapping[str, Any]:
        """The settings of the loader with workers that gives most batches."""
        several = [s for s in self.loading.settings if s.get("workers")]
        if len(several) > 1 and len(self.takes):
            number = Counter(self.takes["iterator"].tolist()).most_common(1)[0][0]
            if 0 < number <= len(self.loading.iterators):
                return self.loading.settings[self.loading.iterators[number - 1].settings]
        return several[0] if several else {}

    @property
    def known(self) -> bool:
        """Whether enough batches of workers were seen to say anything."""
        return len(self.made) >= FEW_BATCHES and bool(self.count) and len(self.takes) > 0

    @property
    def count(self) -> int:
        """How many workers the loader has."""
        return int(self.settings.get("workers") or 0)

    @property
    def depth(self) -> int:
        """Batches that may be ready at most."""
        return self.count * int(self.settings.get("prefetch") or 2)

    @property
    def cores(self) -> float:
        """Cores that the process and its workers may use; 1 where not told."""
        return float(self.loading.cores or 1.0)

    def mean(self, column: str) -> float:
        """Mean of a column over the batches made, s (or what the column counts)."""
        values = self.made[column]
        values = values[values >= 0]
        scale = 1.0 if column in ("chars", "read", "faults", "opens", "samples") else 1e9
        return float(values.mean()) / scale if len(values) else 0.0

    @cached_property
    def wall(self) -> float:
        """Making a batch, s."""
        return float((self.made["end"] - self.made["start"]).mean()) / 1e9

    @cached_property
    def usual(self) -> float:
        """Making a batch as most are, s: the first ones of a new worker take longer."""
        return float(np.median(self.made["end"] - self.made["start"])) / 1e9

    @cached_property
    def others(self) -> float:
        """CPU of other threads of the worker while a batch is made, s."""
        return max(0.0, self.mean("process_cpu") - self.mean("cpu"))

    @cached_property
    def storage(self) -> float:
        """Neither working nor waiting for a core: waiting for storage, network or sleep, s."""
        return max(0.0, self.wall - self.mean("cpu") - self.mean("delay") - self.others)

    @cached_property
    def pickle(self) -> float:
        """Handing a batch over, in the worker, s."""
        return self.mean("pickle")

    @cached_property
    def unpickle(self) -> float:
        """Handing a batch over, in the training process, s."""
        return float(self.takes["unpickle"].mean()) / 1e9 if len(self.takes) else 0.0

    # -- what it costs ----------------------------------------------------------------------

    @cached_property
    def restarts(self) -> Intervals:
        """When new workers started, and those before them ended."""
        return begun_and_ended(self.loading) & self.facts.scope

    @cached_property
    def waiting(self) -> float:
        """Share of the step spent waiting for workers, their starts left out."""
        calls = nexts(self.facts, MULTI)
        loader = self.facts.part("loader") & union(calls.start, calls.end)
        return self.facts.share_of(loader - self.restarts)

    @property
    def rest(self) -> float:
        """The step without that, s."""
        restart = self.facts.share_of(self.facts.part("loader") & self.restarts)
        return self.facts.step_s * max(0.0, 1.0 - self.waiting - restart)

    @property
    def per_step(self) -> float:
        """Batches taken per step."""
        return len(self.takes) / max(self.facts.step_count, 1)

    def stall(
        self,
        workers: int,
        wall: float | None = None,
        work: float | None = None,
        *,
        worth: float = 1.0,
    ) -> float:
        """P1: what a step would wait for its batches, s.

        ``T^(n) - (T - W)`` with ``T^(n) = max(T - W, s / n, (s_cpu + host) / cores)``: each worker
        makes one batch at a time, and all of them share the cores with the training process.

        Args:
            workers: how many.
            wall: a batch's time in its worker, hand-off included, s; None: as measured.
            work: a batch's CPU time, s; None: as measured.
            worth: what each core is worth while all are busy.
        """
        wall = self.wall + self.pickle if wall is None else wall
        work = self.mean("process_cpu") if work is None else work
        threads = (self.loading.threads or 1) if self.facts.on_cpu else 1
        left = max(1.0, self.cores * worth)
        host = self.rest * min(float(threads), left)
        made = self.per_step * wall / max(workers, 1)
        shared = (self.per_step * work + host) / left
        return max(0.0, max(made, shared) - self.rest)

    def remaining(self, stall: float) -> float:
        """Share of the step still spent waiting when the model's stall shrinks to ``stall``."""
        now = self.stall(self.count)
        return self.waiting * (min(1.0, stall / now) if now > 0.0 else 1.0)

    @cached_property
    def best(self) -> int:
        """The fewest workers that wait hardly longer than any number would: as many as there are
        cores at most, or eight that only wait."""
        most = max(self.count, int(np.ceil(self.cores)), 8 if self.waits_for_storage else 0)
        stalls = {n: self.stall(n) for n in range(self.count, most + 1)}
        least = min(stalls.values())
        return next(n for n, s in stalls.items() if s <= least + 0.05 * stalls[self.count])

    def replay(self, depth: int) -> Waited:
        """P2: what batches would be waited for, when at most ``depth`` may be ready or in work.
        ``waiting`` leaves out the start of new workers, and so does this."""
        order = np.argsort(self.made["start"], kind="stable")
        made = self.made["end"] - self.made["start"] - np.maximum(self.made["delay"], 0)
        waited = passed(
            made[order] / 1e9 + self.pickle,
            np.isin(self.made["start"][order], self._first),
            workers=self.count,
            depth=depth,
            between=self.rest / max(self.per_step, 1e-9),
        )
        return waited if self.settings.get("persistent") else Waited(0.0, waited.others)

    @cached_property
    def _first(self) -> NDArray[np.int64]:
        """When the first batch of each epoch but the first was begun, ns."""
        rows = self.loading.batches
        begun = np.sort(rows["start"][rows["worker"] >= 0])
        return begun[epochs(begun, np.sort(self.loading.takes["end"]))]

    @property
    def calm(self) -> float:
        """A batch's time in its worker if it never had to wait for a core, s."""
        return self.wall - self.mean("delay") + self.pickle

    @property
    def explained(self) -> bool:
        """Whether workers with the cores to themselves would be waited for as well; if not, what
        slows them down is not in the loader."""
        stall = self.stall(self.count, self.calm)
        return stall >= max(EXPLAINED * self.waiting * self.facts.step_s, 1e-9)

    @cached_property
    def stops(self) -> Stops:
        """How much of the time somebody stopped their processes."""
        return stops(self.facts.outside, [w.pid for w in self.loading.workers if w.pid])

    @property
    def stopped(self) -> bool:
        """Whether workers that nobody stops would be waited for half as long at most."""
        free = self.wall * (1.0 - self.stops.share) + self.pickle
        return self.stops.share > 0.0 and self.remaining(self.stall(self.count, free)) <= (
            MOSTLY * self.waiting
        )

    # -- what batches wait for --------------------------------------------------------------

    @property
    def waits_for_storage(self) -> bool:
        """Whether batches mostly wait for something that is neither CPU nor core."""
        return self.storage >= MOSTLY * max(self.wall - self.mean("delay"), 1e-9)

    @property
    def costly_handoff(self) -> bool:
        """Whether handing batches over is what most of the waiting is for, as far as the workers'
        own figures account for it: packing slows the workers, unpacking the training process, in
        which all of them queue. It must cost as much as making them, or one side half of it all."""
        unpacking = self.unpickle * self.per_step
        making = self.stall(self.count, self.calm)
        handing = unpacking + making * min(1.0, self.pickle / max(self.calm, 1e-9))
        enough = unpacking + making >= 0.3 * self.waiting * self.facts.step_s
        making_it = self.mean("cpu") + self.storage
        packing, serial = self.pickle, self.unpickle * self.count
        enough &= packing + serial >= making_it or 2 * max(packing, serial) >= making_it + packing
        return enough and handing >= MOSTLY * (unpacking + making) > 0.0

    @cached_property
    def ready(self) -> float:
        """Share of the step spent in taking batches that were ready when they were asked for: the
        loop takes them in order, so that the next one is if more are ready than the other workers
        may have made. A batch counts as ready from when its worker put it into the queue, where a
        thread of the worker still has to pack it: less what the workers need anyway to make as many
        as the loop takes, however they are handed over."""
        found = self._taking(self._there)
        making = self.stall(self.count, self.calm) / max(self.facts.step_s, 1e-9)
        return max(0.0, min(found, self.waiting - making))

    @property
    def _there(self) -> NDArray[np.bool_]:
        """Which batches that were taken are sure to have been ready."""
        others = self.depth - self.depth // max(self.count, 1)
        return np.asarray(self.takes["ready"] > others)

    def _taking(self, which: NDArray[np.bool_]) -> float:
        """Share of the step that the loop spends in taking some of the batches."""
        taken = union(self.takes["start"][which], self.takes["end"][which]) - self.restarts
        return self.facts.share_of(self.facts.part("loader") & taken)

    @property
    def waits_for_handoff(self) -> bool:
        """Whether batches are waited for while they are handed over, not while they are made."""
        mostly = self.ready >= max(READY, MOSTLY * self.waiting)
        return (mostly and not self._lean) or self.costly_handoff

    @property
    def _lean(self) -> bool:
        """Whether batches are a few tensors, and unpacking them is not what taking them is for: it
        waits for a worker that is busy with the next one to pass them on."""
        unpacking = self.unpickle * self.per_step / max(self.facts.step_s, 1e-9)
        return 0 < (self.loading.tensors or 0) <= FEW_TENSORS and unpacking < MOSTLY * self.ready

    @property
    def crowded(self) -> bool:
        """Whether workers of several threads each crowd the cores."""
        threads = max((worker.threads for worker in self.loading.workers), default=1)
        demand = self.count * threads
        busy = self.others >= 0.3 * self.mean("cpu") or self.mean("delay") >= 0.2 * self.wall
        return threads > 1 and demand > self.cores and busy

    @cached_property
    def bursty(self) -> bool:
        """Whether the workers are fast enough on average, and a deeper queue would absorb half of
        the waiting: of that for batches that were not ready, where this is most of it."""
        late = self._taking(~self._there)
        waits = late * self.facts.step_s / max(self.per_step, 1e-9)
        short = self.calm / max(self.count, 1)
        if late < max(self.ready, LEAST_SHARE) or short > self.rest / max(self.per_step, 1e-9):
            return False
        now = self.replay(self.depth).others
        return now > 0.3 * waits and self.replay(4 * self.depth).others <= 0.5 * now

    @cached_property
    def kind(self) -> str | None:
        """What the step waits for: "memory", "handoff", "crowd", "burst", "small files", "cache",
        "storage" or "work"; None where it hardly waits, or the loader's figures do not tell."""
        if not self.known or self.waiting < LEAST_SHARE:
            return None
        if waits_for_memory(self.facts, self.waiting):
            return "memory"
        if self.stopped:
            return None  # by whom, the recording does not tell
        if self.crowded:
            return "crowd"
        if self.bursty:
            return "burst"
        if self.waits_for_handoff:
            return "handoff"
        if not self.explained or self.loading.still >= MOSTLY:
            return None  # somebody holds them still, and the recording does not tell who
        return self._stored() if self.waits_for_storage else "work"

    @property
    def same_again(self) -> bool:
        """Whether the loader makes the same of every sample in every epoch, as far as was seen."""
        return self.repeated[0] == self.repeated[1] >= LEAST_SAMPLES

    def _stored(self) -> str:
        opens, chars = self.mean("opens"), self.mean("chars")
        if opens >= MOSTLY * self.mean("samples") and chars / max(opens, 1e-9) <= SMALL_FILE:
            return "small files"
        return "cache" if self.reread >= MOSTLY else "storage"

    @cached_property
    def reread(self) -> float:
        """Share of what later epochs read that comes from storage although it was read before; 0
        with a single epoch, or where storage is not read through this machine."""
        again, rows = self.later_epoch, self.loading.batches
        made = (rows["worker"] >= 0) & (rows["start"] >= (again or 0))
        return 0.0 if again is None else from_storage(rows[made])

    @cached_property
    def later_epoch(self) -> int | None:
        """When the second epoch that was seen began, ns; None where there was but one."""
        return second(self._first, [one.start for one in self.loading.iterators])

    @cached_property
    def repeated(self) -> tuple[int, int]:
        """Of how many samples the loader made the same again, of how many that it made again."""
        return made_again(self.loading.rows)

    # -- where ------------------------------------------------------------------------------

    @cached_property
    def hot(self) -> tuple[Place, float] | None:
        """The user's own line that workers are at most often, its share of the samples; or None."""
        lines = [own_frame(self.loading.stacks[i]) for i in self.loading.samples["stack"]]
        counted = Counter(line for line in lines if line)
        if not counted:
            return None
        line, count = counted.most_common(1)[0]
        place = frame_place(line, self.facts.rank)
        return (place, count / len(lines)) if place else None

    def places(self, *keys: str, workers: bool = True) -> tuple[Place, ...]:
        """Places that the settings name ("asked", "making", "collating"), the user's only; without
        ``workers`` those of the loader that has none."""
        alone = [s for s in self.loading.settings if not s.get("workers")]
        settings = self.settings if workers else (alone or [{}])[0]
        told = [frame_place(str(settings.get(key) or ""), self.facts.rank) for key in keys]
        return tuple(place for place in told if place and not in_library(place))

    @property
    def where(self) -> tuple[Place, ...]:
        """The line that costs most, else the dataset's method."""
        return (self.hot[0],) if self.hot else self.places("making")
