"""Frameworks around PyTorch: their launchers stay silent, and steps are the optimizer's."""

import sys

import pytest

pytest.importorskip("torch")

ACCELERATE = """
import torch
from accelerate import Accelerator
torch.manual_seed(0)
around = Accelerator(cpu=True, gradient_accumulation_steps=2)
data = torch.utils.data.TensorDataset(torch.randn(80, 8), torch.randn(80, 1))
loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model, optimizer, loader = around.prepare(model, optimizer, loader)
for x, y in loader:
    with around.accumulate(model):
        loss = torch.nn.functional.mse_loss(model(x), y)
        around.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
print(loss.item())
raise SystemExit(3)
"""

LIGHTNING = """
import torch, lightning

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch, index):
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())

data = torch.utils.data.TensorDataset(torch.randn(80, 8))
quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False)
trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", **quiet)
trainer.fit(Module(), torch.utils.data.DataLoader(data, batch_size=4))
"""

TRANSFORMERS = """
import tempfile, torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

sizes = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)
model = BertForSequenceClassification(BertConfig(vocab_size=100, **sizes))
data = [{"input_ids": torch.arange(16), "labels": torch.tensor(i % 2)} for i in range(96)]
arguments = TrainingArguments(
    tempfile.mkdtemp(), per_device_train_batch_size=4, gradient_accumulation_steps=2,
    num_train_epochs=1, report_to=[], use_cpu=True, save_strategy="no",
)
Trainer(model, arguments, train_dataset=data).train()
"""

LAUNCH = ("-m", "accelerate.commands.launch", "--cpu", "--num_processes=1")


@pytest.mark.parametrize(
    ("package", "text", "launcher", "ends"),
    [
        ("accelerate", ACCELERATE, LAUNCH, (10, 1)),  # the launcher makes any failure a 1
        ("lightning", LIGHTNING, (), (20, 0)),
        ("transformers", TRANSFORMERS, (), (12, 0)),
    ],
)
def test_steps_and_status(package, text, launcher, ends, watching):
    steps, status = ends
    pytest.importorskip(package, reason=f"{package} is not installed")
    path = watching.folder / "train.py"
    path.write_text(text)
    done = watching.run(sys.executable, *launcher, path)
    assert done.returncode == status, done.stderr
    (diagnosis,) = watching.diagnoses()
    assert diagnosis["steps"]["count"] + diagnosis["steps"]["warmup"] == steps
    assert diagnosis["steps"]["detected_by"] == "optimizer"
    assert diagnosis["run"]["exit_status"] == status
    assert not [note for note in diagnosis["coverage"]["notes"] if "failed" in note]


RANKS = """
import os, time, torch
from accelerate import Accelerator
torch.manual_seed(0)
torch.set_num_threads(1)
around = Accelerator(cpu=True)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(torch.randn(160, 8), torch.randn(160, 1))
loader = torch.utils.data.DataLoader(data, batch_size=4)
model, optimizer, loader = around.prepare(model, optimizer, loader)
for x, y in loader:
    loss = torch.nn.functional.mse_loss(model(x), y)
    around.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.02)
total = around.reduce(loss.detach(), "sum")
os.write(1, f"{around.process_index} of {around.num_processes}: {total:.6f}\\n".encode())
around.wait_for_everyone()
around.end_training()
"""


def test_two_ranks_of_accelerate_are_one_job(watching):
    pytest.importorskip("accelerate", reason="accelerate is not installed")
    path = watching.folder / "train.py"
    path.write_text(RANKS)
    # on CPUs this launcher starts ranks by MPI alone; told of GPUs, it starts any
    two = (*LAUNCH[:2], "--multi_gpu", "--num_processes=2", "--main_process_port=0")
    alone = watching.alone(sys.executable, *two, path)
    done = watching.run(sys.executable, *two, path)
    assert done.returncode == alone.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(alone.stdout.splitlines())
    assert [line[:6] for line in sorted(done.stdout.splitlines())] == ["0 of 2", "1 of 2"]
    (diagnosis,) = watching.diagnoses()
    assert diagnosis["run"]["ranks"] == 2
    assert [row["rank"] for row in diagnosis["detail"]["ranks"]] == [0, 1]
    assert diagnosis["steps"]["count"] + diagnosis["steps"]["warmup"] == 20
    assert not [note for note in diagnosis["coverage"]["notes"] if "failed" in note]
