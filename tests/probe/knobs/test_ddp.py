"""The settings of DistributedDataParallel, with two ranks on this machine."""

import ddp_ranks
import pytest
import torch
from torch.nn.parallel import DistributedDataParallel
from two_ranks import both


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """What two ranks find, by the name of the work: a pair for each."""
    folder = tmp_path_factory.mktemp("ranks")
    one, other = both(ddp_ranks.__file__, folder)
    return {name: (one[name], other[name]) for name in ddp_ranks.WORK}


@pytest.mark.parametrize("clip", ddp_ranks.CLIPPING)
def test_gradients_are_exchanged_in_the_last_pass_also_where_an_epoch_ends(ranks, clip):
    plain, _ = ranks["plain" + clip]
    one, other = ranks["no sync" + clip]
    assert one[0] == other[0]  # ranks do not part
    for found, expected in zip(one[0], plain[0], strict=True):
        torch.testing.assert_close(torch.tensor(found), torch.tensor(expected))
    assert plain[1] == {}
    assert one[1] == {"ddp.no_sync": 2 * (2 + 2 + 1)}


def test_clipping_is_not_without_effect(ranks):
    assert ranks["plain"][0][0] != ranks["plain clipped"][0][0]


def test_arguments(ranks):
    for as_asked, applied in ranks["settings"]:
        assert as_asked
        assert len(applied) == 4


def test_hooks(ranks):
    one, other = ranks["hooks"]
    refused, held, own = one
    assert [grads for grads, *_ in one] == [grads for grads, *_ in other]
    assert "PyTorch refuses: BF16" in refused[2]["ddp.comm_hook"]
    assert held[1:] == [{"ddp.comm_hook": 1}, {}]
    assert held[0] != refused[0]  # compressed
    assert held[0] == pytest.approx(refused[0], rel=0.01, abs=0.01)
    assert own[2] == {"ddp.comm_hook": "the script has registered a hook of its own"}


def test_hooks_that_are_not_known(turn):
    session = turn({"ddp.comm_hook": "quantized"})
    assert "only bf16_compress, fp16_compress, powersgd" in session.declined["ddp.comm_hook"]
    assert not session.undo


def test_the_scripts_own_mistake_is_told_as_ever(turn):
    turn({"ddp.bucket_cap_mb": 1})
    with pytest.raises(TypeError, match="modul"):
        DistributedDataParallel(modul=torch.nn.Linear(1, 1))


@pytest.mark.parametrize(
    ("name", "applied"),
    [
        ("static", {"ddp.static_graph": 1}),
        ("sharded", {}),
        ("kept", {"fsdp.reshard_after_forward": 4}),
    ],
)
def test_what_only_moves_an_exchange_changes_no_number(ranks, name, applied):
    for plain, found in zip(ranks["every step"], ranks[name], strict=True):
        assert found == [*plain[:2], applied, {}]


def test_half_of_the_bytes_are_nearly_the_same_numbers(ranks):
    (plain, _), (found, other) = ranks["every step"], ranks["fp16"]
    assert found[0] != plain[0]
    assert found[0] == pytest.approx(plain[0], rel=0.01)
    assert found[1] == other[1]


def test_low_rank_gradients_begin_after_some_steps_and_ranks_end_alike(ranks):
    (plain, _), (found, other) = ranks["every step"], ranks["low rank"]
    began = ddp_ranks.WARM + 1
    assert found[0][:began] == plain[0][:began]
    assert found[0][began:] != plain[0][began:]
    assert found[0] == pytest.approx(plain[0], rel=0.2)
    assert found[1] == other[1]
    assert found[2:] == [{"ddp.comm_hook": 1}, {}]
