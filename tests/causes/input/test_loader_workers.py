"""What loader workers wait for, told apart on imagined jobs; each prediction covers its twin."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pytest
from msgspec import structs

from cured_twins import covers, judge_all
from watched_run import add_facts, loader_facts
from whyidle import catalog
from whyidle.analysis.facts import Facts
from whyidle.analysis.host.core_capacity import BUSY_CORE
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.diagnosis.fix_instructions import summarize_edits
from whyidle.model.live.telemetry import Series, Telemetry
from whyidle.model.loader_tables import BATCH, ROW, SAMPLE, TAKE, Iterator, Loading, Worker
from whyidle.testing import contracts
from whyidle.testing.builder import ms
from whyidle.testing.contracts import Pair
from whyidle.testing.recorded_job import RecordedJob

NEXT = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
LOOP = "/job/train.py(20): <module>"
ITEM = "/job/data.py(12): __getitem__;/lib/site-packages/torch/utils/data/fetch.py(50): fetch"
ROWS = 8


@dataclass
class Job:
    """Workers make batches ahead, and the loop takes them in order. Times are in ms."""

    workers: int = 2
    prefetch: int = 2
    train: float = 20.0
    steps: int = 48
    epoch: int = 48
    cpu: float = 2.0
    storage: float = 0.0
    slow: tuple[int, float] = (0, 0.0)
    """every so many batches, so much longer"""
    others: float = 0.0
    delay: float = 0.0
    pickle: float = 0.0
    unpickle: float = 0.0
    opens: int = 0
    chars: int = 0
    reread: float = 0.0
    threads: int = 1
    cores: float = 4.0
    given: float | None = None
    """cores that the command was given, where the process tells"""
    begin: float = 0.0
    """starting the workers of an epoch"""
    opening: float = 0.0
    """the first batch of an epoch takes so much longer"""
    persistent: bool = True
    same: bool = False
    ready: int = 0
    """batches that are there when one is asked for"""
    beside: float = 0.0
    """the call for a batch takes so much longer than taking it"""
    still: float = 0.0
    """share of the looks at workers that found them held still"""
    counted: bool = False
    """whether the loader says how many batches an epoch has"""

    @property
    def made(self):
        return self.cpu + self.storage + self.others + self.delay

    @cached_property
    def run(self):
        """The timeline."""
        guest = RecordedJob(start_ns=ms(1000))
        batches, takes, rows, looks, epochs = [], [], [], [], []
        for start in range(0, self.steps, self.epoch):
            free, taken = [guest.now + ms(self.begin)] * self.workers, []
            epochs.append(guest.now)
            for k in range(min(self.epoch, self.steps - start)):
                mine = k % self.workers
                ahead = k - self.workers * self.prefetch
                opens = max(free[mine], taken[ahead] if ahead >= 0 else 0)
                often, longer = self.slow
                slow = longer if often and k % often == often - 1 else 0
                took = ms(self.made + slow + (0 if k else self.opening))
                free[mine] = opens + took + ms(self.pickle)
                batches.append((opens, opens + took, mine, len(epochs)))
                looks.append(opens + took // 2)
                rows.append((opens, k, k if self.same else len(batches)))
                asked = guest.now
                with guest.call(NEXT):
                    guest.wait(LOOP, max(free[mine] - asked, 0) + ms(0.1 + self.unpickle))
                    there = self.ready if free[mine] <= asked else 0
                    takes.append(
                        (asked, guest.now, ms(self.unpickle), there, self._iterator(epochs))
                    )
                    guest.wait(LOOP, ms(self.beside))
                taken.append(guest.now)
                guest.backward(LOOP, ms(self.train - 1))
                guest.step(LOOP, ms(1))
            takes.append((guest.now, guest.now, 0, 0, self._iterator(epochs)))  # none is left
        timeline = guest.timeline()
        tables = batches, takes, rows, looks, epochs
        return add_facts(
            replace(timeline, loading=self._loading(timeline.base_ns, tables)),
            {"cores": self.cores, "cores_given": self.given},
        )

    def _iterator(self, epochs):
        """Workers that stay are asked by one iterator."""
        return 1 if self.persistent else len(epochs)

    def _loading(self, base, tables):
        batches, takes, rows, looks, epochs = tables
        kept = epochs[: self._iterator(epochs)]
        made = np.zeros(len(batches), BATCH)
        for row, (start, end, worker, epoch) in zip(made, batches, strict=True):
            row["start"], row["end"], row["worker"] = start - base, end - base, worker
            row["read"] = self.chars * self.reread if epoch > 1 else self.chars
        made["cpu"], made["delay"] = ms(self.cpu), ms(self.delay)
        made["process_cpu"] = ms(self.cpu + self.others)
        made["pickle"], made["samples"] = ms(self.pickle), ROWS
        made["opens"], made["chars"] = self.opens, self.chars
        sums = np.zeros(len(rows), ROW)
        sums["time"], sums["index"], sums["sum"] = np.array(rows).T
        sums["time"] -= base
        sampled = np.zeros(len(looks), SAMPLE)
        sampled["time"] = np.array(looks) - base
        table = np.array(takes, TAKE)
        table["start"] -= base
        table["end"] -= base
        settings = {
            "workers": self.workers,
            "prefetch": self.prefetch,
            "persistent": self.persistent,
            "batches": self.epoch if self.counted else None,
            "making": "/job/data.py(10): __getitem__",
            "collating": "/job/data.py(30): keep",
            "asked": "/job/train.py(18): main",
        }
        return Loading(
            batches=made,
            takes=table,
            rows=sums,
            samples=sampled,
            stacks=(ITEM,),
            workers=tuple(
                Worker(i, 0, ms(1), self.threads, 50 + i, self.cores) for i in range(self.workers)
            ),
            loaders=loader_facts(settings),
            iterators=tuple(Iterator(at - base, at - base + 1, 0) for at in kept),
            still=self.still,
            cores=self.cores,
            threads=1,
        )


def judge(cause, job):
    return judge_all(cause, [job.run])


def speedup(sick, cured):
    return Facts(sick.run).step_s / Facts(cured.run).step_s


WORK = Job(cpu=70)
STORED = Job(storage=70, chars=8 * 1_000_000, opens=8)
SMALL = replace(STORED, chars=8 * 100_000)
AGAIN = replace(STORED, steps=96, reread=1.0)
BURSTY = Job(workers=1, cpu=8, slow=(12, 100.0))
HANDED = Job(cpu=6, pickle=30, unpickle=25)
CROWDED = Job(cpu=30, others=25, delay=15, threads=8)
REPEATED = replace(WORK, steps=96, same=True)
RESTARTED = Job(steps=96, epoch=12, begin=120, persistent=False)

SICK = {
    "dataloader-too-few-workers": (
        replace(WORK, cores=8.0),
        replace(WORK, workers=4, cores=8.0),
    ),
    "heavy-cpu-transform": (replace(WORK, cores=2.0), replace(WORK, cpu=35, cores=2.0)),
    "remote-storage-fetch-stall": (STORED, replace(STORED, storage=7)),
    "small-file-random-io": (SMALL, replace(SMALL, storage=14)),
    "bursty-loader-shallow-prefetch": (BURSTY, replace(BURSTY, prefetch=8)),
    "worker-handoff-bottleneck": (HANDED, replace(HANDED, pickle=3, unpickle=2.5)),
    "cpu-oversubscription": (CROWDED, replace(CROWDED, others=0, delay=0, threads=1)),
    "repeated-deterministic-preprocessing": (REPEATED, replace(REPEATED, cpu=7)),
    "worker-restart-per-epoch": (RESTARTED, replace(RESTARTED, begin=0, persistent=True)),
}
"""cause -> a job that has it, and its twin with the fix that is expected"""
WAITS = {
    "dataloader-too-few-workers": "work",
    "heavy-cpu-transform": "work",
    "remote-storage-fetch-stall": "storage",
    "small-file-random-io": "small files",
    "bursty-loader-shallow-prefetch": "burst",
    "worker-handoff-bottleneck": "handoff",
    "cpu-oversubscription": "crowd",
    "repeated-deterministic-preprocessing": "work",
}


@pytest.mark.parametrize("cause", SICK)
def test_found_and_the_prediction_covers_the_twin(cause):
    sick, cured = SICK[cause]
    proof = judge(cause, sick)
    assert proof
    assert proof.high > 0.1
    assert covers(proof, speedup(sick, cured), slack=0.04)
    assert {place.file for place in proof.where} <= {"/job/data.py", "/job/train.py"}
    assert proof.where
    assert judge(cause, cured) is None or judge(cause, cured).high < proof.high / 2


def test_data_that_is_read_again_in_each_epoch_is_to_stay_in_memory():
    proof = judge("remote-storage-fetch-stall", AGAIN)
    assert "in later epochs comes from disk again" in proof.headline
    assert covers(proof, speedup(AGAIN, replace(AGAIN, storage=28)), slack=0.04)


@pytest.mark.parametrize("storage", [70, 300])
def test_as_many_wait_at_a_time_as_the_storage_is_far(storage):
    """The fix says how many hide it, which may be more than there are cores."""
    sick = replace(STORED, storage=storage, steps=400, epoch=400)
    proof = judge("remote-storage-fetch-stall", sick)
    wanted = proof.facts.workers
    assert wanted > (sick.cores if storage > 100 else sick.workers)
    told = proof.facts.by_workers.speedup
    assert told == pytest.approx(speedup(sick, replace(sick, workers=wanted)), rel=0.1)
    assert speedup(sick, replace(sick, workers=2 * wanted)) < 1.15 * told
    assert proof.facts.by_workers.low == 1.0  # nothing where the storage is at its limit


@pytest.mark.parametrize("epoch", [12, 24, 60])
def test_short_epochs_begin_with_a_wait_that_no_worker_hides(epoch):
    """All workers begin with the epoch: the fewer batches each makes, the more is waited for."""
    sick = replace(STORED, storage=300, train=5, steps=20 * epoch, epoch=epoch, counted=True)
    proof = judge("remote-storage-fetch-stall", sick)
    more = replace(sick, workers=proof.facts.workers)
    told = proof.facts.by_workers.speedup
    assert told == pytest.approx(speedup(sick, more), rel=0.1)
    endless = judge("remote-storage-fetch-stall", replace(sick, counted=False))
    assert endless.facts.by_workers.speedup > 1.2 * told


def test_the_first_batch_of_an_epoch_is_waited_for_once():
    """It takes long: workers that stay are waited for as long as a batch takes."""
    job = replace(RESTARTED, cpu=15, cores=8.0)
    proof = judge("worker-restart-per-epoch", job)
    told = {one.quantity: one.value for one in proof.evidence}
    assert told["starts of workers"] == job.steps // job.epoch - 1  # the first is no steady step
    assert 1 / proof.predicted.high == pytest.approx(
        1 / speedup(job, replace(job, begin=0, persistent=True)), abs=0.02
    )


@pytest.mark.parametrize("cause", WAITS)
def test_what_workers_wait_for_is_one_thing_only(cause):
    """Siblings that need the same evidence are silent."""
    job = SICK[cause][0]
    assert Facts(job.run).workers.wait_kind == WAITS[cause]
    others = {other for other, kind in WAITS.items() if kind != WAITS[cause]}
    assert not [other for other in others if judge(other, job)]


NEAR = {
    "a loader that keeps up": Job(cpu=30),
    "waiting for storage that is hidden": Job(storage=30, chars=8 * 50_000_000, opens=8),
    "a few slow batches that the queue bridges": replace(BURSTY, slow=(12, 15.0)),
    "a hand-off that is hidden": Job(cpu=6, pickle=20),
    "several threads on enough cores": Job(cpu=30, threads=2, cores=8.0),
    "workers that stay": replace(RESTARTED, begin=0, persistent=True),
    "workers that wait for cores which others use": Job(cpu=10, delay=60),
    "a wait of less than a hundredth": Job(cpu=40.1),
    "workers that somebody holds still": replace(STORED, still=0.8),
    "workers that somebody holds still, and small files": replace(SMALL, still=0.8),
}


@pytest.mark.parametrize("name", NEAR)
def test_near_misses(name):
    assert not [cause for cause in SICK if judge(cause, NEAR[name])]


SLOWLY = Job(workers=1, train=9, cpu=2, unpickle=2.5, cores=2.0, ready=2)


def test_a_ready_batch_that_is_taken_slowly_is_a_slow_hand_off():
    """Taking it costs 2.6 ms of 11.6, although it is made in 7 ms while the loop does the rest."""
    job = replace(SLOWLY, cpu=7)
    proof = judge("worker-handoff-bottleneck", job)
    assert proof
    assert not Facts(job.run).workers.costly_handoff
    assert proof.low == 0.0
    assert covers(proof, speedup(job, replace(job, unpickle=1.2)), slack=0.02)


def test_what_taking_a_batch_takes_beside_unpacking_it_stays_with_leaner_batches():
    """Its memory is asked of the worker, whatever is in it."""
    job = Job(workers=1, train=20, cpu=2, pickle=3, unpickle=6, cores=2.0, ready=2)
    timeline = job.run
    takes = timeline.loading.takes.copy()
    takes["unpickle"] = ms(2)
    seen = replace(timeline, loading=replace(timeline.loading, takes=takes))
    declared = catalog.load_causes()["worker-handoff-bottleneck"]
    whole, partly = declared.test(Facts(timeline)), declared.test(Facts(seen))
    step = Facts(timeline).step_s
    assert whole.predicted.speedup == pytest.approx(step / (step - 5.4e-3), rel=0.02)
    assert partly.predicted.speedup == pytest.approx(step / (step - 1.8e-3), rel=0.02)


@pytest.mark.parametrize(
    ("tensors", "unpickle", "found"),
    [(2, 0.3, False), (2, 2.5, True), (40, 0.3, True), (None, 0.3, True)],
)
def test_a_few_tensors_are_no_slow_hand_off_unless_unpacking_them_is(tensors, unpickle, found):
    """Fewer would not be handed over faster: it waits for the worker to pass them on."""
    timeline = replace(SLOWLY, cpu=7).run
    takes = timeline.loading.takes.copy()
    takes["unpickle"] = ms(unpickle)
    seen = replace(timeline, loading=replace(timeline.loading, takes=takes, tensors=tensors))
    proof = catalog.load_causes()["worker-handoff-bottleneck"].test(Facts(seen))
    assert bool(proof) is found


@pytest.mark.parametrize(
    "job",
    [
        replace(SLOWLY, cpu=4, unpickle=0.5),
        replace(SLOWLY, cpu=30, unpickle=0.1, ready=0),
        replace(SLOWLY, workers=4, cpu=30, unpickle=0.1, ready=6, cores=8.0),
    ],
    ids=["a short hand-off", "nothing is ready", "only other workers' batches need be ready"],
)
def test_no_slow_hand_off(job):
    assert judge("worker-handoff-bottleneck", job) is None


def test_a_batch_that_its_busy_worker_has_yet_to_pack_is_not_slow_to_take():
    """It counts as ready, and is waited for as long as its worker is at the next one: a worker that
    needs 14 ms for what the loop uses up in 9 is waited for, however batches are handed over."""
    job = replace(SLOWLY, cpu=14, unpickle=0.1)
    assert judge("worker-handoff-bottleneck", job) is None
    assert judge("dataloader-too-few-workers", job)


def test_workers_that_packing_keeps_from_the_lock_wait_for_the_hand_off():
    """A thread of the worker packs batches, and holds the lock meanwhile."""
    assert judge("worker-handoff-bottleneck", replace(HANDED, still=0.8))


UNEVEN = replace(BURSTY, slow=(12, 80.0), ready=2)


def test_what_a_call_takes_beside_waiting_does_not_hide_slow_batches():
    """8 ms in each call go to something else: a crowded machine, a thread that wants the lock."""
    sick = replace(UNEVEN, slow=(12, 65.0), beside=8.0)
    assert Facts(sick.run).workers.wait_kind == "burst"
    proof = judge("bursty-loader-shallow-prefetch", sick)
    assert covers(proof, speedup(sick, replace(sick, prefetch=8)), slack=0.02)


def test_repeated_work_is_told_as_that_alone():
    assert judge("heavy-cpu-transform", REPEATED) is None


def test_without_the_work_of_its_samples_nobody_waits():
    sick = replace(WORK, cores=2.0)
    found = judge("heavy-cpu-transform", sick)
    cured = speedup(sick, replace(sick, cpu=0.0))
    assert found.removal.speedup == pytest.approx(cured, rel=0.02)
    told = {one.quantity: one.value for one in found.evidence}
    assert told["it runs"] == "for every sample"
    assert told["time per sample"] == pytest.approx(0.07 / ROWS, rel=0.05)


@pytest.mark.parametrize("library", ["h5py", None])
def test_workers_that_read_through_a_library_are_told_to_read_less(library):
    inner = f"/usr/lib/python3.11/site-packages/{library}/_hl/dataset.py(872): __getitem__;"
    timeline = replace(WORK, cores=2.0).run
    looked = replace(timeline.loading, stacks=((inner if library else "") + ITEM,))
    found = judge_all("heavy-cpu-transform", [replace(timeline, loading=looked)])
    decide = {name: catalog.load_fixes()[name].decide for name in ("cheaper-reads", "whole-arrays")}
    assert (decide["cheaper-reads"](found) is not None) == bool(library)
    assert (decide["whole-arrays"](found) is None) == bool(library)


@pytest.mark.parametrize(
    "job", [Job(cpu=20, others=50), replace(WORK, threads=4, cores=16.0)], ids=["others", "room"]
)
def test_threads_that_have_cores_to_run_on_are_work(job):
    assert Facts(job.run).workers.wait_kind == "work"


def test_two_workers_never_beat_the_cores():
    """A batch of 35 ms and a step of 20 ms on two cores: 27.5 ms at best. Two cores that are busy
    may be two threads of one: then it is nothing."""
    proof = judge("dataloader-too-few-workers", Job(workers=1, cpu=35, cores=2.0))
    assert proof
    assert 0.0 < proof.high <= 1.02 * (1 - 27.5 / 35.1)
    assert proof.predicted.high == pytest.approx(1 / (1 - proof.high))
    assert proof.low == 0.0


def test_a_deeper_queue_does_not_reach_into_the_next_epoch():
    """Each second slow batch begins an epoch, and is waited for however deep the queue is."""
    sick = replace(BURSTY, steps=96, epoch=24, slow=(12, 100.0), opening=60.0)
    cured = replace(sick, prefetch=8)
    proof = judge("bursty-loader-shallow-prefetch", sick)
    assert proof
    assert covers(proof, speedup(sick, cured), slack=0.04)
    assert proof.high < 0.8 * Facts(sick.run).workers.waiting_share


BESIDE = replace(CROWDED, cpu=12, others=8, delay=20, cores=2.0)
"""workers that keep up, but take the cores from the training process"""


SURPLUS = Job(workers=16, cores=2.0, cpu=30, delay=300)
"""sixteen workers of one thread each on two cores: a batch of 30 ms takes 330"""


def test_far_more_workers_than_cores_are_too_many():
    found = judge("cpu-oversubscription", SURPLUS)
    assert found.headline == "16 workers compete for 2 cores"
    assert covers(found, speedup(SURPLUS, replace(SURPLUS, workers=2, delay=5)), slack=0.02)
    every = catalog.load_fixes()
    (edit,) = every["fewer-workers"].decide(found).edits
    assert (edit.knob, edit.value, edit.was) == ("loader.workers", 2, 16)
    assert max(edit.among) < 16
    assert every["one-thread-per-worker"].decide(found) is None
    assert judge("heavy-cpu-transform", SURPLUS) is None


def test_whatever_is_too_many_is_made_fewer_at_once():
    """Fewer workers of many threads each are still a crowd, and so is one thread for each of far
    too many workers."""
    run = used_up(replace(SURPLUS, threads=4, others=8))
    run = add_facts(run, {"switches": {"num_threads": 8}})
    every = catalog.load_fixes()
    found = contracts.run_cause(catalog.load_causes()["cpu-oversubscription"], [run])
    plan = every["threads-to-cores"].decide(found)
    assert [(one.knob, one.value, one.was) for one in plan.edits] == [
        ("loader.workers", 2, 16),
        ("loader.worker_threads", 1, 4),
        ("torch.num_threads", 1, 8),
    ]
    assert summarize_edits(plan.edits) == (
        "DataLoader(..., num_workers=2), torch.set_num_threads(1) in the DataLoader's "
        "worker_init_fn, torch.set_num_threads(1) at the beginning"
    )
    assert "2 workers, one thread each" in found.predicted.method
    for alone in ("fewer-workers", "one-thread-per-worker"):
        assert every[alone].decide(found) is None


def test_workers_of_several_threads_each_are_told_of_their_threads():
    found = judge("cpu-oversubscription", CROWDED)
    assert catalog.load_fixes()["fewer-workers"].decide(found) is None
    assert catalog.load_fixes()["one-thread-per-worker"].decide(found)


@pytest.mark.parametrize(
    "changed",
    [{"workers": 4}, {"delay": 20}, {"cpu": 2, "storage": 28}],
    ids=["two per core", "they have their cores", "they wait for storage"],
)
def test_workers_that_are_not_far_too_many(changed):
    assert Facts(replace(SURPLUS, **changed).run).workers.wait_kind != "crowd"


def test_too_many_workers_keep_the_training_thread_from_its_core_beside_other_programs():
    job = replace(SURPLUS, cpu=8, delay=330)
    seen = (used_up(job, waits=0.5, used=used) for used in (1.2, 1.9))
    found, alone = (judge_all("cpu-oversubscription", [one]) for one in seen)
    assert (found.bucket, found.low) == ("compute", 0.0)
    assert 1.0 < found.predicted.speedup < alone.predicted.speedup
    assert found.predicted.high == alone.predicted.high


def used_up(job, *, waits=0.4, used=1.95):
    """The job from outside: its cores are in use, and its training thread waits for one."""
    timeline = job.run
    first = timeline.base_ns
    own = 0.9 * used / 2
    grown = {"job_cpu_user_s": used, "job_cpu_system_s": 0.0}
    grown |= {"cpu_user_s@pid1": own, "cpu_system_s@pid1": 0.0}
    ends = np.array([first, first + 4_000_000_000])
    series = {name: Series(ends, np.array([0.0, 4.0 * rate])) for name, rate in grown.items()}
    series["cores_effective"] = Series(ends, np.array([job.cores] * 2))
    series["job_running"] = Series(ends, np.array([3.0] * 2))
    told = {"sampler": {"core_wait_s": 4 * waits, "core_seen_s": 4.0}}
    return add_facts(replace(timeline, telemetry=Telemetry(series, {})), told)


def test_workers_that_take_the_cores_from_training_hold_it_up():
    job = replace(BESIDE, cpu=25)
    assert Facts(job.run).workers.wait_kind == "crowd"
    found = judge_all("cpu-oversubscription", [used_up(job)])
    assert (found.bucket, found.low) == ("compute", 0.0)
    assert found.high == pytest.approx(0.4)
    assert 1.0 < found.predicted.speedup < found.predicted.high
    assert judge_all("cpu-starved-allocation", [used_up(job)]) is None


def test_threads_that_burn_more_than_the_training_thread_itself_spin():
    """Its work is at most as often its own time as operators have threads."""
    timeline = used_up(replace(BESIDE, cpu=15), waits=0.5)
    series = dict(timeline.telemetry.series)
    pid = timeline.process.pid
    taken = series["cpu_user_s@pid1"]
    for kind, rate in (("user", 1.3), ("system", 0.1)):
        series[f"cpu_{kind}_s@pid{pid}"] = Series(taken.time_ns, np.array([0.0, 4.0 * rate]))
    seen = replace(timeline, telemetry=Telemetry(series, {}))
    cause = catalog.load_causes()["cpu-oversubscription"]
    told = [{"switches": {"num_threads": threads}} for threads in (4, 2)]
    proofs = [contracts.run_cause(cause, [add_facts(seen, one)]) for one in told]
    speedups = [proof.predicted.speedup for proof in proofs]
    assert speedups[1] > speedups[0] + 0.05


@pytest.mark.parametrize(
    "seen", [{"waits": 0.0}, {"used": 1.2}], ids=["nobody waits for a core", "cores are left"]
)
def test_a_crowd_beside_training_that_has_its_cores_costs_what_batches_are_waited_for(seen):
    job = replace(BESIDE, cpu=25)
    found = judge_all("cpu-oversubscription", [used_up(job, **seen)])
    assert found.bucket in (None, "input")
    assert found.high == pytest.approx(Facts(job.run).workers.waiting_share)


PACKING = Job(workers=6, cores=2.0, train=50, cpu=12, pickle=43, delay=300)
"""six workers on two cores, whose work is mostly packing batches"""


def packing(job=PACKING, **content):
    timeline = used_up(job, waits=0.7)
    return replace(timeline, loading=replace(timeline.loading, **content))


def plans_of(proof):
    names = ("leaner-batches", "lookup-without-workers")
    plans = {name: catalog.load_fixes()[name].decide(proof) for name in names}
    return {name: plan for name, plan in plans.items() if plan is not None}


def test_workers_that_mostly_pack_large_batches_are_no_crowd():
    doubles = {"batch_bytes": 26_000_000, "types": {"float64": 26_000_000}}
    run = packing(**doubles)
    assert judge_all("cpu-oversubscription", [run]) is None
    found = judge_all("worker-handoff-bottleneck", [run])
    assert "26 MB: packing one takes 43 ms of CPU, making it 12 ms" in found.headline
    proposed = plans_of(found)
    assert "float32" in proposed["leaner-batches"].summary
    assert proposed["lookup-without-workers"].predicted == found.removal
    step, waits = Facts(run).step_s, found.high
    alone = step * (1.0 - waits)
    assert step / (alone + 13e6 / 2.3e9) == pytest.approx(found.removal.low, rel=0.01)


def test_what_is_read_from_files_is_not_looked_up_in_memory():
    run = packing(replace(PACKING, chars=20_000_000), batch_bytes=26_000_000)
    found = judge_all("worker-handoff-bottleneck", [run])
    assert "lookup-without-workers" not in plans_of(found)
    assert "float32" not in plans_of(found)["leaner-batches"].summary


@pytest.mark.parametrize("size", [None, 20_000])
def test_objects_that_take_long_to_pack_are_no_large_tensors(size):
    assert not Facts(packing(batch_bytes=size)).workers.mostly_packs


def test_workers_that_make_more_than_they_pack_stay_a_crowd():
    run = packing(replace(PACKING, cpu=60), batch_bytes=26_000_000)
    assert Facts(run).workers.wait_kind == "crowd"


STARVED = Job(workers=1, train=85, cpu=57, delay=43, cores=1.0)
"""one core has 45 ms of training and 57 of loading to do in every step of 100"""


def test_more_cores_bring_that_nobody_waits_for_one():
    """At best both take the time that they need, and the loader is the slower one; cores that share
    their arithmetic units make both slower, as expected by half of what they may."""
    found = judge_all("cpu-starved-allocation", [used_up(STARVED, used=1.0)])
    cured = replace(STARVED, train=45, delay=0, cores=2.0)
    assert 1 / found.predicted.high == pytest.approx(1 / speedup(STARVED, cured), abs=0.03)
    shared = replace(cured, cpu=57 + (1 / BUSY_CORE[1] - 1) * 45)
    assert 1 / found.predicted.speedup == pytest.approx(1 / speedup(STARVED, shared), abs=0.03)
    assert found.predicted.low == 1.0


CONFINED = Job(workers=8, train=85, cpu=40, delay=700, cores=1.0)
"""eight workers on one core, which they wait for more than they work"""


def confined(job, machine=2.0, **gauges):
    """The job from outside, on a machine of so many cores."""
    timeline = used_up(job, waits=0.46, used=job.cores)
    ends = np.array([timeline.base_ns, timeline.base_ns + 4_000_000_000])
    series = dict(timeline.telemetry.series)
    series["machine_cpu_idle_s"] = Series(ends, np.array([0.0, 4.0 * machine]))
    series["job_running"] = Series(ends, np.array([8.0] * 2))
    for name, value in gauges.items():
        series[name] = Series(ends, np.array([value] * 2))
    return replace(timeline, telemetry=Telemetry(series, {}))


def judge_pair(timeline):
    names = ("cpu-starved-allocation", "cpu-oversubscription")
    return [judge_all(name, [timeline]) for name in names]


def test_workers_that_a_limit_crowds_have_too_few_cores():
    """Fewer of them have the same work; with the machine's cores they do not wait."""
    starved, crowd = judge_pair(confined(CONFINED))
    assert starved
    assert crowd is None
    assert "allows 1 of 2" in starved.headline
    cured = speedup(CONFINED, replace(CONFINED, train=45, delay=0, cores=2.0))
    assert covers(starved, cured, slack=0.04)


