"""The callbacks in real trainings of their frameworks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from own_sgd import OWN_SGD

from whyidle import integrations
from whyidle.errors import MissingExtraError

pytest.importorskip("torch")

LIGHTNING = """
import json, sys, time, torch, lightning, whyidle
from whyidle.integrations import LightningCallback

class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 160
    def __getitem__(self, index):
        time.sleep(0.004)
        return torch.randn(8)

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch, index):
        if len(sys.argv) > 1 and index == 30:
            raise RuntimeError("the job fails")
        return self.layer(batch).square().mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())

told = LightningCallback(html="why.html", profile="off")
quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False)
trainer = lightning.Trainer(
    max_epochs=1, accelerator="cpu", accumulate_grad_batches=2, callbacks=[told], **quiet
)
try:
    trainer.fit(Module(), torch.utils.data.DataLoader(Slow(), batch_size=2))
except RuntimeError as error:
    print(error)
d = told.diagnosis
print(json.dumps(d and [d.verdict.state, d.steps.detected_by, d.steps.count + d.steps.warmup,
                        d.findings[0].cause, d.run.exit_status]))
"""

TRANSFORMERS = """
import json, sys, tempfile, time, torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
from whyidle.integrations import TrainerCallback

class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 160
    def __getitem__(self, index):
        time.sleep(0.01)
        return {"input_ids": torch.arange(16), "labels": torch.tensor(index % 2)}

sizes = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)
model = BertForSequenceClassification(BertConfig(vocab_size=100, **sizes))
arguments = TrainingArguments(
    tempfile.mkdtemp(), per_device_train_batch_size=2, gradient_accumulation_steps=2,
    num_train_epochs=1, report_to=[], use_cpu=True, save_strategy="no", disable_tqdm=True,
)
told = TrainerCallback(html="why.html", profile="off")
Trainer(model, arguments, train_dataset=Slow(), callbacks=[told]).train()
d = told.diagnosis
print(json.dumps(d and [d.verdict.state, d.steps.detected_by, d.steps.count + d.steps.warmup,
                        d.findings[0].cause, d.run.exit_status]))
"""
JOBS = pytest.mark.parametrize(
    ("package", "job"),
    [("lightning", LIGHTNING), ("transformers", TRANSFORMERS)],
    ids=["lightning", "transformers"],
)


def run_job(
    folder: Path, job: str, *arguments: str, before: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    script = folder / "job.py"
    script.write_text(job)
    return subprocess.run(
        [*before, sys.executable, script, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        timeout=300,
    )


@JOBS
def test_a_training_reports_and_stores_its_diagnosis(package: str, job: str, tmp_path: Path):
    pytest.importorskip(package, reason=f"the extra {package!r} is not installed")
    done = run_job(tmp_path, job)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found[1:] == ["whyidle.step", 40, "dataloader-no-workers", 0]
    assert found[0].upper() in done.stderr
    assert (tmp_path / "why.html").read_text().startswith("<!doctype html>")
    assert len(list((tmp_path / ".whyidle" / "runs").glob("*/diagnosis.json"))) == 1


@JOBS
def test_under_whyidle_run_it_only_marks_steps(package: str, job: str, tmp_path: Path):
    pytest.importorskip(package, reason=f"the extra {package!r} is not installed")
    outer = (sys.executable, "-m", "whyidle", "run", "--profile", "off", "--json", "why.json", "--")
    done = run_job(tmp_path, job, before=outer)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) is None
    document = json.loads((tmp_path / "why.json").read_text())
    assert document["steps"]["detected_by"] == "whyidle.step"
    assert document["steps"]["count"] + document["steps"]["warmup"] == 40


def test_a_training_that_fails_is_diagnosed_until_there(tmp_path: Path):
    pytest.importorskip("lightning", reason="the extra 'lightning' is not installed")
    done = run_job(tmp_path, LIGHTNING, "fail")
    assert "the job fails" in done.stdout
    _, detected, steps, cause, status = json.loads(done.stdout.splitlines()[-1])
    assert (detected, steps, cause, status) == ("whyidle.step", 15, "dataloader-no-workers", 1)


@pytest.mark.parametrize(
    ("name", "missing", "extra"),
    [
        ("LightningCallback", ("lightning", "pytorch_lightning"), "whyidle[lightning]"),
        ("TrainerCallback", ("transformers",), "whyidle[transformers]"),
    ],
)
def test_without_the_framework_the_extra_is_named(
    name: str, missing: tuple[str, ...], extra: str, monkeypatch: pytest.MonkeyPatch
):
    for package in missing:
        for loaded in [each for each in sys.modules if each.partition(".")[0] == package]:
            monkeypatch.delitem(sys.modules, loaded)
        monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"whyidle.integrations.{missing[0]}", raising=False)
    with pytest.raises(MissingExtraError) as error:
        getattr(integrations, name)
    assert extra in error.value.hint


OPTUNA = """
import json, time, optuna
from whyidle.integrations import WatchedObjective

def objective(trial):
    data = torch.utils.data.TensorDataset(torch.randn(80, 8))
    class Slow(torch.utils.data.Dataset):
        def __len__(self):
            return 80
        def __getitem__(self, index):
            time.sleep(0.004)
            return data[index][0]
    model = torch.nn.Linear(8, 1)
    optimizer = SGD(model.parameters(), lr=trial.suggest_float("lr", 1e-3, 1e-1))
    for batch in torch.utils.data.DataLoader(Slow(), batch_size=4):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
    if trial.number:
        raise optuna.TrialPruned
    return 1.0

study = optuna.create_study()
study.optimize(WatchedObjective(objective), n_trials=2)
print(json.dumps([[t.state.name, t.user_attrs] for t in study.trials]))
"""


def test_trials_of_optuna_carry_cause_and_cost(tmp_path: Path):
    pytest.importorskip("optuna")
    done = run_job(tmp_path, OWN_SGD + OPTUNA)
    assert done.returncode == 0, done.stderr
    trials = json.loads(done.stdout.splitlines()[-1])
    assert [state for state, _ in trials] == ["COMPLETE", "PRUNED"]
    for _, found in trials:
        assert found["whyidle.state"] == "starved"
        assert found["whyidle.cause"] == "dataloader-no-workers"
        assert found["whyidle.waits.input"] > 0.5
        assert 0 < found["whyidle.hours"] < 0.1
