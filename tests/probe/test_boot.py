"""The wait for a framework's import, beside other tools that hook imports."""

import subprocess
import sys
from pathlib import Path

import whyidle

BOOT = Path(whyidle.__file__).parent / "probe" / "boot"
FIRST = """
import importlib.machinery, sys
sys.path.insert(0, {boot!r})
import importlib.util
spec = importlib.util.spec_from_file_location("boot", {boot!r} + "/sitecustomize.py")
boot = importlib.util.module_from_spec(spec)
spec.loader.exec_module(boot)
woken = []
waiter = boot._Waiter("framework", lambda module: woken.append(module.__name__))
sys.meta_path.insert(0, waiter)

class Greedy:
    '''Goes first and finds modules by itself, as the finder of comet_ml.'''
    asked = 0
    def find_spec(self, name, path=None, target=None):
        if name != "framework":
            return None
        Greedy.asked += 1
        return importlib.machinery.PathFinder.find_spec(name, path, target)

sys.meta_path.insert(0, Greedy())
{imports}
import framework
assert Greedy.asked == 1, Greedy.asked
assert framework.VALUE == 7
print(woken, waiter in sys.meta_path)
"""


def run(tmp_path: Path, imports: str) -> str:
    (tmp_path / "framework.py").write_text("VALUE = 7\n")
    (tmp_path / "other.py").write_text("")
    code = FIRST.format(boot=str(BOOT), imports=imports)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False,
        timeout=30,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_tool_that_went_first_does_not_hide_the_import(tmp_path):
    assert run(tmp_path, "import other") == "['framework'] False"


def test_a_framework_imported_directly_after_it_stays_unseen(tmp_path):
    """The limit: the first place is taken back at an import that the tool leaves to others."""
    assert run(tmp_path, "") == "[] True"
