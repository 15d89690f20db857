"""What fix says and leaves behind, with trials that are made up."""

import argparse
import shlex

import msgspec
import pytest

from whyidle.cli import _app
from whyidle.cli import fix as verb
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.fix import executor
from whyidle.fix.loop import optimize, patch_check
from whyidle.fix.loop.candidates import Candidate
from whyidle.fix.loop.optimize import STOPPED, Optimized
from whyidle.fix.loop.patch_check import PatchCheck
from whyidle.fix.loop.trial_result import TrialResult
from whyidle.fix.patching.source_patch import SourcePatch
from whyidle.fix.patching.user_files import UserFiles
from whyidle.fix.statistics.speedup import SpeedupEstimate
from whyidle.fix.statistics.startup_cost import RemainingJob
from whyidle.model.diagnosis import Edit
from whyidle.testing.demo import job

FIX = Candidate(
    "loader-workers",
    "dataloader-no-workers",
    "rounding",
    "give it workers",
    (Edit(knob="loader.workers", value=4, was=0),),
    None,
    "",
)


class Engine:
    def executor_notes(self):
        return []

    def close(self):
        pass


@pytest.fixture
def fix(monkeypatch, capsys):
    """Run the command with an outcome in place of trials."""
    seen = diagnose_job([job(loader_ms=42.0).timeline()])

    def run(*options, stopped=None, enough_s=None, error=None, handed=None, ranks=1, **device):
        def fixed(_):
            if error is not None:
                raise error
            gain = SpeedupEstimate(2.0, 1.8, 2.2, 2)
            one = TrialResult(
                FIX, kept=True, effect=gain, base_s=[0.072, 0.072], treated_s=[0.036, 0.036]
            )
            before = msgspec.structs.replace(
                seen,
                trials=[],
                coverage=msgspec.structs.replace(seen.coverage, notes=[]),
                run=msgspec.structs.replace(seen.run, ranks=ranks),
                device=msgspec.structs.replace(seen.device, **device),
            )
            return Optimized(before, before, [one], [FIX], [], one, 1.0, stopped, enough_s)

        monkeypatch.setattr(optimize, "optimize", fixed)
        monkeypatch.setattr(executor, "start_executor", lambda *_: Engine())
        monkeypatch.setattr(patch_check, "hand_over", lambda *_: handed)
        status = _app.run(["fix", *options, "python", "train.py"])
        return status, capsys.readouterr()

    return run


def test_the_plan_is_told_and_how_to_use_it(fix, tmp_path):
    status, told = fix("--write-plan", "my plan.toml")
    assert status == 0
    assert (tmp_path / "my plan.toml").is_file()
    assert "wrote my plan.toml" in told.err
    assert "whyidle run --plan 'my plan.toml' python train.py" in told.out


def test_what_there_was_no_time_for_is_proposed_with_more(fix):
    _, told = fix("--allow", "numerics", enough_s=240.0)
    assert "whyidle fix --budget 4m --allow numerics python train.py" in " ".join(told.out.split())
    assert "whyidle fix" not in fix()[1].out


@pytest.mark.parametrize("ends", [[], ["--"]], ids=["", "--"])
@pytest.mark.parametrize("budget", [["--budget", "2m"], ["--budget=2m"], []])
def test_it_is_proposed_with_all_that_was_typed_but_the_budget(fix, budget, ends):
    typed = ["--left", "6h", *budget, "--network", "-y", "--engine", "ray", "--resources=cpu=2"]
    typed += ["--price", "3", "--html", "my page.html", "--no-store"]
    _, told = fix(*typed, *ends, enough_s=240.0)
    kept = [word for word in typed if word not in budget]
    words = shlex.join(["whyidle", "fix", "--budget", "4m", *kept, "python", "train.py"])
    assert words in " ".join(told.out.split())


@pytest.mark.parametrize(("count", "ranks"), [(4, 1), (0, 4), (2, 4)])
def test_money_is_told_of_all_gpus(fix, count, ranks):
    out = " ".join(fix("--price", "3", kind="cuda", count=count, ranks=ranks)[1].out.split())
    assert "saves 50 of every 100 hours of this job (600.00 at 12.00 per hour)" in out
    assert "--price has no effect" not in out


@pytest.mark.parametrize("ranks", [1, 4])
def test_without_a_gpu_no_money_is_told_and_why(fix, ranks):
    out = " ".join(fix("--price", "3", kind="cpu", count=0, ranks=ranks)[1].out.split())
    assert "saves 50 of every 100 hours of this job" in out
    assert "an hour," not in out.replace("what a GPU costs an hour,", "")
    assert "3.00" not in out
    assert "this job uses no GPU" in out
    assert "--price has no effect" not in fix(kind="cpu", count=0)[1].out


def test_ctrl_c_is_an_exit_status_and_keeps_what_is_proven(fix, tmp_path):
    status, told = fix(stopped=STOPPED)
    assert status == 130
    assert "FIXED" in told.out
    assert (tmp_path / "plan.toml").is_file()
    assert fix(stopped="no time")[0] == 0


def test_ctrl_c_before_the_first_trial_is_said(fix, tmp_path):
    status, told = fix(error=KeyboardInterrupt())
    assert status == 130
    assert "interrupted before the first trial" in told.err
    assert told.out == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90.0), ("90s", 90.0), ("5m", 300.0), ("1.5h", 5400.0), ("1d", 86400.0)],
)
def test_lengths_of_time_are_a_number_and_a_unit(text, seconds):
    assert verb._parse_budget(text) == seconds
    assert verb._parse_left(text) == (
        RemainingJob(steps=90.0) if text == "90" else RemainingJob(seconds=seconds)
    )


@pytest.mark.parametrize(
    "text", ["50ms", "5sm", "s", "", "m5", "5 minutes", "nan", "1e400h", "-5m"]
)
def test_what_is_no_length_of_time_is_told_with_the_forms_that_are(fix, text):
    for option, read in (("--budget", verb._parse_budget), ("--left", verb._parse_left)):
        with pytest.raises(argparse.ArgumentTypeError):
            read(text)
        status, told = fix(f"{option}={text}")
        assert status == 2
        assert repr(text) in told.err
        assert "a number with the unit s, m, h or d, such as 90s, 5m, 1.5h" in told.err


def test_the_document_is_named_by_the_run_that_is_kept(fix, tmp_path, capsys):
    fix("--json", str(tmp_path / "fix.json"))
    told = msgspec.json.decode((tmp_path / "fix.json").read_bytes())
    assert _app.run(["report", told["run"]["id"], "--json", "-"]) == 0
    assert msgspec.json.decode(capsys.readouterr().out)["run"]["id"] == told["run"]["id"]
    fixed = told["detail"]["fixed"]["run"]
    assert _app.run(["report", fixed, "--json", "-"]) == 0
    assert msgspec.json.decode(capsys.readouterr().out)["run"]["id"] == fixed


def test_the_page_holds_the_patch_and_the_commands(fix, tmp_path):
    patch = SourcePatch("--- train.py\n", {}, (), UserFiles(tmp_path, (), None, (), ()))
    fix("--html", "fix.html", handed=PatchCheck(patch, None, "", is_writable=True))
    page = (tmp_path / "fix.html").read_text(encoding="utf-8").replace("\xa0", " ")
    for text in ("--- train.py", "git apply", "whyidle run --plan plan.toml", "72.0 ms → 36.0 ms"):
        assert text in page
