"""What a batch holds, and what its samples are."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from whyidle.probe.frameworks.torch.batch_content import (  # noqa: E402
    count_samples,
    describe_batch,
    describe_sample,
)

TEXT = "a text of more than twenty characters"


def test_bytes_are_counted_by_type():
    batch = {"x": torch.zeros(4, 3, dtype=torch.float64), "y": [torch.zeros(4), "name"]}
    assert describe_batch(batch) == {
        "tensors": 2,
        "bytes": 112,
        "types": {"float64": 96, "float32": 16},
    }


@pytest.mark.parametrize(
    ("sample", "kind"),
    [
        ((TEXT, 1), "text"),
        ({"text": TEXT}, "text"),
        (("n0144" * 9, 1), ""),  # the name of a file
        ((torch.zeros(3, 8, 8, dtype=torch.uint8), 1), "images"),
        ((torch.zeros(8, 8, 3, dtype=torch.uint8), 1), "images"),
        ((torch.zeros(3, 8, 8), 1), ""),  # may be anything
        (torch.zeros(9), ""),
        (None, ""),
    ],
)
def test_kinds_of_samples(sample, kind):
    assert describe_sample(sample) == kind


@pytest.mark.parametrize(
    ("batch", "samples"),
    [
        ((torch.zeros(8, 3), torch.zeros(8)), 8),
        ({"x": torch.zeros(8, 3), "y": torch.zeros(8), "name": "a"}, 8),
        ((torch.zeros(3, 32, 32), 5), 1),  # one sample
        ((torch.zeros(8, 3), torch.zeros(4)), 1),
        ((torch.zeros(()), torch.zeros(())), 1),
    ],
)
def test_samples_of_a_batch_that_the_dataset_made(batch, samples):
    assert count_samples(batch) == samples
