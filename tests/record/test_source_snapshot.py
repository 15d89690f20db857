"""The user's files that a recording names are kept with it."""

import json
import os
import sys

import pytest
from own_sgd import OWN_SGD

from whyidle.readers.probe import SOURCES
from whyidle.record.launcher import run_recorded
from whyidle.record.recording_diagnosis import diagnose_jobs, note_end
from whyidle.record.source_snapshot import MOST_BYTES, keep_sources


@pytest.fixture
def recording(tmp_path):
    """A recording of one process, whose stacks name two files of the user's and a library's."""
    folder = tmp_path / "recording"
    folder.mkdir()
    (tmp_path / "train.py").write_text("loss.backward()\n")
    (tmp_path / "data.py").write_text("rows = []\n")
    names = [f"{tmp_path}/data.py(1): load", f"{tmp_path}/train.py(1): <module>"]
    library = "/lib/python3.11/site-packages/torch/nn/modules/linear.py(5): forward"
    (folder / "1.stacks").write_text(";".join([library, *names]) + "\n")
    (folder / "1.facts.json").write_text("{}")
    return folder


def kept(recording):
    return json.loads((recording / SOURCES).read_text())


def test_the_users_files_are_kept_as_they_were(recording, tmp_path):
    keep_sources(recording)
    found = {
        str(tmp_path / "data.py"): "rows = []\n",
        str(tmp_path / "train.py"): "loss.backward()\n",
    }
    assert kept(recording) == found
    (tmp_path / "train.py").write_text("pass\n")
    (tmp_path / "data.py").unlink()
    keep_sources(recording)
    assert kept(recording) == found


def test_a_file_that_was_gone_is_not_looked_for_again(recording, tmp_path):
    (tmp_path / "data.py").unlink()
    keep_sources(recording)
    (tmp_path / "data.py").write_text("rows = [1]\n")
    os.utime(tmp_path / "data.py", (0, 0))
    keep_sources(recording)
    assert kept(recording)[str(tmp_path / "data.py")] is None


def test_a_file_that_was_changed_since_its_lines_were_recorded_is_not_kept(recording, tmp_path):
    later = (recording / "1.stacks").stat().st_mtime + 5
    os.utime(tmp_path / "train.py", (later, later))
    keep_sources(recording)
    assert kept(recording)[str(tmp_path / "train.py")] is None


@pytest.mark.parametrize("content", [b"#" * (MOST_BYTES + 1), bytes(range(256))])
def test_what_is_no_source_of_reasonable_length_is_not_kept(recording, tmp_path, content):
    (tmp_path / "train.py").write_bytes(content)
    (recording / "1.stacks").touch()
    keep_sources(recording)
    assert kept(recording)[str(tmp_path / "train.py")] is None


def test_a_recording_that_names_no_file_gets_none(tmp_path):
    (tmp_path / "1.facts.json").write_text("{}")
    keep_sources(tmp_path)
    assert not (tmp_path / SOURCES).exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_only_be_read_is_no_error(recording):
    recording.chmod(0o500)
    keep_sources(recording)
    recording.chmod(0o700)
    assert not (recording / SOURCES).exists()


TRAIN = f"""
{OWN_SGD}
torch.set_num_threads(1)
model = torch.nn.Linear(64, 64)
optimizer = SGD(model.parameters(), lr=0.1)

def work():
    return sum(number * 0.5 for number in range(40_000))

for step in range(300):
    loss = model(torch.randn(32, 64)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    work()
"""


def test_a_stored_run_is_diagnosed_the_same_whatever_happened_to_the_script(tmp_path):
    pytest.importorskip("torch")
    script, recording = tmp_path / "train.py", tmp_path / "recording"
    script.write_text(TRAIN)
    recording.mkdir()
    command = [sys.executable, str(script)]
    note_end(recording, "one", command, run_recorded(command, recording))
    first = diagnose_jobs(recording)
    assert kept(recording) == {str(script): TRAIN}
    script.write_text("losses = []\n" * 100)
    assert diagnose_jobs(recording) == first
    script.unlink()
    assert diagnose_jobs(recording) == first
