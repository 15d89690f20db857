"""What must not be proposed blindly, and what every fix can be applied as.

Pinning in the training loop, streams without shards and open files in workers are declined where a
fix is applied: ``tests/probe/knobs``.
"""

import functools
from dataclasses import replace
from itertools import product

import pytest
from family_facts import among, kinds_of

from docs import fixes_page
from whyidle import catalog
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.diagnosis.fix_instructions import by_hand, summarize_edits
from whyidle.fixes.host.debug_mode_off import ADVICE, SWITCHES
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Predicted
from whyidle.model.knobs import KNOBS, setting_problem
from whyidle.model.proof_facts import DeviceFacts, InputFacts
from whyidle.testing.builder import Builder, ms, us

PREDICTED = Predicted(speedup=1.2, low=1.1, high=1.4, method="")
USUAL = {
    "workers": 4,
    "was": 0,
    "threads": 8,
    "prefetch": 8,
    "compiler": True,
    "exposed": 0.2,
    "without_overlap": 0.2,
    "compute": 0.3,
    "copies": True,
    "walks": True,
    "kinds": {"all_reduce": 1.0},
    "launches": 1e5,
    "scalar": True,
    "table": True,
    "parts": True,
    "beyond_longest": 0.5,
    "expected": 0.2,
    "rarer": PREDICTED,
    "interval_s": (1.0, 90.0),
    "compressed": PREDICTED,
    "type": "float images",
    "fragmented": True,
    "used": 1,
    "rank": 1,
    "same_again": True,
    "cached": PREDICTED,
    "leading": PREDICTED,
    "tracker": True,
    "passes": 8,
    "decodes": True,
    "microbatch": (4, PREDICTED),
    "forms": dict.fromkeys(("rounding", "numerics", "convergence"), ("bfloat16", PREDICTED)),
}
VARIANTS = [
    {
        "explicit": flag,
        "thinned": PREDICTED if flag else None,
        "left_over": 0.2,
        "gradients": flag,
        "emptied": flag,
        "hidden": flag,
        "on_cpu": flag,
        "media": flag,
        "mode": mode,
        "benchmark": flag,
        "threads": 1 if flag else 8,
        "main": None if flag else 2,
        "all_used": flag,
        "traced": flag,
        "renewed": "function" if flag else "",
        "called": "fit" if flag else "",
        "switched": flag,
        "waits": flag,
        "line": "train.py:19" if flag else "",
        **size,
    }
    | ({"own": 2} if flag else {})
    for flag, mode, size in product(
        (False, True),
        (*SWITCHES, *ADVICE, "jax_disable_jit", "narrow_cpu"),
        (
            {"calls": 100.0, "mean_bytes": 1e4, "purpose": "metrics"},
            {"calls": 4.0, "mean_bytes": 5e8, "purpose": "norms"},
            {"calls": 4.0, "mean_bytes": 5e8, "storage": "h5py", "purpose": "logging"},
            {"calls": 4.0, "mean_bytes": 5e8, "purpose": "backward"},
            {"removed": PREDICTED, "looped": True, "per_sample": True},
            {"removed": PREDICTED, "looped": True},
            {"removed": PREDICTED, "kind": "text"},
            {"removed": PREDICTED, "in_memory": True, "double": True},
            {"library": "datasets", "conversion": "objects", "converted": PREDICTED},
            {"library": "grain", "conversion": "rows", "converted": PREDICTED},
            {"library": "grain", "beside": PREDICTED},
            {"kinds": {"combine": 1.0}},
            {"kinds": {"all_gather": 1.0}, "gathered_once": PREDICTED},
            {"all_used": False, "same_unused": True},
            {"pipeline": "python"},
            {"pipeline": "rows"},
            {"pipeline": "operators", "shuffled": True},
            {"recompute": "blocks.0,blocks.1", "again": 0.1},
            {"layer": "LSTM"},
        ),
    )
]


@functools.cache
def proofs_of(kind):
    """Of every situation that differs in what this class of facts has fields for, one."""
    facts = [among(kind, USUAL | one) for one in VARIANTS]
    told = {repr(each): kind(**each) for each in facts}
    return [Proof("It costs", PREDICTED, (), facts=each) for each in told.values()]


