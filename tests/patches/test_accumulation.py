"""Micro-batches that exchange nothing: which ones, and when that is certain."""

import subprocess
import sys

import pytest
from patching import added, rewrite

pytestmark = pytest.mark.real_processes("real ranks exchange gradients")

ASKED = ("ddp.no_sync", 4)
LOOP = """import torch
from torch.nn.parallel import DistributedDataParallel as DDP

model = DDP(torch.nn.Linear(2, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batches = [torch.ones(3, 2)] * 10
for i, x in enumerate(batches):
    # forward
    out = model(x)
    loss = out.mean() / 4
    loss.backward()
    if (i + 1) % 4 == 0 or i + 1 == len(batches):
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
"""
STEPS = "(i + 1) % 4 == 0 or i + 1 == len(batches)"
HEAD = f"with contextlib.nullcontext() if {STEPS} else model.no_sync()"


def test_all_but_those_before_a_step():
    assert rewrite(LOOP, *ASKED).text == "import contextlib\n" + LOOP.replace(
        "    out = model(x)\n    loss = out.mean() / 4\n    loss.backward()\n",
        f"    {HEAD}:\n"
        "        out = model(x)\n        loss = out.mean() / 4\n        loss.backward()\n",
    )


INNER = """import torch
from torch.nn.parallel import DistributedDataParallel as DDP

model = DDP(torch.nn.Linear(2, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
count = 4
for step in range(3):
    optimizer.zero_grad()
    for micro in range(count):
        loss = model(torch.ones(3, 2)).mean() / count
        loss.backward()
    optimizer.step()
"""


def test_a_step_behind_counted_micro_batches_takes_the_last_of_them():
    came = added(INNER, *ASKED)
    assert "+with contextlib.nullcontext() if micro == count - 1 else model.no_sync():" in came


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "        loss.backward()\n",
            "        loss.backward()\n        if loss > 3:\n            break\n",
        ),
        ("        loss.backward()\n", "        loss.backward()\n        count -= 1\n"),
        ("in range(count)", "in pick(count)"),
        ("in range(count)", "in range(0, count)"),
        ("    optimizer.step()", "    pass"),
        ("        loss =", "        optimizer.zero_grad()\n        loss ="),
    ],
)
def test_where_another_micro_batch_may_be_the_last_it_is_left_to_people(old, new):
    assert old in INNER
    found = rewrite(INNER.replace("    optimizer.zero_grad()\n", "").replace(old, new), *ASKED)
    assert not found.done
    assert "the step has no condition" in found.why[0]


@pytest.mark.parametrize(
    ("text", "exchanges"),
    [
        (LOOP, 10),
        (rewrite(LOOP, *ASKED).text, 3),
        (INNER, 12),
        (rewrite(INNER, *ASKED).text, 3),
    ],
)
def test_the_patched_loop_exchanges_before_each_step(text, exchanges, tmp_path):
    pytest.importorskip("torch")
    start = f"""
import torch, torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
dist.init_process_group("gloo", init_method="file://{tmp_path}/store", rank=0, world_size=1)
calls = []
def counted(_, bucket):
    calls.append(bucket.index())
    return default_hooks.allreduce_hook(None, bucket)
"""
    hooked = text.replace("optimizer =", "model.register_comm_hook(None, counted)\noptimizer =")
    script = f"{start}\n{hooked}\nprint(len(calls))\ndist.destroy_process_group()"
    run = [sys.executable, "-c", script]
    done = subprocess.run(run, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout) == (0, f"{exchanges}\n"), done.stderr


@pytest.mark.parametrize(
    ("start", "null"),
    [
        ("import contextlib", "contextlib.nullcontext"),
        ("from contextlib import nullcontext", "nullcontext"),
        ("from contextlib import nullcontext as nothing", "nothing"),
    ],
)
def test_what_is_imported_is_not_imported_again(start, null):
    came = added(f"{start}\n{LOOP}", *ASKED)
    assert "+import contextlib" not in came
    assert any(line.startswith(f"+with {null}() if ") for line in came)


def test_models_of_objects():
    text = """import torch
from torch.nn.parallel import DistributedDataParallel
class Trainer:
    def __init__(self, model):
        self.model = DistributedDataParallel(model)
    def epoch(self):
        for step, (x, y) in enumerate(self.loader):
            loss = self.loss(self.model(x), y)
            self.scaler.scale(loss).backward()
            if step % self.every == self.every - 1:
                self.scaler.step(self.optimizer)
"""
    assert (
        "+with contextlib.nullcontext() if step % self.every == self.every - 1 "
        "else self.model.no_sync():"
    ) in added(text, *ASKED)


LEFT = {
    "wraps the model only where `many`": (
        "model = DDP(torch.nn.Linear(2, 1))", "if many: model = DDP(torch.nn.Linear(2, 1))"
    ),
    "the call of the wrapped model is not clear": ("out = model(x)", "out = forward(x)"),
    "the step has no condition": (
        f"    if {STEPS}:", "    if True:\n        pass\n    with x:"
    ),
    "is not a statement in a loop over micro-batches": (
        "    loss.backward()", "    if y: loss.backward()"
    ),
    f"whether `{STEPS}` is unknown": (
        "    loss.backward()", "    loss.backward()\n    i += 1"
    ),
    "whether `due(i)` is unknown": (STEPS, "due(i)"),
    "is one of several backward passes": (
        "    loss.backward()", "    loss.backward(); other.backward()"
    ),
    "already controls it": ("    out =", "    model.require_backward_grad_sync = True\n    out ="),
    "steps as well, maybe with gradients that were not exchanged": (
        "        optimizer.zero_grad()\n", "        optimizer.zero_grad()\noptimizer.step()\n"
    ),
}  # fmt: skip


@pytest.mark.parametrize("said", LEFT)
def test_what_is_not_certain_is_left_to_people(said):
    old, new = LEFT[said]
    assert old in LOOP
    text = LOOP.replace(old, new)
    found = rewrite(text, *ASKED)
    assert found.text == text
    assert not found.done
    assert len(found.why) == 1
    assert said in found.why[0]


def test_a_model_of_the_same_name_in_another_function_is_another():
    text = LOOP.replace("for i, x", "def train(model, optimizer):\n  for i, x")
    text = text.replace("\n    ", "\n        ")
    found = rewrite(text, *ASKED)
    assert found.text == text
    assert "the call of the wrapped model is not clear" in found.why[0]


def test_what_steps_in_every_pass_has_no_micro_batches():
    text = LOOP.replace("    # forward", "    optimizer.zero_grad()")
    assert not rewrite(text, *ASKED).done
