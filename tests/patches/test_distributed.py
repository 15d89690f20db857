"""Keywords of DistributedDataParallel."""

import pytest
from patching import added


@pytest.mark.parametrize(
    ("start", "name"),
    [
        ("from torch.nn.parallel import DistributedDataParallel as DDP", "DDP"),
        ("from torch import nn", "nn.parallel.DistributedDataParallel"),
        ("import torch", "torch.nn.parallel.DistributedDataParallel"),
    ],
)
@pytest.mark.parametrize(
    ("knob", "value", "said"),
    [
        ("ddp.gradient_as_bucket_view", True, "gradient_as_bucket_view=True"),
        ("ddp.static_graph", True, "static_graph=True"),
        ("ddp.bucket_cap_mb", 25, "bucket_cap_mb=25"),
    ],
)
def test_the_model_is_wrapped_with_it(start, name, knob, value, said):
    assert added(f"{start}\nm = {name}(m, device_ids=[0])\n", knob, value) == [
        f"-m = {name}(m, device_ids=[0])", f"+m = {name}(m, device_ids=[0], {said})"
    ]  # fmt: skip
