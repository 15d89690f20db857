"""A loss that overflows in every fourth step is watched: each skipped step counts."""

import pytest

pytest.importorskip("torch")

pytestmark = pytest.mark.live

JOB = """
import torch

torch.set_num_threads(1)
model = torch.nn.Linear(512, 512)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=1.0)
for step in range(160):
    loss = model(torch.randn(64, 512)).square().mean()
    if step % 4 == 3:
        loss = loss * float({factor!r})
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update(1.0)
"""


@pytest.mark.parametrize(("factor", "told"), [("inf", True), ("1", False)])
def test_skipped_steps(watching, factor, told):
    path = watching.folder / "train.py"
    path.write_text(JOB.format(factor=factor))
    done = watching.run(watching.env["PYTHON"], path)
    assert done.returncode == 0, done.stderr
    notes = [note for note in watching.diagnosis()["coverage"]["notes"] if "skipped" in note]
    assert [note.partition(" optimizer")[0] for note in notes] == (
        ["gradient scaling skipped 40 of 160"] if told else []
    )
