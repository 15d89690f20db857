"""Padding that steps pay for is the first finding on a real job, with the function that pads."""

import pytest

pytest.importorskip("torch")

pytestmark = pytest.mark.live

TRAIN = """
import random, sys, torch
from torch.utils.data import DataLoader

kind, workers = sys.argv[1], int(sys.argv[2])
random.seed(0)
torch.manual_seed(0)
torch.set_num_threads(1)
BATCH, WIDTH = 16, 96
samples = [torch.randint(1, 1000, (random.randint(10, 60) if random.random() < 0.9
                                   else random.randint(150, 240),)) for _ in range(1600)]


def collate(rows):  # HERE
    longest = 256 if kind == "maximum" else max(map(len, rows))
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    for row, sample in zip(ids, rows):
        row[: len(sample)] = sample
    return {"input_ids": ids, "attention_mask": (ids != 0).long()}


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(1000, WIDTH)
        self.layers = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.ReLU(),
                                          torch.nn.Linear(4 * WIDTH, WIDTH))
        self.tower = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(3)])

    def forward(self, ids, mask):
        x = self.embed(ids) if kind != "decoy" else self.embed(ids[:, :10])
        if kind == "decoy":
            return self.tower(torch.nn.functional.pad(x.mean(1), (0, 1024 - WIDTH)))
        x = x + self.layers(x)
        return (x * mask[..., None]).sum(1) / mask.sum(1)[:, None]


order = list(range(len(samples)))
random.shuffle(order)
if kind == "bucketed":
    order.sort(key=lambda i: len(samples[i]))
batches = [order[i:i + BATCH] for i in range(0, len(order), BATCH)]
random.shuffle(batches)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(samples, batch_sampler=batches * 2, collate_fn=collate, num_workers=workers)
for batch in loader:
    loss = model(batch["input_ids"], batch["attention_mask"]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
"""
FAULT = TRAIN.replace(
    "order = list",
    """
import gc
def broken(*args):
    raise ValueError("a planted fault")
for thing in gc.get_objects():
    if type(thing).__name__ == "PaddingCounter":
        thing._count_padding = broken
order = list""",
    1,
)


def diagnosed(watching, kind, workers=0, text=TRAIN):
    script = watching.folder / "train.py"
    script.write_text(text)
    done = watching.run(script, kind, workers)
    assert done.returncode == 0, done.stderr
    return watching.diagnosis(), script


@pytest.mark.parametrize(("kind", "workers"), [("longest", 0), ("longest", 1), ("maximum", 0)])
def test_padding_is_the_first_finding(watching, kind, workers):
    diagnosis, script = diagnosed(watching, kind, workers)
    first = diagnosis["findings"][0]
    assert first["cause"] == "padding-waste", [f["cause"] for f in diagnosis["findings"]]
    assert first["severity"] == "warning"
    (place,) = first["where"]
    assert place["file"] == str(script)
    assert "# HERE" in script.read_text().splitlines()[place["line"] - 1]
    assert first["fixes"]
    if kind == "longest":
        assert first["lost"]["low"] > 0.05


@pytest.mark.parametrize("kind", ["bucketed", "decoy"])
def test_a_step_that_does_not_pay_for_padding(watching, kind):
    diagnosis, _ = diagnosed(watching, kind)
    blamed = [f for f in diagnosis["findings"] if f["cause"] == "padding-waste"]
    assert all(f["severity"] == "info" for f in blamed)


def test_a_fault_while_looking_never_reaches_the_job(watching):
    diagnosis, _ = diagnosed(watching, "longest", text=FAULT)
    (note,) = [note for note in diagnosis["coverage"]["notes"] if "planted" in note]
    assert "switched off: padding:" in note
    assert diagnosis["steps"]["count"] > 100