def test_training_that_waits_for_cores_of_a_quota_has_too_few_of_them():
    """Batches are ready; the processes use up what the limit gives them."""
    job = Job(workers=1, train=90, cpu=10, delay=10, cores=1.0)
    starved, _ = judge_pair(confined(job, cores_quota=1.0))
    assert starved.bucket == "compute"
    assert "its quota allows 1 of 2" in starved.headline
    assert judge_pair(confined(job, machine=1.0))[0] is None


@pytest.mark.parametrize(
    ("gauges", "environment", "told"),
    [
        ({"cores_cpuset": 2.0}, {}, ("affinity", "taskset, numactl or the launcher")),
        ({"cores_cpuset": 1.0}, {}, ("cpuset", "control group")),
        ({"cores_quota": 1.0}, {}, ("quota", "control group")),
        ({}, {"SLURM_JOB_ID": "7", "SLURM_CPUS_PER_TASK": "1"}, ("affinity", "Slurm, with 1 CPU")),
    ],
)
def test_the_limit_and_who_set_it_are_named(gauges, environment, told):
    timeline = add_facts(confined(CONFINED, **gauges), {"environment": environment})
    found, _ = judge_pair(timeline)
    kind, origin = told
    values = {one.quantity: one.value for one in found.evidence}
    assert values["limit on cores"] == kind
    assert origin in values["set by"]
    plan = catalog.load_fixes()["more-cores"].decide(found)
    assert f"({kind}, set by {values['set by']})" in plan.summary


