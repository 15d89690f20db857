"""What the fixes edit, when they decline, and what they never propose."""

import pytest
from family_facts import facts_of

from whyidle import catalog
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Predicted
from whyidle.model.proof_facts import ProofFacts

GAIN = Predicted(speedup=1.2, low=1.1, high=1.4, method="")


def proof(facts: ProofFacts) -> Proof:
    return Proof("Something costs", GAIN, (), facts=facts)


def plan(fix: str, **facts: object):
    return catalog.load_fixes()[fix].decide(proof(facts_of(fix, **facts)))


def knobs(fix: str, **facts: object) -> dict[str, object]:
    return {edit.knob: edit.value for edit in plan(fix, **facts).edits}


def test_workers_are_set_as_many_as_needed():
    assert knobs("loader-workers", workers=5)["loader.workers"] == 5
    assert plan("loader-workers", workers=5).automatic
    assert knobs("loader-workers", workers=1)["loader.workers"] == 2


def test_workers_are_left_to_people_where_their_number_or_safety_is_unknown():
    assert "loader.full_affinity" not in knobs("loader-workers", workers=4)
    assert knobs("loader-workers", workers=4, bound=True)["loader.full_affinity"] is True
    assert not plan("loader-workers", workers=None).automatic
    assert not plan("loader-workers", workers=4, device_work=True).automatic


def test_of_data_that_several_workers_may_repeat_one_is_among_the_first_numbers_to_try():
    def numbers(**facts):
        return plan("loader-workers", workers=4, most_workers=8, **facts).edits[0].among

    assert numbers() == (4, 8, 2, 1)
    assert numbers(undivided=True) == (4, 1, 8, 2)


def test_pinning_happens_in_the_loader_only():
    edits = knobs("pinned-copies", without_overlap=0.2)
    assert edits == {"loader.pin_memory": True, "copy.non_blocking": True}
    assert plan("pinned-copies", without_overlap=0.2).predicted.speedup == pytest.approx(1.25)


def test_prefetching_needs_copies_to_hide():
    assert plan("device-prefetch", exposed=0.0) is None
    assert not plan("device-prefetch", exposed=0.2).automatic


def test_asked_for_and_automatic_collections_have_their_own_fix():
    rarer = Predicted(speedup=1.1, low=1.0, high=1.2, method="")
    assert knobs("gc-freeze", explicit=True, left_over=0.2) == {"gc.freeze": True}  # calls go on
    assert plan("gc-freeze", explicit=True, left_over=0.01) is None  # rarer calls are enough
    assert plan("gc-thinned", explicit=False) is None
    assert plan("gc-thinned", explicit=True, thinned=None) is None  # rare already
    assert knobs("gc-freeze", explicit=False)["gc.collect_interval_steps"] > 1
    assert knobs("gc-thinned", explicit=True, thinned=rarer)["gc.collect_interval_steps"] > 1
    assert plan("gc-thinned", explicit=True, thinned=rarer).predicted == rarer


def test_work_is_not_moved_to_a_busy_gpu():
    assert "GPU" in plan("cheaper-transforms", compute=0.3).summary
    assert "GPU" not in plan("cheaper-transforms", compute=0.9).summary


@pytest.mark.parametrize(("facts", "logs"), [({}, False), ({"tracker": False}, True)])
def test_only_what_logs_is_told_of_histograms(facts, logs):
    assert ("histograms" in plan("fewer-reports", **facts).summary) == logs


def test_a_wait_of_which_only_the_line_is_known_is_not_called_logging():
    assert plan("fewer-reports").summary.startswith("see what the call")
    assert plan("fewer-reports", tracker=False).summary.startswith("log every fiftieth step")


def test_samples_that_workers_would_repeat_have_to_be_divided_first():
    assert "its own part" in plan("loader-workers", workers=2, undivided=True).summary
    assert "its own part" not in plan("loader-workers", workers=2).summary


def test_data_that_workers_cannot_have_is_left_to_its_owner():
    assert plan("loader-workers", workers=2).automatic
    held = plan("loader-workers", workers=2, unfit="dataset.db is open: open it in each worker")
    assert not held.automatic
    assert "dataset.db is open: open it in each worker; then {edits}" in held.summary


def test_evaluations_are_thinned_only_where_they_are_seen_to_recur():
    rarer = Predicted(speedup=1.3, low=1.1, high=1.4, method="")
    made = plan("rarer-evaluation", rarer=rarer)
    assert made.predicted is rarer
    assert not made.automatic
    assert plan("rarer-evaluation", rarer=None) is None


def test_larger_evaluations_are_left_to_people():
    for batches in (True, False):
        advice = plan("larger-evaluation", batches=batches)
        assert ("with 4 times the batch" in advice.summary) == batches
        assert set(knobs("larger-evaluation", batches=batches)) == (
            {"evaluation.batch_factor"} if batches else set()
        )
        assert not advice.automatic


def test_an_evaluation_that_may_record_a_graph_is_asked_not_to():
    spared = Predicted(speedup=1.1, low=1.0, high=1.2, method="")
    made = plan("evaluate-without-gradients", without_graph=spared)
    assert [edit.knob for edit in made.edits] == ["evaluation.gradients"]
    assert made.predicted is spared
    assert plan("evaluate-without-gradients", without_graph=None) is None


def test_what_seconds_of_a_trial_cannot_show_is_left_to_people():
    assert plan("debug-mode-off", mode="anomaly_mode").automatic
    assert not plan("debug-mode-off", mode="deterministic").automatic
    assert plan("ddp-bucket-view", copies=True, walks=True) is not None
    assert plan("ddp-bucket-view", walks=True) is None
    assert plan("ddp-find-unused-off", walks=True, all_used=True) is not None
    assert plan("ddp-find-unused-off", walks=True) is not None
    assert plan("ddp-static-graph", walks=True) is not None
    assert plan("ddp-static-graph", walks=True, all_used=True) is None


def test_padding_is_cut_off_where_a_mask_tells_of_it():
    assert not plan("pad-to-longest", beyond_longest=0.5, expected=0.2).automatic
    assert plan("pad-to-longest", beyond_longest=0.05, expected=0.2) is None


def test_background_reports_are_advised_for_trackers_only():
    assert "thread" in plan("background-reports", tracker=True).summary
    assert "mlflow" in plan("background-reports", tracker=True, mlflow=True).summary
    assert plan("background-reports", tracker=False) is None


def test_a_loader_whose_wait_workers_hide_need_not_become_cheaper():
    assert plan("cheaper-transforms", hidden_by_workers=True) is None
    assert plan("cheaper-transforms", cheaper=GAIN).predicted == GAIN


def test_python_of_the_user_s_own_is_not_told_to_decode():
    told = plan("whole-arrays", media=False, function="train.py(9): collate").summary
    assert "make collate cheaper" in told
    assert plan("cheaper-transforms", media=False) is None
    assert plan("whole-arrays", media=False, hidden_by_workers=True) is None


@pytest.mark.parametrize("media", [True, None])
def test_what_decodes_is_not_told_to_work_on_whole_arrays(media):
    assert ("decode" in plan("cheaper-transforms", media=media).summary) == bool(media)
    assert plan("whole-arrays", media=media) is None


@pytest.mark.parametrize("waits", [True, False])
def test_more_workers_than_cores_are_explained_where_they_wait(waits):
    told = plan("loader-workers", workers=12, waits=waits).summary
    assert ("loading mostly waits, so workers may outnumber cores" in told) is waits