@functools.cache
def plans(name):
    """All that a fix proposes in many situations."""
    decide = catalog.load_fixes()[name].decide
    found = [decide(proof) for kind in kinds_of(name) for proof in proofs_of(kind)]
    return [plan for plan in found if plan is not None]


def edits(name):
    return {(edit.knob, edit.value) for plan in plans(name) for edit in plan.edits}


def every_plan():
    return [(name, plan) for name in catalog.load_fixes() for plan in plans(name)]


@functools.cache
def page():
    """What is applied and what is advice, on the page of fixes."""
    return fixes_page.fixes_page().split("## Advice")


@functools.cache
def every_edit():
    return {(edit.knob, edit.value) for _, plan in every_plan() for edit in plan.edits}


@pytest.mark.parametrize("name", catalog.load_fixes())
def test_every_fix_can_be_applied_or_says_why_not(name):
    assert plans(name), "no situation is known in which it proposes anything"
    for plan in plans(name):
        assert plan.summary or summarize_edits(plan.edits)
        for edit in plan.edits:
            assert edit.value is None or not setting_problem(edit.knob, edit.value)
        if plan.automatic:
            assert plan.edits
        if plan.edits and not plan.automatic:
            assert plan.risk


@pytest.mark.parametrize("name", catalog.load_fixes())
def test_the_page_of_fixes_says_who_applies_it(name):
    applied, people = page()
    sets = [
        plan.automatic and any(not catalog.find_knob(edit.knob).by_people for edit in plan.edits)
        for plan in plans(name)
    ]
    assert (f"| `{name}` |" in applied) == any(sets)
    assert (f"| `{name}` |" in people) == (not any(sets))


def test_the_page_of_fixes_promises_no_patch_of_what_is_not_applied():
    applied, people = page()
    assert "| yes |" in applied
    assert "| `cuda-graphs` |" in people
    assert "| yes |" not in people


def test_what_changes_what_people_see_is_theirs():
    for knob in (
        "logging.interval_factor",
        "callbacks.every",
        "checkpoint.interval_factor",
    ):
        assert KNOBS[knob].by_people
        assert any(knob == each for each, _ in every_edit())


def test_nothing_is_padded_to_a_maximum():
    padded = {value for knob, value in every_edit() if knob.startswith("collate.")}
    assert padded == {"longest", "powers of two"}


def test_graphs_are_not_captured_where_shapes_may_vary():
    assert edits("cuda-graphs") == {("model.compile_mode", "reduce-overhead")}
    assert not any(plan.automatic for plan in plans("cuda-graphs"))


def test_no_search_for_algorithms_is_switched_on_where_shapes_are_new():
    """That they never are is what the cause has proven where it says that it is off."""
    decide = catalog.load_fixes()["cudnn-benchmark"].decide
    for on in (True, False):
        plan = decide(Proof("It costs", PREDICTED, (), facts=DeviceFacts(benchmark=on)))
        assert [edit.value for edit in plan.edits] == [not on]


def test_caches_are_emptied_and_garbage_is_collected_rarely():
    for knob in ("memory.empty_cache_every", "gc.collect_interval_steps"):
        assert min(value for each, value in every_edit() if each == knob) >= 50


def test_shards_are_for_storage_that_waits_for_each_file():
    assert catalog.load_fixes()["sharded-data"].causes == ("small-file-random-io",)
    assert not any(plan.automatic for plan in plans("sharded-data"))


def epochs(starting: int):
    """A job that starts workers at every third step, which takes so long."""
    made = Builder()
    for step in range(9):
        with made.step(), made.span("/home/u/train.py(20): main", "python_function"):
            if step % 3 == 2:
                with made.span("torch/utils/data/dataloader.py(480): __iter__", "python_function"):
                    made.python("multiprocessing/process.py(110): start", us(20))
                    made.quiet(starting)
            for _ in range(20):
                made.op("aten::mm", kernels=[("ampere_bf16_s16816gemm", us(500))])
            made.sync()
    return diagnose_job([made.timeline()])


def stays(fix):
    return any(edit.knob == "loader.persistent_workers" for edit in fix.edits)