BOUND = Job(workers=2, train=10, cpu=25, delay=25, cores=1.0, given=4.0)
"""two workers share one core of four: a batch of 25 ms takes each of them 50"""


@pytest.mark.parametrize("persistent", [True, False])
def test_what_leads_to_random_transforms_is_kept_where_a_second_epoch_was_seen(persistent):
    """Of workers that stay, too, which one iterator asks for all epochs."""
    twice = replace(WORK, cores=2.0, steps=96, persistent=persistent)
    found = transforming(twice).facts.leading
    kept = speedup(twice, replace(twice, cpu=0.0))
    assert found.low == 1.0
    assert found.high == pytest.approx(kept, rel=0.1)
    half = speedup(twice, replace(twice, cpu=0.55 * twice.cpu))
    assert 1.1 < found.speedup < half  # the twin's two cores have time for the loop besides
    assert "cached-preprocessing" in treat(transforming(twice))
    assert "cached-preprocessing" not in treat(transforming(replace(twice, steps=48)))


def transforming(job):
    """What is found of it where its dataset holds a chain of transforms."""
    timeline = job.run
    seen = tuple(structs.replace(loader, transforms=True) for loader in timeline.loading.loaders)
    chained = replace(timeline, loading=replace(timeline.loading, loaders=seen))
    return judge_all("heavy-cpu-transform", [chained])


