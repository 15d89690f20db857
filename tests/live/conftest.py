"""Running a command alone and under watch, from the outside."""

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from own_sgd import OWN_SGD

import whyidle
from clinic import warmed

SOURCE = str(Path(whyidle.__file__).parent.parent)
SCRIPTS = Path(__file__).parent / "scripts"
SMALL = f"""
{OWN_SGD}torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Linear(8, 1)
optimizer = SGD(model.parameters(), lr=0.01)

def train(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(4, 8)).square().mean().backward()
        optimizer.step()
"""


class Watching:
    """Commands run in a folder of their own; ``store`` is there too."""

    def __init__(self, folder):
        self.folder = folder
        self.store = folder / "store"
        # the same with and without us; absolute, for a command runs in a folder of its own
        entries = [SOURCE, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        path = os.pathsep.join(dict.fromkeys(str(Path(entry).absolute()) for entry in entries))
        self.env = {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": path}

    def small(self, text):
        """A script that has a small model and ``train(steps)``, and goes on with ``text``."""
        path = self.folder / "train.py"
        path.write_text(SMALL + text)
        return path

    def words(self, *command, options=()):
        """The command under watch, as one types it."""
        return [*self.whyidle("run"), *options, *map(str, command)]

    def whyidle(self, verb):
        return [sys.executable, "-m", "whyidle", verb, "--store", str(self.store)]

    def start(self, command, **options):
        env = {**self.env, **options.pop("env", {})}
        env = {name: value for name, value in env.items() if value is not None}
        if "whyidle" in command and SOURCE not in env.get("PYTHONPATH", ""):
            path = env.get("PYTHONPATH")  # our own command must be found
            env["PYTHONPATH"] = os.pathsep.join([SOURCE, *([path] if path else [])])
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
        return subprocess.Popen([*map(str, command)], cwd=self.folder, env=env, **options)

    def run(self, *command, **options):
        return end(self.start(self.words(*command), **options))

    def alone(self, *command, **options):
        return end(self.start(command, **options))

    def warm(self, script):
        """A script alone, in an interpreter that is warm; all that it says is its output."""
        said = self.folder / "said.txt"
        said.write_text("")
        with warmed.warm([str(script)], self.folder, self.env, said) as job:
            status = job.wait()
        return subprocess.CompletedProcess([script], status, said.read_text(), "")

    def recording(self):
        (run,) = (self.store / "runs").iterdir()
        return run / "recording"

    def diagnoses(self):
        runs = sorted((self.store / "runs").iterdir())
        return [json.loads((run / "diagnosis.json").read_text()) for run in runs]

    def diagnosis(self):
        return json.loads((self.recording().parent / "diagnosis.json").read_text())


def end(child):
    with child:
        try:
            out, err = child.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            family = [child, *psutil.Process(child.pid).children(recursive=True)]
            for one in reversed(family):
                one.kill()
            raise
    return subprocess.CompletedProcess(child.args, child.returncode, out, err)


@pytest.fixture
def watching(tmp_path):
    return Watching(tmp_path)


@pytest.fixture
def scripts():
    return SCRIPTS
