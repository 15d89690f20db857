"""What every test of the clinic begins with."""

import pytest

import clinic.launch


@pytest.fixture(autouse=True)
def nobody_asked_to_stop():
    """A test that was stopped leaves the clinic so, as Ctrl-C does; the next one is another run."""
    clinic.launch._stopping.clear()
