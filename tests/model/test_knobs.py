"""Every knob that a fix turns is in the vocabulary, with a setting of the right kind."""

import importlib
import re
from pathlib import Path

import pytest

import whyidle
from whyidle import catalog
from whyidle.diagnosis.fix_instructions import by_hand, word_fixes
from whyidle.fixes.host.debug_mode_off import SWITCHES
from whyidle.model.diagnosis import Edit, Finding, Interval, ProposedFix
from whyidle.model.knobs import KNOBS, setting_problem

WORDS = {
    folder: importlib.import_module(f"whyidle.frameworks.{folder}.wording")
    for folder in ("torch", "tensorflow", "jax")
}
FOLDER = Path(whyidle.__file__).parent / "fixes"
TEXT = "\n".join(path.read_text(encoding="utf-8") for path in FOLDER.rglob("*.py"))
NAMED = set(re.findall(r'knob=f?"([a-z0-9_.A-Z{}]+)"', TEXT)) | {
    each[0] for each in SWITCHES.values()
}


def test_fixes_and_vocabulary_name_the_same_knobs():
    named = {name for name in NAMED if not name.startswith("env.")} - {"optimizer.{switch}"}
    assert named | {"optimizer.fused", "optimizer.foreach"} == set(KNOBS)


@pytest.mark.parametrize("name", KNOBS)
def test_what_a_person_writes_holds_the_setting(name):
    kind = KNOBS[name].kind
    said = by_hand(name, kind(4))
    assert said.startswith("write ")
    assert "{" not in said
    assert not said.endswith(".")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("evaluation.gradients", False, "torch.set_grad_enabled(False)"),
        ("model.checkpointing", False, "gradient_checkpointing=False"),
        ("autocast.grad_scaler", True, "torch.amp.GradScaler(enabled=True)"),
        ("ddp.no_sync", 4, "forward and backward pass"),
    ],
)
def test_a_person_gets_words_that_can_be_written(name, value, said):
    assert said in by_hand(name, value)


def test_words_are_of_knobs_and_fixes_that_exist():
    for folder, words in WORDS.items():
        assert set(words.BY_HAND) <= set(KNOBS), folder
        assert set(getattr(words, "PATCHED", ())) <= set(KNOBS), folder
        assert set(getattr(words, "FIXES", ())) <= set(catalog.load_fixes()), folder


@pytest.mark.parametrize("name", KNOBS)
def test_every_knob_is_of_a_subject_and_is_worded(name):
    subjects = set(KNOBS[name].subjects)
    assert subjects
    assert KNOBS[name].wording or name in WORDS["torch"].BY_HAND
    assert set(KNOBS[name].by_hand_in) <= subjects


@pytest.mark.parametrize(
    ("framework", "said"),
    [
        (
            "pytorch",
            "set up; then DataLoader(..., num_workers=4, pin_memory=True) "
            "(`with model.no_sync():`)",
        ),
        (
            "another",
            "set up; then DataLoader(..., num_workers=4, pin_memory=True)",
        ),
    ],
)
def test_a_fix_is_worded_for_the_framework_of_the_job(framework, said):
    edits = [Edit(knob="loader.workers", value=4), Edit(knob="loader.pin_memory", value=True)]
    fix = ProposedFix(
        fix="no-sync-accumulation", summary="set up; then {edits}", edits=edits, consent="none",
        automatic=True, predicted=None, risk="",
    )  # fmt: skip
    finding = Finding(
        cause="some", family="input", bucket="input", severity="info", headline="", where=[],
        lost=Interval(low=0.0, high=0.1), confidence=1.0, evidence=[], fixes=[fix],
    )  # fmt: skip
    (worded,) = word_fixes(finding, framework).fixes
    assert worded.summary == said


def test_a_knob_without_words_of_the_framework_is_written_as_declared():
    assert by_hand("loader.workers", 4, "jax") == "write DataLoader(..., num_workers=4)"
    assert by_hand("gc.freeze", True, "another").startswith("write gc.collect() and gc.freeze()")


def test_a_variable_is_exported():
    assert by_hand("env.A_B", "1") == "export A_B=1 before the command"


@pytest.mark.parametrize(
    ("name", "value"),
    [("loader.workers", 4), ("loader.batch_size_times", 2), ("loader.batch_size_times", 1.5),
     ("gc.freeze", True), ("matmul.precision", "high"), ("env.X", "")],
)  # fmt: skip
def test_good_settings(name, value):
    assert setting_problem(name, value) == ""


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("loader.workers", "4", "a whole number"),
        ("loader.workers", True, "a whole number"),
        ("loader.workers", 1.0, "a whole number"),
        ("loader.workers", -1, "cannot be -1: it must be at least 0."),
        ("loader.workers", 100_000, "at most 1024"),
        ("loader.prefetch_factor", 0, "cannot be 0: it must be at least 1."),
        ("torch.num_threads", 0, "at least 1"),
        ("memory.empty_cache_every", 0, "at least 1"),
        ("loader.batch_size_times", 0.0, "at least 0.01"),
        ("loader.batch_size_times", float("nan"), "cannot be nan"),
        ("gc.freeze", 1, "true or false"),
        ("env.X", 1, "text"),
        ("env.", "1", "not name a variable"),
        ("loader.worker", 1, "Did you mean 'loader.workers'?"),
        ("loader.speed", 1, "Known: loader.batch_size_times, "),
        ("xyz", 1, "There is no setting"),
        ("matmul.precision", "hgih", "takes 'highest' or 'high' or 'medium', not 'hgih'"),
    ],
)
def test_bad_settings_are_told(name, value, said):
    assert said in setting_problem(name, value)
