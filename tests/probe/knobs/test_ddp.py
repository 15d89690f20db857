"""The settings of DistributedDataParallel, with two ranks on this machine."""

import ddp_ranks
import pytest
import torch
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
