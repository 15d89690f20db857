"""How real steps divide into passes and the rest."""

import time

import pytest

from whyidle.probe.frameworks.torch.step_marks import StepMarks

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
FAULT_S = 1e-6


class Slow(torch.nn.Linear):
    def forward(self, x):
        time.sleep(0.02)
        return super().forward(x)


@pytest.fixture
def marked():
    net = Slow(4, 4)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    before = len(torch.nn.modules.module._global_forward_pre_hooks)
    marks = StepMarks(torch, optimizer, lambda work: work)
    for number in range(3):
        time.sleep(0.01)
        with torch.no_grad():  # an evaluation is no pass
            net(torch.ones(1, 4))
        loss = sum(net(torch.ones(1, 4)).sum() for _ in range(2))  # two micro-batches
        loss.backward()
        optimizer.step()
        if number == 1:
            torch.empty(1 << 24).fill_(0)  # 64 MB that were never used, 16,384 pages
        marks.end_step()
    marks.stop()
    assert len(torch.nn.modules.module._global_forward_pre_hooks) == before
    net(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    return marks


def test_shares_of_the_passes_and_the_rest(marked):
    assert len(marked.rows) == 3
    own, rest = marked.median_shares(0.0)
    # 40 of 70 ms, and machines at load sleep longer
    assert 0.35 < own < 0.75
    assert own + rest == pytest.approx(1.0)


def test_page_faults_are_no_part_of_the_shares(marked):
    own, rest = marked.median_shares(FAULT_S)
    assert own + rest < 1.0 - FAULT_S * 16_000 / 2  # the second step of two that count


def test_the_fewest_page_faults_of_a_step(marked):
    own, rest = marked.least_faults()
    assert 0 <= own < 2_000
    assert rest < 16_000
