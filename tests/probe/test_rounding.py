"""A job whose results are off by what another order of its sums brings."""

import pytest

torch = pytest.importorskip("torch")

import small_jobs as jobs  # noqa: E402

from whyidle.probe import guard  # noqa: E402
from whyidle.probe.rounding import Sway  # noqa: E402


@pytest.fixture
def swayed(tmp_path):
    made = []

    def install(seed=1):
        made.append(Sway(str(tmp_path), seed))
        made[-1].install()
        return made[-1]

    yield install
    for one in made:
        one.remove()


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
    first.remove()
    again = swayed()
    assert jobs.train(jobs.model(), 5) == one
    again.remove()
    swayed(2)
    assert jobs.train(jobs.model(), 5) != one


@pytest.mark.parametrize("fused", [False, True])
def test_fixes_that_keep_the_sums_stay_within_and_a_wrong_one_does_not(swayed, fused):
    def train(rate=0.1, **options):
        net = jobs.model()
        return jobs.train(net, 30, torch.optim.SGD(net.parameters(), lr=rate, **options))

    plain = train()
    sway = swayed()
    far = apart(plain, train())
    sway.remove()
    assert apart(plain, train(fused=fused)) <= 10 * far
    assert apart(plain, train(rate=0.1 * 1.01)) > 10 * far


def test_a_type_of_half_the_bits_is_off_by_one_unit(swayed):
    sway = swayed()
    ones = torch.ones(1000, dtype=torch.bfloat16)
    assert {float(x) for x in sway.output(ones)} <= {1 - 2**-7, 1 - 2**-8, 1.0, 1 + 2**-7}
    assert sway.output(torch.ones(3, dtype=torch.int64)) is None
    found = sway.output((torch.ones(3), "text"))
    assert found[1] == "text"


def test_a_fault_of_ours_takes_it_off(swayed, tmp_path, monkeypatch):
    monkeypatch.setattr(guard, "seen", set())
    sway = swayed()
    monkeypatch.setattr(sway, "factor", lambda *_: 1 / 0)
    expected = jobs.train(jobs.model(), 3)
    assert not sway.undo
    assert "ZeroDivisionError" in next(tmp_path.glob("*.faults")).read_text()
    assert jobs.train(jobs.model(), 3) == expected
