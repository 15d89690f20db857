"""Keywords of DistributedDataParallel."""

import pytest
from patching import added, rewrite


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
        ("ddp.bucket_cap_mb", 25, "bucket_cap_mb=25"),
    ],
)
def test_the_model_is_wrapped_with_it(start, name, knob, value, said):
    assert added(f"{start}\nm = {name}(m, device_ids=[0])\n", knob, value) == [
        f"-m = {name}(m, device_ids=[0])", f"+m = {name}(m, device_ids=[0], {said})"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("find_unused_parameters=True", "-m = DDP(m, find_unused_parameters=True)"),
        ("**how", "-how = dict(find_unused_parameters=True)"),
    ],
)
def test_a_search_is_left_out_where_it_is_asked_for(said, line):
    how = "how = dict(find_unused_parameters=True)\n" if said == "**how" else ""
    text = f"{HEAD}{how}m = DDP(m, {said})\n"
    gone, new = added(text, "ddp.find_unused_parameters", False, was=True)
    assert (gone, new) == (line, "+" + line[1:].replace("True", "False"))


HEAD = "from torch.nn.parallel import DistributedDataParallel as DDP\n"


def test_a_hook_is_registered_below():
    text = f"{HEAD}if x:\n    self.model = DDP(m)  # wrapped\n    y = 1\n"
    new = rewrite(text, "ddp.comm_hook", "bf16_compress").text
    assert new == text.replace(
        "# wrapped\n",
        "# wrapped\n"
        "    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks\n"
        "    self.model.register_comm_hook(None, default_hooks.bf16_compress_hook)\n",
    )


@pytest.mark.parametrize("word", ["register_comm_hook", "bf16_compress_hook"])
def test_a_hook_in_a_comment_is_none(word):
    text = f"{HEAD}m = DDP(m)  # no {word} yet\n"
    assert "+m.register_comm_hook(None, default_hooks.bf16_compress_hook)" in added(
        text, "ddp.comm_hook", "bf16_compress"
    )


@pytest.mark.parametrize("rest", ["train(DDP(m))", "m = DDP(m)\nm.register_comm_hook(None, mine)"])
def test_a_model_without_name_or_with_another_hook_is_left(rest):
    found = rewrite(f"{HEAD}{rest}\n", "ddp.comm_hook", "bf16_compress")
    assert not found.done
    assert len(found.why) == 1


def test_a_low_rank_hook_brings_its_state():
    text = f"{HEAD}m = DDP(m)\n"
    new = rewrite(text, "ddp.comm_hook", "powersgd").text
    assert "import powerSGD_hook\n" in new
    assert "m.register_comm_hook(powerSGD_hook.PowerSGDState(None, matrix_appr" in new
    assert new.endswith(", powerSGD_hook.powerSGD_hook)\n")


def test_sharded_modules_keep_their_parameters():
    text = "from torch.distributed.fsdp import fully_shard\nfully_shard(m, mesh=mesh)\n"
    assert added(text, "fsdp.reshard_after_forward", False) == [
        "-fully_shard(m, mesh=mesh)",
        "+fully_shard(m, mesh=mesh, reshard_after_forward=False)",
    ]
