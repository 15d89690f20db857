"""Handing a patch over: its numbers must hold, and its speed is told beside what was promised."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import msgspec
import pytest
from made_arms import LOSSES, ran, telling

from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.fix.loop import patch_check
from whyidle.fix.loop.candidates import Candidate
from whyidle.fix.loop.optimize import Optimized
from whyidle.fix.loop.trial_result import TrialResult
from whyidle.fix.statistics.loss_equivalence import BaselineRuns
from whyidle.fix.statistics.speedup import SpeedupEstimate
from whyidle.model.diagnosis import Edit
from whyidle.testing.demo import job

SCRIPT = "import torch\n\ntorch.autograd.set_detect_anomaly(True)\n"
FIX = Candidate(
    "debug-mode-off",
    "debug-mode-left-on",
    "none",
    "off",
    (Edit(knob="autograd.anomaly_mode", value=False, was=True),),
    None,
    "",
)


@dataclass
class Trials:
    """Arms that are handed out in turn: patched ones, and untreated ones beside them."""

    patched: list
    base: list
    left_s: float = 100.0
    budget_s: float = 100.0
    arm_s: float = 1.0

    def __post_init__(self):
        self.command = ["python", "train.py"]
        self.listener = SimpleNamespace(show_stage=lambda _: None)
        self.remaining_job = None
        self.kept_candidates = [FIX]
        self.merged_edits = lambda *_: FIX.edits
        self.over_s = self.left_s + 0.25 * self.budget_s

    def run_trial_arm(self, edits, *, patch=None):
        found = (self.base if patch is None else self.patched).pop(0)
        if isinstance(found, BaseException):
            raise found
        return found


@pytest.fixture
def healed():
    """The fix was worth 1.5, 1.4 to 1.6."""
    gain = SpeedupEstimate(1.5, 1.4, 1.6, 2)
    base = ran(0.15).report
    found = TrialResult(FIX, kept=True, effect=gain, base_s=[0.15, 0.15], treated_s=[0.1, 0.1])
    found.untreated = {0: BaselineRuns(base, base)}
    before = diagnose_job([job().timeline()])
    before = msgspec.structs.replace(before, findings=[])
    return Optimized(before, before, [found], [FIX], [], found, 1.0, None)


def over(tmp_path, healed, trials, script=SCRIPT):
    (tmp_path / "train.py").write_text(script)
    return patch_check.hand_over(trials, healed, tmp_path)


def test_a_patch_as_fast_as_promised_is_run_once(tmp_path, healed):
    found = over(tmp_path, healed, Trials([ran(0.1)], []))
    assert found.is_writable
    assert "set_detect_anomaly(False)" in found.patch.diff
    assert found.explanation == (
        "The patched files were run once: 1.50 times as fast as before. Losses: 40 losses, "
        "bitwise equal."
    )


def test_a_slow_patch_is_run_again_beside_the_job(tmp_path, healed):
    """The machine was slow for a moment: beside the job as it is by then, it gains what it did."""
    found = over(tmp_path, healed, Trials([ran(0.16), ran(0.12)], [ran(0.3)]))
    assert found.speedup == pytest.approx(0.2 / 0.14, rel=0.01)
    assert "run twice: 1.43 times as fast as before." in found.explanation


@pytest.mark.parametrize(("pairs", "again"), [(2, False), (6, False), (1, True)])
def test_a_single_run_may_be_slower_than_the_mean_of_many(tmp_path, healed, pairs, again):
    """1.39 times as fast, where trials say 1.4 at least: of means of six pairs, or of two."""
    healed.combined_trial.effect = replace(healed.combined_trial.effect, pairs=pairs)
    trials = Trials([ran(0.108), ran(0.108)], [ran(0.15)])
    assert ("twice" in over(tmp_path, healed, trials).explanation) == again


@pytest.mark.parametrize("left_s", [100.0, -100.0])
def test_what_stays_slower_is_told_beside_what_was_promised(tmp_path, healed, left_s):
    trials = Trials([ran(0.16), ran(0.16)], [ran(0.15)], left_s=left_s)
    found = over(tmp_path, healed, trials)
    assert found.is_writable
    assert ("twice" in found.explanation) == (left_s > 0)
    assert "0.94 times as fast" in found.explanation
    assert "less than in the trials (1.50, 1.40 to 1.60)" in found.explanation


def test_ctrl_c_in_the_second_run_keeps_the_patch(tmp_path, healed):
    found = over(tmp_path, healed, Trials([ran(0.16)], [KeyboardInterrupt()]))
    assert found.is_writable
    assert "run once: 0.94" in found.explanation


FUSED = replace(
    FIX, fix="fused-optimizer", edits=(Edit(knob="optimizer.fused", value=True, was=False),)
)
CACHE = replace(
    FIX, fix="dataset-cache", edits=(Edit(knob="dataset.cache", value=True, was=False),)
)


def crashed():
    return replace(ran(0.1), ending="crashed", output_end="RuntimeError: no gradients")


def test_after_a_crash_the_patch_is_handed_over_without_the_fix_that_made_it(tmp_path, healed):
    healed.kept.append(FUSED)
    script = SCRIPT + "opt = torch.optim.SGD(p)\n"
    trials = Trials([crashed(), ran(0.12)], [])
    found = over(tmp_path, healed, trials, script)
    assert found.is_writable
    assert "set_detect_anomaly(False)" in found.patch.diff
    assert "fused" not in found.patch.diff
    (said,) = found.patch.sentences
    assert said.startswith(
        "fused-optimizer: write fused=True among the optimizer's arguments (left out, because "
    )
    assert "the patched job crashed (RuntimeError: no gradients)" in said
    assert not trials.patched
    assert "1.25 times as fast" in found.explanation
    assert "speed-up of 1.50 includes the fixes to apply by hand" in found.explanation


@pytest.mark.parametrize(
    ("more", "left_s", "runs"),
    [([crashed(), crashed()], 100.0, 0), ([ran(0.1)], -100.0, 1), ([KeyboardInterrupt()], 9.0, 0)],
    ids=["each crashes", "no time", "stopped"],
)
def test_where_no_part_of_it_is_seen_to_run_nothing_is_handed_over(
    tmp_path, healed, more, left_s, runs
):
    healed.kept.append(FUSED)
    trials = Trials([crashed(), *more], [], left_s=left_s)
    found = over(tmp_path, healed, trials, SCRIPT + "opt = torch.optim.SGD(p)\n")
    assert not found.is_writable
    assert len(trials.patched) == runs
    assert "No patch was written: the patched job crashed" in found.explanation


def test_what_is_left_to_do_by_hand_is_not_asked_of_the_patched_files(tmp_path, healed):
    """As fast as without it would be slower than the trials, which had it: that is no doubt."""
    healed.kept.append(CACHE)
    found = over(tmp_path, healed, Trials([ran(0.14)], []))
    assert found.patch.lacking == ("dataset-cache",)
    assert found.explanation == (
        "The patched files were run once: 1.07 times as fast as before; the trials' "
        "speed-up of 1.50 includes the fixes to apply by hand (dataset-cache). Losses: 40 losses, "
        "bitwise equal."
    )


def test_other_numbers_or_a_crash_hand_over_nothing(tmp_path, healed):
    other = over(tmp_path, healed, Trials([ran(0.1, losses=[2 * x for x in LOSSES])], []))
    assert not other.is_writable
    crashed = replace(ran(0.1), ending="crashed", output_end="SyntaxError: no")
    assert "SyntaxError: no" in over(tmp_path, healed, Trials([crashed], [])).explanation


def test_a_run_of_the_files_as_they_were_is_no_check(tmp_path, healed):
    """Faster or not, with the same numbers or not."""
    other = ran(0.1, losses=[2 * x for x in LOSSES])
    as_it_was = telling(other, files={str(tmp_path / "train.py"): []})
    found = over(tmp_path, healed, Trials([as_it_was], []))
    assert found.is_writable
    assert found.speedup is None
    assert found.explanation == (
        "The patch was not checked: the command loads train.py from elsewhere."
    )


def test_the_copies_are_found_as_the_trials_found_the_files(tmp_path, healed):
    told = telling(ran(0.1), files={str(tmp_path / "train.py"): [str(tmp_path)]})
    judged = replace(healed.judged[0], treats=[told])
    trials = Trials([telling(ran(0.1), files={"/copy/train.py": []})], [])
    found = over(tmp_path, replace(healed, judged=[judged]), trials)
    assert found.patch.own.folders[0] == tmp_path
    assert "1.50 times as fast" in found.explanation


def test_a_crash_that_comes_of_a_link_of_ours_keeps_the_patch(tmp_path, healed):
    said = "OSError: Cannot call rmtree on a symbolic link"
    failed = replace(ran(0.1), ending="crashed", output_end=said, failed_at_link=True)
    found = over(tmp_path, healed, Trials([failed], []))
    assert found.is_writable
    assert found.speedup is None
    assert (
        "check of the patch was aborted: the job removes or recreates a large folder"
        in found.explanation
    )
    assert f"({said})" in found.explanation


def test_what_a_trial_has_left_is_not_patched(tmp_path, healed):
    """Where each object was made goes from the arms to the patch."""
    (tmp_path / "train.py").write_text(
        "from torch.utils.data import DataLoader\na = DataLoader(x)\nb = DataLoader(y)\n"
    )
    fix = replace(FIX, edits=(Edit(knob="loader.workers", value=2, was=0),))
    there = str(tmp_path / "train.py")
    arms = [replace(ran(0.1), made={"loader.workers": {f"{there}:{n}": why}})
            for n, why in ((2, ""), (3, "because"))]  # fmt: skip
    judged = replace(healed.judged[0], candidate=fix, treats=arms)
    found = replace(healed, judged=[judged], kept=[fix], combined_trial=judged)
    handed = patch_check.hand_over(Trials([ran(0.1)], []), found, tmp_path)
    assert handed is not None
    assert [line for line in handed.patch.diff.splitlines() if line[0] == "+"][1:] == [
        "+a = DataLoader(x, num_workers=2)"
    ]
    assert "line 3 was left as it is in the trials: because" in handed.patch.sentences[0]


def test_a_run_without_room_keeps_the_patch(tmp_path, healed):
    full = replace(ran(0.1), ending="full", full="the disk filled up")
    found = over(tmp_path, healed, Trials([full], []))
    assert found.is_writable
    assert found.explanation == "The check of the patch was aborted: the disk filled up."
