"""64-bit batches that are sent in 32 bits: on the emulated device, in its own process."""

import pytest


@pytest.fixture(scope="module")
def seen(told_by):
    """What became of each job, see ``narrow_on_emulated``."""
    return told_by("narrow_on_emulated.py")


def test_no_number_changes_in_any_job(seen):
    assert {name: (job["same"], job["faults"]) for name, job in seen.items()} == {
        name: (True, []) for name in seen
    }


@pytest.mark.parametrize("job", ["ids", "floats", "copied ahead", "long copies"])
def test_what_fits_is_sent_in_32_bits(seen, job):
    assert seen[job]["took"]
    assert not seen[job]["declined"]


def test_fewer_bytes_take_less_time(seen):
    """Of two jobs the first is as it was, and so is all of one beside half of the other."""
    assert 0.7 < seen["long copies"]["narrower"] < 0.8


@pytest.mark.parametrize(
    ("job", "why"),
    [
        ("large ids", "torch.int64 do not fit into torch.int32"),
        ("doubles", "torch.float64 do not fit into torch.float32"),
        ("changed as array", "past PyTorch"),
    ],
)
def test_it_declines(seen, job, why):
    assert not seen[job]["took"]
    assert why in seen[job]["declined"]


@pytest.mark.parametrize("job", ["changed in place", "not pinned", "small"])
def test_what_is_not_as_it_was_pinned_is_sent_by_the_script(seen, job):
    assert not seen[job]["took"]
