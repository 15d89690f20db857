"""Loading in the training process is found, and what workers win is what the twin shows."""

from dataclasses import replace

import numpy as np
import pytest
from imagined import MS, Imagined, finding

from cured_twins import covers, judge, judge_all, twin_speedup
from watched_run import add_facts, loader_facts
from whyidle import catalog
from whyidle.fixes.advice import input as advice
from whyidle.model.loader_tables import BATCH, ROW, Loading
from whyidle.model.process_facts import LoaderFacts
from whyidle.model.timeline import HostKind
from whyidle.testing.builder import Builder, ms, us
from whyidle.testing.contracts import Pair
from whyidle.testing.recorded_job import RecordedJob

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"


def job(loading: float, *, workers: int = 0, compute: int = 20, layer: float = 500) -> Builder:
    """``compute`` layers of ``layer`` us each; one batch of 5 MB takes ``loading`` us."""
    made = Builder()
    for _ in range(6):
        with made.step():
            made.loader(us(loading), workers=workers)
            made.copy("h2d", 5_000_000)
            for _ in range(compute):
                made.op("aten::mm", kernels=[(GEMM, us(layer))])
            if not workers:
                made.sync()  # else the host runs ahead and hides the loading
    return made


@pytest.mark.parametrize("loading", [3_000, 10_000, 15_000])
def test_the_twin_with_workers_lies_in_the_predicted_interval(loading):
    proof = judge("dataloader-no-workers", job(loading))
    assert proof is not None
    twin = job(max(1_000, loading / 4 - 10_000), workers=4)  # hand-off, or what four cannot hide
    assert covers(proof, twin_speedup(job(loading), twin))


def test_loading_far_beyond_compute_leaves_what_eight_workers_cannot_hide():
    sick = job(200_000)
    proof = judge("dataloader-no-workers", sick)
    assert proof is not None
    assert proof.facts.workers == 8
    eight = job(200_000 / 8, workers=8)
    assert proof.predicted.high == pytest.approx(twin_speedup(sick, eight), rel=0.05)


def test_loading_behind_a_full_queue_costs_nothing():
    sick = Builder()
    for _ in range(8):
        for _ in range(5):
            sick.op("aten::mm", kernels=[(GEMM, us(1_000))])
        with sick.step():
            sick.loader(us(3_000))
    assert judge("dataloader-no-workers", sick) is None


def test_workers_that_wait_are_not_blamed_on_missing_workers():
    assert judge("dataloader-no-workers", job(10_000, workers=2)) is None


