"""The example that `make demo` trains: its mistakes are found, with the lines that make them."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("PIL")

pytestmark = pytest.mark.live

EXAMPLE = Path(__file__).parents[2] / "examples" / "photos"


def test_the_loader_in_the_training_process_is_named(watching):
    photos = watching.folder / "photos"
    subprocess.run([sys.executable, EXAMPLE / "make.py", photos, "96"], check=True)
    train = EXAMPLE / "train.py"
    done = watching.run(sys.executable, train, "--photos", photos, "--epochs", "2")
    assert done.returncode == 0
    first = watching.diagnosis()["findings"][0]
    assert first["cause"] == "dataloader-no-workers"
    asks = train.read_text().splitlines().index("        for images, labels in loader:") + 1
    places = [(place["file"], place["function"]) for place in first["where"]]
    assert (str(train), "__getitem__") in places
    assert (str(train), asks) in [(place["file"], place["line"]) for place in first["where"]]