def treat(proof):
    """What is proposed for data that takes the CPU's time."""
    every = catalog.load_fixes().items()
    plans = {name: one.decide(proof) for name, one in every if "heavy-cpu-transform" in one.causes}
    return {name for name, plan in plans.items() if plan is not None}


def test_workers_that_something_in_the_process_bound_to_a_core():
    assert Facts(BOUND.run).workers.wait_kind == "bound"
    found = judge("narrowed-cpu-affinity", BOUND)
    assert found.headline == "Loader workers may use 1 of the command's 4 cores"
    cured = replace(BOUND, delay=0)
    assert 1 / found.predicted.high == pytest.approx(1 / speedup(BOUND, cured), abs=0.03)
    assert found.predicted.low > 1.0


def test_what_binds_them_is_named_where_the_environment_tells():
    told = {"environment": {"OMP_PROC_BIND": "true", "KMP_AFFINITY": "none"}}
    found = judge_all("narrowed-cpu-affinity", [add_facts(BOUND.run, told)])
    assert found.headline.endswith(": OMP_PROC_BIND=true binds them")


def test_cores_that_something_in_the_process_took_are_not_wanting():
    """The command was given enough: more of them would be bound away as these are."""
    unknown = used_up(replace(BOUND, given=None), used=1.0)
    assert judge_all("cpu-starved-allocation", [unknown])
    assert judge_all("cpu-starved-allocation", [used_up(BOUND, used=1.0)]) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"given": 1.0},  # all that the command had
        {"given": None},  # nobody told
        {"delay": 2.0},  # they get what they need
        {"cpu": 3.0, "delay": 3.0},  # nobody waits for them
    ],
    ids=str,
)
def test_workers_that_are_not_bound_or_do_not_feel_it(changed):
    assert judge("narrowed-cpu-affinity", replace(BOUND, **changed)) is None


