"""Lightning, Hugging Face's Trainer and Accelerate from end to end: a slow dataset is found, the
fix is kept, its plan runs with the same losses, and its patch applies."""

import subprocess
import sys

import pytest

from whyidle.store.plan_file import read_plan

pytest.importorskip("torch")
pytestmark = pytest.mark.live

DATA = """
import time, torch
torch.manual_seed(0)
torch.set_num_threads(1)

class Scans(torch.utils.data.Dataset):
    def __len__(self):
        return {samples}

    def __getitem__(self, index):
        time.sleep(0.01)  # a far disk
        value = torch.full((8,), float(index % 7))
        return {item}

"""
LIGHTNING = """
import lightning

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch, index):
        return self.layer(batch).square().mean()

    def on_train_end(self):
        print(f"{self.layer.weight.sum().item():.6f}")

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.001)

if __name__ == "__main__":
    loader = torch.utils.data.DataLoader(Scans(), batch_size=8, shuffle=True)
    quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False)
    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", **quiet)
    trainer.fit(Module(), loader)
"""
ACCELERATE = """
from accelerate import Accelerator

if __name__ == "__main__":
    around = Accelerator(cpu=True)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    loader = torch.utils.data.DataLoader(Scans(), batch_size=8, shuffle=True)
    model, optimizer, loader = around.prepare(model, optimizer, loader)
    for x in loader:
        loss = model(x).square().mean()
        around.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    print(f"{loss.item():.6f}")
"""
TRANSFORMERS = """
import tempfile
from transformers import Trainer, TrainingArguments

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def forward(self, x):
        return {"loss": self.layer(x).square().mean()}

if __name__ == "__main__":
    arguments = TrainingArguments(
        tempfile.mkdtemp(), per_device_train_batch_size=8, num_train_epochs=1, report_to=[],
        use_cpu=True, save_strategy="no", disable_tqdm=True, logging_strategy="no",
    )
    trainer = Trainer(Model(), arguments, train_dataset=Scans())
    print(f"{trainer.train().training_loss:.6f}")
"""
JOBS = {
    "lightning": (LIGHTNING, "value", "num_workers="),
    "accelerate": (ACCELERATE, "value", "num_workers="),
    "transformers": (TRANSFORMERS, '{"x": value}', "dataloader_num_workers="),
}


def write_job(folder, package, samples):
    text, item, _ = JOBS[package]
    (folder / "train.py").write_text(DATA.format(samples=samples, item=item) + text)


@pytest.mark.parametrize("package", JOBS)
def test_a_slow_dataset_is_found_fixed_planned_and_patched(package, watching):
    pytest.importorskip(package, reason=f"{package} is not installed")
    folder, command = watching.folder, (sys.executable, "train.py")
    write_job(folder, package, 20_000)
    words = [*watching.whyidle("fix"), "--budget", "3m", "--write-plan", "plan.toml", *command]
    done = subprocess.run(
        words, cwd=folder, env=watching.env, capture_output=True, text=True, timeout=500,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "loader.workers" in read_plan(folder / "plan.toml").settings
    assert JOBS[package][2] in (folder / "fix.patch").read_text()
    write_job(folder, package, 160)
    alone = watching.alone(*command)
    assert alone.returncode == 0, alone.stderr
    planned = watching.alone(*watching.words(*command, options=("--plan", "plan.toml")))
    assert planned.returncode == 0, planned.stderr
    assert alone.stdout.strip().splitlines()[-1] in planned.stdout
