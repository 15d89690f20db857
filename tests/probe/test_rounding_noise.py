"""A job whose results are off by what another order of its sums brings."""

import pytest

torch = pytest.importorskip("torch")

import small_jobs as jobs  # noqa: E402

from whyidle.probe.core import fault_containment  # noqa: E402
from whyidle.probe.frameworks.torch.rounding_noise import RoundingNoise  # noqa: E402


@pytest.fixture
def swayed(tmp_path):
    made = []

    def install(seed=1):
        made.append(RoundingNoise(str(tmp_path), seed))
        made[-1].install_hooks()
        return made[-1]

    yield install
    for one in made:
        one.remove_hooks()


def apart(one, another):
    return max(abs(a - b) / abs(a) for a, b in zip(one, another, strict=True))


def test_losses_go_a_little_astray_and_random_numbers_stay(swayed):
    plain = jobs.train(jobs.model(), 20)
    drawn = torch.rand(1)
    swayed()
    off = jobs.train(jobs.model(), 20)
    assert torch.rand(1) == drawn  # the job draws what it would without us
    assert plain != off
    assert apart(plain, off) < 1e-3  # other seeds go a thousand times as far
    assert apart(plain, jobs.train(jobs.model(1), 20)) > 0.1


def test_a_seed_always_goes_the_same_way(swayed):
    first = swayed()
    one = jobs.train(jobs.model(), 5)
    first.remove_hooks()
    again = swayed()
    assert jobs.train(jobs.model(), 5) == one
    again.remove_hooks()
    swayed(2)
    assert jobs.train(jobs.model(), 5) != one


def test_what_is_infinite_stays_so(swayed):
    """Masked scores are, and would be no numbers any more."""
    scores = torch.full((64,), -torch.inf)
    scores[::2] = 1.0
    found = swayed().perturb_output(scores)
    assert torch.equal(found[1::2], scores[1::2])
    assert bool((found[::2] - 1.0).abs().max() > 0)


def test_nothing_is_kept_for_the_backward_pass_and_the_layout_stays(swayed):
    sway = swayed()
    kept = []
    given = torch.rand(2, 3, 4, 4).to(memory_format=torch.channels_last).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(kept.append, lambda one: one):
        found = sway.perturb_output(given)
    assert not kept
    assert found.stride() == given.stride()
    assert 0 < (found / given - 1).abs().max() <= 64 * 2**-23 * 1.1
    found.sum().backward()
    assert given.grad.unique().tolist() == [1.0]


@pytest.mark.parametrize("fused", [False, True])
def test_fixes_that_keep_the_sums_stay_within_and_a_wrong_one_does_not(swayed, fused):
    def train(rate=0.1, **options):
        net = jobs.model()
        return jobs.train(net, 30, torch.optim.SGD(net.parameters(), lr=rate, **options))

    plain = train()
    sway = swayed()
    far = apart(plain, train())
    sway.remove_hooks()
    assert apart(plain, train(fused=fused)) <= 10 * far
    assert apart(plain, train(rate=0.1 * 1.01)) > 10 * far


def test_a_type_of_half_the_bits_is_off_by_one_unit(swayed):
    sway = swayed()
    ones = torch.ones(1000, dtype=torch.bfloat16)
    assert {float(x) for x in sway.perturb_output(ones)} <= {1 - 2**-7, 1 - 2**-8, 1.0, 1 + 2**-7}
    assert sway.perturb_output(torch.ones(3, dtype=torch.int64)) is None
    found = sway.perturb_output((torch.ones(3), "text"))
    assert found[1] == "text"


def test_a_fault_of_ours_takes_it_off(swayed, tmp_path, monkeypatch):
    monkeypatch.setattr(fault_containment, "seen", set())
    sway = swayed()
    monkeypatch.setattr(sway, "rounding_error", lambda *_: 1 / 0)
    expected = jobs.train(jobs.model(), 3)
    assert not sway.undo
    assert sway.failed
    assert "ZeroDivisionError" in next(tmp_path.glob("*.faults")).read_text()
    assert jobs.train(jobs.model(), 3) == expected
