"""Scripts run as two ranks on this machine."""

import json
import os
import subprocess
import sys

LONGEST_S = 100


def both(script, folder, *args):
    """What ``SCRIPT RANK FOLDER`` writes to ``RANK.json`` in the folder, of either rank."""
    search = os.pathsep.join(filter(None, sys.path))
    children = [
        subprocess.Popen(
            [sys.executable, script, str(rank), str(folder), *args],
            env={**os.environ, "PYTHONPATH": search},
        )
        for rank in (0, 1)
    ]
    try:
        assert [child.wait(LONGEST_S) for child in children] == [0, 0]
    finally:
        for child in children:
            child.kill()
            child.wait()
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in (0, 1)]
