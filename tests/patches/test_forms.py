"""What every form promises: git takes its patch, the result is Python, twice is once."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from patching import added

from whyidle import catalog
from whyidle.fix.patching.source_patch import KeptFix, make_patch
from whyidle.model.diagnosis import Edit
from whyidle.model.knobs import KNOBS, setting_problem
from whyidle.model.patch import KnobChange

TRAINING = '''"""Trains."""
import os, gc
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader

os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
torch.autograd.set_detect_anomaly(True)


def count(loader):
    return sum(1 for _ in loader)  # ünïcode


model = DDP(nn.Linear(1, 1))
optimizer = torch.optim.AdamW(model.parameters())
for step, (x, y) in enumerate(DataLoader(data, num_workers=2)):
    x = x.to(device)
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
    gc.collect()
    torch.cuda.empty_cache()
'''
COMPILED = "import torch\nmodel = torch.compile(model)\nx = 1\n"
KERAS = """import tensorflow as tf
data = tf.data.Dataset.range(9).map(decode).batch(4)
"""
SCANS = """import keras
class Scans(keras.utils.PyDataset):
    def __init__(self, files):
        super().__init__()
        self.files = files
"""
SAMPLES: dict[str, tuple[object, str]] = {
    "tfdata.map_calls": (16, KERAS),
    "keras.steps_per_execution": (8, 'import keras\nmodel.compile("adam", loss="mse")\n'),
    "keras.workers": (4, SCANS),
    "loader.workers": (4, TRAINING),
    "loader.pin_memory": (True, TRAINING),
    "loader.persistent_workers": (True, TRAINING),
    "loader.prefetch_factor": (8, TRAINING),
    "optimizer.fused": (True, TRAINING),
    "optimizer.foreach": (True, TRAINING),
    "autograd.anomaly_mode": (False, TRAINING),
    "matmul.precision": ("high", TRAINING),
    "torch.num_threads": (2, TRAINING),
    "env.*": ("0", TRAINING),
    "model.compile": (True, TRAINING),
    "model.compile_dynamic": (True, COMPILED),
    "torch.cudnn_benchmark": (True, TRAINING),
    "gc.collect_interval_steps": (100, TRAINING),
    "autocast.dtype": ("bfloat16", TRAINING),
}
UNWRITTEN = ("autocast.grad_scaler",)
"""knobs whose form never writes anything of its own"""
FORMS = catalog.load_source_forms()


def test_every_form_has_a_sample():
    assert {knob for form in FORMS.values() for knob in form.knobs} == {*SAMPLES, *UNWRITTEN}


def test_forms_are_of_known_knobs():
    for knob in SAMPLES:
        assert knob in KNOBS or knob == "env.*"


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("knob", SAMPLES)
def test_git_takes_the_patch(tmp_path: Path, knob: str, end: str):
    value, text = SAMPLES[knob]
    knob = knob.replace("env.*", "env.CUDA_LAUNCH_BLOCKING")
    assert not setting_problem(knob, value)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    script = tmp_path / "train.py"
    script.write_bytes(text.replace("\n", end).encode())
    kept = [KeptFix("fix", [Edit(knob=knob, value=value)])]
    patch = make_patch(kept, ["python", "train.py"], tmp_path)
    assert patch.sentences == ()
    assert patch.diff
    for words in (["--check"], []):
        subprocess.run(
            ["git", "-c", "core.autocrlf=false", "apply", *words, "-"],
            cwd=tmp_path, input=patch.diff.encode(), check=True,
        )  # fmt: skip
    patched = script.read_bytes().decode()
    assert patched == patch.files[script.resolve()]
    assert patched.count("\n") == patched.count(end)
    compile(patched, "train.py", "exec")
    again = make_patch(kept, ["python", "train.py"], tmp_path)
    assert again.diff == ""
    assert not again.sentences


@pytest.mark.parametrize(
    "text", ["", "x = 1\n", "import torch\n", "import torch\n\n\ndef f():\n    pass"]
)
@pytest.mark.parametrize("knob", [*SAMPLES, *UNWRITTEN])
def test_a_file_without_a_place_for_it_stays_as_it_is(knob: str, text: str):
    value, _ = SAMPLES.get(knob, (True, ""))
    change = KnobChange(knob.replace("*", "CUDA_LAUNCH_BLOCKING"), value)
    for form in FORMS.values():
        if knob in form.knobs:
            found = form.write(text, change)
            assert found.text == text
            assert found.why == ()


NOISE = st.sampled_from([
    "# a comment", "", "   ", "x=1 ;  y = { 'a':2 , }", "z = (1 +\\\n  2)", "\x0c",
    "t = \'\'\'a\n  b\'\'\'", "s = f'{x!r:>{10}}' \"'\"", "w = lambda *a, **k :a",
    "if x : pass # end", "assert( x )", "del  q",
])  # fmt: skip


@settings(deadline=None, max_examples=12)
@given(st.sampled_from(sorted(SAMPLES)), st.lists(st.tuples(st.integers(0, 99), NOISE), max_size=6))
def test_whatever_stands_around_it_the_change_is_the_same(knob, noise):
    """Lines of any style put anywhere between statements stay as they are, and change nothing."""
    value, text = SAMPLES[knob]
    lines = text.split("\n")
    for at, line in noise:
        place = 1 + at % (len(lines) - 1)
        place += lines[place - 1].startswith("@")  # nothing stands below a decorator but its def
        following = next(filter(str.strip, lines[place:]), "")
        indent = following[: len(following) - len(following.lstrip())]
        lines.insert(place, indent + line if line.strip() else line)
    name = knob.replace("*", "CUDA_LAUNCH_BLOCKING")
    changed = [_changed(each, name, value) for each in (text, "\n".join(lines))]
    assert changed[0] == changed[1]


def _changed(text: str, knob: str, value) -> dict[str, int]:
    """How much oftener each line stands there; what is only moved in with those around it stays."""
    often: Counter[str] = Counter()
    for line in added(text, knob, value, insert=True):
        often[line[1:]] += {"+": 1, "-": -1}[line[0]]
    return {line: count for line, count in often.items() if line and count}