def test_workers_that_stay_are_proposed_for_restarts_alone():
    """By themselves they win what starting workers was seen to cost, and promise no more."""
    assert catalog.load_fixes()["persistent-workers"].causes == ("worker-restart-per-epoch",)
    alone = {
        name
        for name, plan in every_plan()
        if stays(plan) and plan.automatic
        and not any(edit.knob == "loader.workers" for edit in plan.edits)
    }  # fmt: skip
    assert alone == {"persistent-workers"}
    assert all(plan.predicted is None for plan in plans("persistent-workers"))


def test_workers_that_stay_are_no_speed_up_where_they_start_for_nothing():
    """As on Linux, where they are forked."""
    fixes = [fix for finding in epochs(us(20)).findings for fix in finding.fixes]
    assert not any(map(stays, fixes))
    (finding,) = [one for one in epochs(ms(10)).findings if any(map(stays, one.fixes))]
    (fix,) = filter(stays, finding.fixes)
    assert finding.cause == "worker-restart-per-epoch"
    assert 0 < 1 - 1 / fix.predicted.speedup <= finding.lost.high


def test_a_larger_global_batch_needs_consent_and_brings_its_learning_rate():
    assert catalog.load_fixes()["larger-batch"].consent == "convergence"
    assert edits("larger-batch") == {
        ("loader.batch_size_times", 2),
        ("optimizer.scale_learning_rate", True),
    }


@pytest.mark.parametrize(
    ("batch", "ranks", "large"),
    [(256, 8, True), (2048, 1, True), (255, 8, False), (2047, 1, False), (None, 64, False)],
)
def test_batches_of_many_thousands_want_layer_wise_learning_rates(batch, ranks, large):
    """8,192 samples of all ranks are where Goyal et al. (2017) stop and You et al. (2017) begin."""
    facts = DeviceFacts(times=4, batch=batch, ranks=ranks)
    plan = catalog.load_fixes()["larger-batch"].decide(
        Proof("It costs", PREDICTED, (), facts=facts)
    )
    assert ("8,192 samples per step over all ranks" in plan.risk) == large
    assert ("LARS" in plan.risk and "LAMB" in plan.risk) == large


def test_activations_are_never_recomputed_to_go_faster():
    assert ("model.checkpointing", False) in every_edit()
    assert ("model.checkpointing", True) not in every_edit()


def test_a_fused_optimizer_promises_what_its_cause_measured():
    assert all(plan.predicted is None for plan in plans("fused-optimizer"))


TO_THE_DEVICE = {"pageable-h2d-copy", "blocking-h2d-copy", "oversized-or-fragmented-h2d"}


def test_copies_back_to_the_host_are_never_left_unwaited_for():
    """Where a wait for the host's side is what costs, only a person may leave it out, who is told
    what has to be waited for instead."""
    unwaited = {name for name, plan in every_plan() if ("copy.non_blocking", True) in
                {(edit.knob, edit.value) for edit in plan.edits}}  # fmt: skip
    assert unwaited
    for name in unwaited:
        assert set(catalog.load_fixes()[name].causes) <= TO_THE_DEVICE
    for name, plan in every_plan():
        if "non_blocking" in plan.summary and name not in unwaited:
            assert not plan.automatic
            assert not plan.edits
            assert "until its event has passed" in plan.risk


def test_a_cache_needs_samples_that_were_seen_to_be_the_same():
    decide = catalog.load_fixes()["cached-preprocessing"].decide
    seen = Proof("It costs", PREDICTED, (), facts=InputFacts(same_again=False))
    assert decide(seen) is None
    led = decide(replace(seen, facts=InputFacts(same_again=False, leading=PREDICTED)))
    assert led is not None
    assert led.predicted == PREDICTED
    assert "random transform" in led.summary
    assert not led.automatic
    assert edits("cached-preprocessing") == {("dataset.cache", True)}


def test_another_order_of_samples_needs_consent():
    assert catalog.load_fixes()["batch-by-length"].consent == "convergence"


def test_evaluation_is_told_as_it_is_applied():
    """What a model keeps from ``inference_mode`` could not be trained on."""
    for plan in plans("evaluate-without-gradients"):
        assert "torch.set_grad_enabled(False)" in summarize_edits(plan.edits)
        written = [by_hand(edit.knob, edit.value) for edit in plan.edits]
        assert any("grad" in one for one in written)
        assert not any("inference_mode" in one for one in (plan.summary, *written))
