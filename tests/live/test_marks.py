"""Marks are where they should be in a real job; its device is imagined."""

import shutil

import device_stream
import numpy as np
import pytest
from own_sgd import OWN_SGD

from whyidle.model.device_timestamps import ASKED, BACKWARD, BACKWARD_END, BATCH, MARK, STEPPED

pytest.importorskip("torch")


JOB = f"""
import gc, sys, time
{OWN_SGD}from torch.utils.data import DataLoader
from device_stream import ImaginedStream

torch.set_num_threads(1)
model = torch.nn.Linear(8, 1)
optimizer = SGD(model.parameters(), lr=0.01)
stream = ImaginedStream(time.perf_counter_ns)

def train(steps):
    for x in DataLoader(torch.randn(4 * steps, 8), batch_size=4):
        loss = model(x).square().mean()
        stream.launch(1_000_000)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.003)

train(5)
(loop,) = [thing for thing in gc.get_objects() if type(thing).__name__ == "Events"]
marks = sys.modules["_whyidle_probe.core.device_timestamps"]
loop.add_listener(marks.DeviceMarks(loop, stream))
train(200)
print(len(stream.busy))
"""


def test_where_marks_are(watching):
    path = watching.folder / "train.py"
    path.write_text(JOB)
    shutil.copy(device_stream.__file__, watching.folder)
    done = watching.run(path)
    assert (done.returncode, done.stdout) == (0, "205\n"), done.stderr
    (file,) = watching.recording().glob("*.device")
    rows = np.frombuffer(file.read_bytes(), MARK)
    windows = np.unique(rows["window"])
    assert len(windows) >= 4
    for window in windows:
        mine = rows[rows["window"] == window]
        inner = [ASKED, BATCH, BACKWARD, BACKWARD_END]
        assert mine["kind"].tolist() == [STEPPED, *inner, STEPPED]
        assert (np.diff(mine["host"]) > 0).all()
        assert (np.diff(mine["device"]) >= 0).all()
        batch = mine[mine["kind"] == BATCH]
        assert (batch["begin"] < batch["host"]).all()
    assert not [n for n in watching.diagnosis()["coverage"]["notes"] if "switched off" in n]
