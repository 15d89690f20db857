"""What every test of the clinic begins with."""

import re

import pytest

import clinic.launch
from clinic import warmed


@pytest.fixture(autouse=True)
def nobody_asked_to_stop():
    """A test that was stopped leaves the clinic so, as Ctrl-C does; the next one is another run."""
    clinic.launch._stopping.clear()


@pytest.fixture(scope="module", autouse=True)
def light(tmp_path_factory):
    """The script of interpreters that are warm at once: of all that a clinic's import they do with
    numpy. A job that fails or hangs ends one, and PyTorch takes seconds."""
    path = tmp_path_factory.mktemp("light") / "warm.py"
    text = warmed.SCRIPT.read_text()
    path.write_text(re.sub(r"PRELOADED = \(.*\)", 'PRELOADED = ("numpy",)', text))
    warmed.close()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(warmed, "SCRIPT", path)
        yield path
        warmed.close()