def test_more_workers_are_given_the_cores_that_something_took():
    """One that has a core for itself is slow all the same, and more of them would be bound too."""
    job = replace(WORK, workers=1, cores=1.0, given=8.0)
    assert Facts(job.run).workers.wait_kind == "work"
    found = judge("dataloader-too-few-workers", job)
    assert found.facts.bound
    assert found.facts.workers > 1
    assert judge("dataloader-too-few-workers", replace(job, given=None)) is None


def test_ranks_that_share_the_cores_out_leave_none_to_give_back():
    ranks = replace(BOUND.run, world_size=4)
    assert judge_all("narrowed-cpu-affinity", [ranks]) is None


def test_missing_cores_cost_what_is_waited_for_them_where_that_is_more_than_for_data():
    """What the finding costs is no less than what twice the cores win."""
    for waits, bucket in ((0.5, "compute"), (0.05, "input")):
        seen = used_up(STARVED, waits=waits, used=1.0)
        found = judge_all("cpu-starved-allocation", [seen])
        assert found.bucket == bucket
        told = diagnose_job([seen])
        contracts.check_bounds(told)
        costs = [each for each in told.findings if each.cause == "cpu-starved-allocation"]
        assert len(costs) == (bucket == "compute")  # cheaper samples come first


PAIRS = {
    "bursty-loader-shallow-prefetch": Pair(
        sick=lambda: BURSTY.run, healthy=lambda: replace(BURSTY, slow=(12, 15.0)).run
    ),
    "cpu-oversubscription": Pair(
        sick=lambda: CROWDED.run, healthy=lambda: Job(cpu=30, threads=2, cores=8.0).run
    ),
    "narrowed-cpu-affinity": Pair(
        sick=lambda: BOUND.run, healthy=lambda: replace(BOUND, given=None).run
    ),
    "remote-storage-fetch-stall": Pair(
        sick=lambda: STORED.run, healthy=lambda: replace(STORED, storage=30).run
    ),
    "repeated-deterministic-preprocessing": Pair(
        sick=lambda: REPEATED.run, healthy=lambda: replace(REPEATED, same=False).run
    ),
    "small-file-random-io": Pair(
        sick=lambda: SMALL.run, healthy=lambda: replace(SMALL, storage=30).run
    ),
    "worker-handoff-bottleneck": Pair(
        sick=lambda: HANDED.run, healthy=lambda: Job(cpu=6, pickle=20).run
    ),
}