def test_stacks_name_the_function_that_loads():
    sick = Builder()
    for _ in range(4):
        with sick.step():
            with sick.span("train.py(40): main", "python_function"):  # noqa: SIM117
                with sick.span("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
                    sick.python("/home/u/data.py(12): __getitem__", us(9_000))
                    sick.python("torch/utils/data/_utils/collate.py(9): collate", us(1_000))
            sick.op("aten::mm", kernels=[(GEMM, us(5_000))])
            sick.sync()
    proof = judge("dataloader-no-workers", sick)
    assert proof is not None
    assert proof.where[0].function == "__getitem__"
    assert proof.where[0].line == 12
    assert not proof.facts.device_work


def test_a_dataset_that_launches_kernels_is_told_apart():
    sick = Builder()
    for _ in range(4):
        with sick.step():
            with sick.span("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
                sick.quiet(us(9_000))
                sick.op("aten::mul", kernels=[("vectorized_elementwise_kernel", us(5))])
            sick.op("aten::mm", kernels=[(GEMM, us(5_000))])
            sick.sync()
    proof = judge("dataloader-no-workers", sick)
    assert proof is not None
    assert proof.facts.device_work


CAUSE = "dataloader-no-workers"


def small(loading):
    """Steps of 2 ms, and before each a batch that is made for so many us."""
    made = Builder()
    for _ in range(6):
        with made.step():
            made.loader(us(loading))
            for _ in range(4):
                made.op("aten::mm", kernels=[(GEMM, us(500))])
            made.sync()
    return made


def parted(tensors, *, pinned=False):
    """Steps of 3.2 ms, of which 1.2 go by in making a batch of so many tensors."""
    made = small(1_200)
    told = Loading(cores=2.0, threads=1, tensors=tensors, loaders=(LoaderFacts(pinned=pinned),))
    return replace(made.timeline(), loading=told)


def test_short_steps_are_not_won_by_workers_that_share_each_tensor():
    found = [judge_all(CAUSE, [parted(count)]) for count in (None, 1, 3)]
    speedups = [proof.predicted.speedup for proof in found]
    assert speedups[0] > 1.2 > speedups[2]
    assert speedups[0] > speedups[1] > speedups[2] >= 1.0
    assert found[2].predicted.low < 1.0 < found[2].predicted.high
    assert judge_all(CAUSE, [parted(3, pinned=True)]).predicted == found[0].predicted


def waiting(batches):
    """Steps of 102 ms, of which 100 go by waiting for a batch; an epoch has so many."""
    seen = small(100_000).timeline()
    rows = np.zeros(6, BATCH)
    rows["worker"], rows["cpu"] = -1, us(1_000)
    calls = [name.startswith("enumerate") for name in np.array(seen.names)[seen.host.name]]
    rows["start"], rows["end"] = seen.host.start[calls], seen.host.end[calls]
    loaders = (LoaderFacts(batches=batches),)
    return replace(seen, loading=Loading(cores=2.0, threads=1, batches=rows, loaders=loaders))


@pytest.mark.parametrize("batches", [8, 20, 40])
def test_workers_that_wait_are_waited_for_at_the_beginning_of_short_epochs(batches):
    """All batches of the shortest are asked for at once; of the longest, some a second time."""
    found = judge_all(CAUSE, [waiting(batches)])
    rounds, last = divmod(batches - 1, found.facts.workers)
    epoch = max(100 * (rounds + 1) + 2 * (last + 1), 100 + 2 * batches)
    assert found.predicted.speedup == pytest.approx(102 * batches / epoch, rel=0.05)
    endless = judge_all(CAUSE, [waiting(None)])
    assert endless.predicted.speedup > 1.5 * found.predicted.speedup
    assert endless.predicted.low == found.predicted.low


def test_a_process_that_something_bound_to_one_core_gets_workers_on_those_it_was_given():
    """Else workers would have to share the core with the training, and bring nothing."""
    free = parted(1)
    bound = replace(free, loading=replace(free.loading, cores=1.0))
    given = add_facts(bound, {"cores_given": 2.0})
    assert not judge_all(CAUSE, [free]).facts.bound
    found = judge_all(CAUSE, [given])
    assert found.facts.bound
    assert found.predicted == judge_all(CAUSE, [free]).predicted
    assert found.predicted.speedup > judge_all(CAUSE, [bound]).predicted.speedup


def test_a_loader_that_keras_made_is_not_the_users():
    seen = parted(1)
    made = LoaderFacts(
        asked="/env/site-packages/keras/src/trainers/epoch_iterator.py(9): _enumerate_iterator"
    )
    keras = replace(seen, loading=replace(seen.loading, loaders=(made,)))
    assert judge_all(CAUSE, [seen]) is not None
    assert judge_all(CAUSE, [keras]) is None


def test_data_that_workers_may_repeat_or_cannot_have_is_told_apart():
    def told(*loaders):
        seen = parted(1)
        made = replace(seen.loading, loaders=loader_facts(*loaders))
        return judge_all(CAUSE, [replace(seen, loading=made)]).facts

    assert told({"workers": 0, "iterable": True}).undivided
    assert not told({"workers": 2, "iterable": True}, {"workers": 0}).undivided
    assert told({"workers": 0, "unfit": "x is open"}).unfit == "x is open"
    assert not told({"workers": 2, "unfit": "x is open"}, {"workers": 0}).unfit


@pytest.mark.parametrize(
    ("again", "sums", "told"),
    [(0, 1, 0), (5, 1, 5), (5, 2, None), (8, 1, None)],  # too few; too few; random; it is known
)
def test_why_no_cache_is_on_offer_is_told(again, sums, told):
    rows = np.zeros(9 + again, ROW)
    rows["index"] = [*range(9), *range(again)]
    rows["sum"][9:] = np.arange(again) % sums
    seen = parted(1)
    found = judge_all(CAUSE, [replace(seen, loading=replace(seen.loading, rows=rows))])
    values = [one.value for one in found.evidence if "repeated samples" in one.quantity]
    assert values == ([] if told is None else [told])


LOADING = (
    "/job/data.py(29): __getitem__;/lib/site-packages/torch/utils/data/fetch.py(54): fetch;"
    "/lib/site-packages/torch/utils/data/dataloader.py(785): _next_data;"
    "/job/train.py(64): main;/job/train.py(75): <module>"
)


def test_a_function_that_sleeps_is_where_the_loading_happens(tmp_path):
    """It waits for storage while it is looked at: no Python runs, but in its callers."""
    made = Imagined(tmp_path)
    for _ in range(30):
        made.load(LOADING, 60 * MS, busy=0.02)
    made.trained()
    found = finding(made.diagnose(), CAUSE)
    assert found is not None
    named = {one.quantity: one.value for one in found.evidence}
    assert named["costliest function"] == "/job/data.py(29): __getitem__"
    assert found.where[0].function == "__getitem__"


MAKING, LIB = LOADING.split(";", 1)[0], "/lib/site-packages/torch/utils/data"
NEXT = f"{LIB}/dataloader.py(785): _next_data;{LIB}/dataloader.py(725): __next__"
CALLED = "/lib/site-packages/lightning/pytorch/trainer/trainer.py(584): fit;/job/train.py(75): main"


def test_a_look_at_the_library_s_part_of_loading_is_not_where_the_loop_stands(tmp_path):
    """One call took as long as a hundred others, while the library put a batch together."""
    made = Imagined(tmp_path)
    for number in range(30):
        part = f"{LIB}/_utils/collate.py(210): collate" if number == 20 else MAKING
        made.load(f"{part};{NEXT};{CALLED}", (6000 if number == 20 else 60) * MS, busy=0.9)
    made.trained()
    found = finding(made.diagnose(), CAUSE)
    assert found is not None
    assert found.where[0].function == "__getitem__"
    assert "costliest function" not in {one.quantity for one in found.evidence}


S = "/env/lib/python3.11/site-packages/torch/utils/data/dataset.py(206): __getitem__"


def table(making=S, rows=1024):
    """Rows of a table take 4 of 6 ms, and collections that they cause another."""
    job = RecordedJob()
    collate = S.partition("dataset.py")[0] + "_utils/collate.py(335): default_collate"
    settings = {"workers": 0, "batch_size": rows, "making": making, "collating": collate}
    job.documents["loaders.json"] = {"settings": [settings], "bytes": 102_400}
    at = "/job/train.py(20): <module>"
    for _ in range(60):
        with job.call("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
            job.python(at, ms(4))
            with job.call("Python GC", HostKind.OVERHEAD):
                job.python(at, ms(1))
        job.backward(at, ms(0.5))
        job.step(at, ms(0.5))
    return job


def test_a_table_is_taken_by_one_index_for_each_batch():
    proof = judge("dataloader-no-workers", table())
    plan = catalog.load_fixes()["batched-lookup"].decide(proof)
    assert "BatchSampler(loader.sampler, loader.batch_size, loader.drop_last)" in plan.summary
    removed = proof.facts.removed
    assert removed.low <= 6 / 1.45 <= removed.high
    assert removed.high <= 1 / (1 - proof.high) * 1.001


@pytest.mark.parametrize("odd", [{"making": "/job/data.py(3): __getitem__"}, {"rows": 1}])
def test_what_is_no_table_or_has_no_batches_is_not_indexed(odd):
    assert not judge("dataloader-no-workers", table(**odd)).facts.table_rows


@pytest.mark.parametrize("kind", ["shuffled", "in order", "of two ranks"])
@pytest.mark.parametrize("drop", [False, True])
def test_one_index_for_each_batch_gives_the_same_batches(kind, drop):
    torch = pytest.importorskip("torch")
    data = torch.utils.data
    rows = data.TensorDataset(torch.randn(101, 3), torch.arange(101))
    ranks = data.DistributedSampler(rows, num_replicas=2, rank=1)
    order = {"sampler": ranks} if kind == "of two ranks" else {"shuffle": kind == "shuffled"}
    loader = data.DataLoader(rows, batch_size=8, drop_last=drop, **order)
    names = {"dataset": rows, "loader": loader}
    proposed = eval(f"DataLoader(dataset, {advice.WHOLE_BATCHES})", vars(data) | names)
    drawn = []
    for loader in (names["loader"], proposed):
        torch.manual_seed(0)
        drawn.append([batch for _ in range(2) for batch in loader] + [torch.rand(1)])
    for one, other in zip(*drawn, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


PAIRS = {
    "dataloader-no-workers": Pair(sick=lambda: job(10_000), healthy=lambda: job(10_000, workers=2))
}
