"""The settings of DistributedDataParallel, with two ranks on this machine."""

import multiprocessing
import os
import traceback

import pytest
import small_jobs as jobs
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from whyidle.probe import knobs

ranks = pytest.mark.skipif(not hasattr(os, "fork"), reason="ranks are forked")


def rank_of(work, rank, folder, results):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    try:
        results.put((rank, work(rank, folder)))
    except BaseException:
        results.put((rank, traceback.format_exc()))
    finally:
        dist.destroy_process_group()


def both(work, folder):
    """What two ranks find."""
    folder.mkdir()
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    children = [context.Process(target=rank_of, args=(work, r, folder, results)) for r in (0, 1)]
    for child in children:
        child.start()
    found = dict(results.get(timeout=60) for _ in children)
    for child in children:
        child.join(60)
    assert not [one for one in found.values() if isinstance(one, str)], found
    return found[0], found[1]


def turned(edits, folder):
    hand = knobs.Hand(str(folder), {"edits": edits})
    hand.turn()
    return hand


EPOCH = 7
"""micro-batches: two steps of three, and one of what is left"""


def accumulating(edits, clip=False):
    def work(rank, folder):
        hand = turned(edits, folder)
        torch.manual_seed(0)
        model = DistributedDataParallel(torch.nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        made = torch.Generator().manual_seed(rank)
        for _ in range(2):
            for number in range(1, EPOCH + 1):
                model(torch.randn(3, 4, generator=made)).pow(2).mean().backward()
                if number % 3 == 0 or number == EPOCH:
                    if clip:
                        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
                    optimizer.step()
                    optimizer.zero_grad()
            model.eval()
            model(torch.randn(3, 4, generator=made))
            model.train()
        return [p.tolist() for p in model.parameters()], hand.applied

    return work


@ranks
@pytest.mark.parametrize("clip", [False, True])
def test_gradients_are_exchanged_in_the_last_pass_also_where_an_epoch_ends(tmp_path, clip):
    plain, _ = both(accumulating({}, clip), tmp_path / "plain")
    one, other = both(accumulating({"ddp.no_sync": 3}, clip), tmp_path / "treated")
    assert one[0] == other[0]  # ranks do not part
    for found, expected in zip(one[0], plain[0], strict=True):
        torch.testing.assert_close(torch.tensor(found), torch.tensor(expected))
    assert one[1] == {"ddp.no_sync": 2 * (2 + 2 + 1)}


def settings(rank, folder):
    hand = turned(
        {"ddp.bucket_cap_mb": 1, "ddp.gradient_as_bucket_view": True, "ddp.static_graph": True},
        folder,
    )
    model = DistributedDataParallel(torch.nn.Linear(4, 2), None, None, 0)
    model(torch.ones(1, 4)).sum().backward()
    return model.bucket_bytes_cap, model.gradient_as_bucket_view, model.static_graph, hand.applied


@ranks
def test_arguments(tmp_path):
    for cap, view, static, applied in both(settings, tmp_path / "ranks"):
        assert (cap, view, static) == (1 << 20, True, True)
        assert len(applied) == 3


def hooks(rank, folder):
    found = []
    for name in ("bf16_compress_hook", "fp16_compress_hook"):  # the first one needs NCCL
        default_hooks.bf16_compress_hook = getattr(default_hooks, name)
        hand = turned({"ddp.comm_hook": "bf16_compress"}, folder)
        model = DistributedDataParallel(jobs.model())
        torch.manual_seed(rank)
        model(torch.randn(2, 8)).sum().backward()
        grads = [p.grad.flatten()[0].item() for p in model.parameters()]
        found.append((grads, hand.applied, hand.declined))
        hand.back()
    hand = turned({"ddp.comm_hook": "bf16_compress"}, folder)
    own = DistributedDataParallel(torch.nn.Linear(4, 2))
    own.register_comm_hook(None, default_hooks.allreduce_hook)
    own(torch.ones(1, 4)).sum().backward()
    return [*found, (None, hand.applied, hand.declined)]


@ranks
def test_hooks(tmp_path):
    one, other = both(hooks, tmp_path / "ranks")
    refused, held, own = one
    assert [grads for grads, *_ in one] == [grads for grads, *_ in other]
    assert "PyTorch refuses: BF16" in refused[2]["ddp.comm_hook"]
    assert held[1:] == ({"ddp.comm_hook": 1}, {})
    assert held[0] != refused[0]  # compressed
    assert held[0] == pytest.approx(refused[0], rel=0.01, abs=0.01)
    assert own[2] == {"ddp.comm_hook": "the script has registered a hook of its own"}


def test_hooks_that_are_not_known(turn):
    hand = turn({"ddp.comm_hook": "powerSGD"})
    assert hand.declined == {"ddp.comm_hook": "only bf16_compress is known"}
    assert not hand.undo


def test_the_scripts_own_mistake_is_told_as_ever(turn):
    turn({"ddp.bucket_cap_mb": 1})
    with pytest.raises(TypeError, match="modul"):
        DistributedDataParallel(modul=torch.nn.Linear(1, 1))