LIGHT = Job(
    workers=8, train=2.1, cpu=0.25, pickle=0.1, unpickle=0.9, ready=16, cores=2.0, steps=400
)
"""rows of a table in memory: taking a batch costs four times what making it does"""


def lean(job):
    return replace(job.run, loading=replace(job.run.loading, tensors=2))


def test_light_samples_need_no_workers():
    """The training process makes a batch in the time of its worker."""
    found = judge_all("worker-handoff-bottleneck", [lean(LIGHT)])
    step = LIGHT.train + LIGHT.cpu
    assert found.predicted.speedup == pytest.approx(Facts(LIGHT.run).step_s * 1e3 / step, rel=0.02)
    plan = catalog.load_fixes()["fewer-workers"].decide(found)
    assert plan.automatic
    assert [(one.knob, one.value, one.was) for one in plan.edits] == [("loader.workers", 0, 8)]
    assert catalog.load_fixes()["leaner-batches"].decide(found) is None


def test_no_cores_are_requested_for_workers_that_are_needless():
    seen = used_up(LIGHT, waits=0.5, used=2.0)
    seen = replace(seen, loading=replace(seen.loading, tensors=2))
    assert judge_all("cpu-starved-allocation", [seen]) is None


@pytest.mark.parametrize(
    ("job", "best"),
    [
        (LIGHT, 0),
        (replace(LIGHT, unpickle=0.05), 8),
        (replace(LIGHT, cpu=5.0, ready=0), 8),
        (replace(LIGHT, workers=1, cpu=5.0, ready=0, cores=4.0), 3),
    ],
    ids=["none", "quickly taken", "dear samples", "more"],
)
def test_none_fewer_and_more_workers_are_compared_by_one_model(job, best):
    workers = Facts(lean(job)).workers
    assert workers.better_without == (best == 0)
    assert best in (0, workers.best_workers)
