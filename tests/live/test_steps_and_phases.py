"""What `whyidle run` finds between the loader and the optimizer, on real CPU jobs."""

import json
import subprocess
import sys

import pytest
from own_sgd import OWN_SGD

pytest.importorskip("torch")


HEAD = f"""
import gc, time
{OWN_SGD}torch.manual_seed(0)
torch.set_num_threads(1)
def net(width=256, layers=2):
    return torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(layers)])
"""

GC = """
heap = [{"a": [i]} for i in range(60_000)]
model = net(); optimizer = SGD(model.parameters(), lr=0.01)
for _ in range(20):
    model(torch.randn(64, 256)).mean().backward()
    optimizer.step()
    gc.collect()  # HERE
"""
SAVING = """
model = net(1024, 6); optimizer = SGD(model.parameters(), lr=0.01)
for step in range(24):
    model(torch.randn(2, 1024)).mean().backward()
    optimizer.step()
    if step % 2:
        torch.save(model.state_dict(), "model.pt")  # HERE
"""
OWN = """
model = net()
for _ in range(100):
    model(torch.randn(512, 256)).mean().backward()
    with torch.no_grad():
        for p in model.parameters():
            p -= 0.01 * p.grad
            p.grad = None
"""


def diagnoses(tmp_path, body):
    script = tmp_path / "train.py"
    script.write_text(HEAD + body)
    command = [sys.executable, "-m", "whyidle", "run", "--store", str(tmp_path / "store")]
    done = subprocess.run(
        [*command, str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "no diagnosis" not in done.stderr, done.stderr
    runs = sorted((tmp_path / "store" / "runs").iterdir())
    return [json.loads((run / "diagnosis.json").read_text()) for run in runs], script


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """``watched(body)``: its diagnosis, and the script; what has run already is not run again."""
    ran = {}

    def once(body):
        if body not in ran:
            ran[body] = diagnoses(tmp_path_factory.mktemp("job"), body)
        (diagnosis,), script = ran[body]
        return diagnosis, script

    return once


def test_collections_that_the_program_asks_for_are_told_from_automatic_ones(watched):
    diagnosis, _ = watched(GC)
    first = diagnosis["findings"][0]
    assert first["headline"].startswith("The program's own gc.collect()")
    assert first["fixes"][0]["fix"] == "gc-thinned"


def test_how_large_a_checkpoint_is_stands_beside_its_cost(watched):
    diagnosis, script = watched(SAVING)
    told = {one["quantity"]: one for one in diagnosis["findings"][0]["evidence"]}
    size = told["size of a checkpoint"]
    assert (size["value"], size["unit"]) == (script.with_name("model.pt").stat().st_size, "bytes")
    assert size["samples"] == 12


def test_an_optimizer_of_ones_own(watched):
    diagnosis, _ = watched(OWN)
    steps = diagnosis["steps"]
    assert steps["detected_by"] == "backward"
    assert steps["count"] + steps["warmup"] == 100
    assert "No training step" not in diagnosis["verdict"]["headline"]
    assert diagnosis["attribution"]["compute"] > diagnosis["attribution"]["unknown"]


def test_steps_marked_by_hand(watched):
    body = "import whyidle\nmodel = net()\nfor _ in range(20):\n"
    body += "    model(torch.randn(512, 256)).mean().item()\n    whyidle.step()\n"
    diagnosis, _ = watched(body)
    assert diagnosis["steps"]["detected_by"] == "whyidle.step"
