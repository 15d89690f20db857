"""Interpreters that become one job after another: a job cannot tell that it was not started."""

import json
import subprocess
import sys

import pytest

from clinic import warmed
from clinic.typed import environment

pytestmark = pytest.mark.real_processes("interpreters wait in the background")

TELLS = """
import gc, json, multiprocessing, os, sys, threading

class Own:
    pass

def child(queue, own):
    queue.put([os.getpid(), type(own).__name__])

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    queue = context.SimpleQueue()
    process = context.Process(target=child, args=(queue, Own()))
    process.start()
    number, name = queue.get()
    process.join()
    told = {
        "name": __name__, "file": __file__, "argv": sys.argv, "folder": os.getcwd(),
        "path": sys.path[0], "leads": os.getsid(0) == os.getpid(), "mine": os.environ.get("MINE"),
        "other": os.environ.get("OTHER"), "names": sorted(globals()), "threads": threading.active_count(),
        "another": number != os.getpid(), "class": name, "input": sys.stdin.read(),
        "clinic": [name for name in sys.modules if name.split(".")[0] in ("clinic", "whyidle")],
        "numpy": "numpy" in sys.modules,
    }
    print("said", flush=True)
    json.dump(told, open("told.json", "w"))
"""  # noqa: E501


@pytest.fixture
def begin(tmp_path):
    def begin(text, *words, **own):
        (tmp_path / "train.py").write_text(text)
        said = tmp_path / "said.txt"
        said.touch()
        return warmed.warm(["train.py", *words], tmp_path, {**environment({}), **own}, said)

    return begin


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_job_is_what_it_would_be_if_it_were_started(begin, tmp_path, start):
    with begin(TELLS, start, "--lr", "1", MINE="a", OTHER="b") as one:
        assert one.wait() == 0
    warm = json.loads((tmp_path / "told.json").read_text())
    assert (tmp_path / "said.txt").read_text() == "said\n"
    env = {**environment({}), "MINE": "a", "OTHER": "b"}
    subprocess.run(
        [sys.executable, "train.py", start, "--lr", "1"],
        cwd=tmp_path, env=env, check=True, stdin=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    cold = json.loads((tmp_path / "told.json").read_text())
    assert (warm.pop("numpy"), cold.pop("numpy")) == (True, False)
    hidden = {"__annotations__", "__cached__", "__doc__", "__loader__", "__package__", "__spec__"}
    for told in (warm, cold):
        told["names"] = sorted(set(told["names"]) - hidden)
    assert warm == cold
