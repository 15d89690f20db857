"""The schedule gives what the equations of the replay give, computed piece by piece."""

import numpy as np
import pytest

from whyidle.analysis.device.device_lanes import CALL_NS, SENT, WORK, Lanes
from whyidle.analysis.facts import Facts
from whyidle.analysis.steps.step_replay import HostWait, Schedule
from whyidle.testing.builder import Builder, us


def train_at_random(random: np.random.Generator) -> Facts:
    """Kernels, collectives, and both kinds of waits, in any order."""
    job = Builder(rank=0, world_size=2)
    for _ in range(int(random.integers(1, 4))):
        with job.step():
            for action in random.integers(0, 8, size=int(random.integers(1, 40))).tolist():
                length = us(float(random.integers(1, 300)))
                if action < 4:
                    job.op("aten::mm", kernels=[("gemm", length)], host=us(random.integers(1, 90)))
                elif action < 6:
                    job.collective(length)
                elif action == 6:
                    job.join()
                else:
                    job.item()
    return Facts(job.timeline())


def replay_by_piece(lanes, begin, ended, change):
    arrives, costs, waits = change
    work, sent = lanes.lanes
    passed = [np.searchsorted(begin, lane.called, side="left") for lane in lanes.lanes]
    done, arrived, lead = [float(lanes.low)], [float(lanes.low)], [0.0]

    def send_collectives(count):
        for i in range(len(arrived) - 1, count):
            called = arrives[SENT][i] - lead[min(passed[SENT][i], len(lead) - 1)]
            start = max(called, done[sent.other[i]], arrived[sent.own[i]])
            arrived.append(max(arrived[-1], start + costs[SENT][i]))

    def drain(works, sends):
        for i in range(len(done) - 1, works):
            send_collectives(work.other[i])
            called = arrives[WORK][i] - lead[min(passed[WORK][i], len(lead) - 1)]
            done.append(max(called, done[-1], arrived[work.other[i]]) + costs[WORK][i])
        send_collectives(sends)
        return max(done[-1], arrived[sends])

    for (works, sends), wait in zip(ended, waits, strict=True):
        device, moment = drain(works, sends), wait.begin - lead[-1]
        if wait.given:
            after = max(moment + CALL_NS, wait.recorded_end)
        elif wait.dropped:
            after = moment + min(wait.own_time, CALL_NS)
        else:
            after = max(moment, device) + wait.own_time
        lead.append(wait.end - after)
    return drain(len(work.rows), len(sent.rows)), lead[-1]


@pytest.mark.parametrize("seed", range(60))
def test_a_schedule_gives_what_the_equations_give_piece_by_piece(seed):
    random = np.random.default_rng(seed)
    facts = train_at_random(random)
    low, high = int(facts.scope.start[0]), int(facts.scope.end[-1])
    lanes = Lanes(facts.timeline, facts.launches, low, high)
    begin = np.sort(random.integers(low, high, size=int(random.integers(0, 9))))
    end = begin + random.integers(1, 50_000, size=len(begin))
    ended = np.stack(lanes.ended_pieces(np.maximum.accumulate(end)), axis=1)
    spread = [random.uniform(-1, 1, size=len(lane.rows)) for lane in lanes.lanes]
    arrives = [lane.arrives + 30_000 * by for lane, by in zip(lanes.lanes, spread, strict=True)]
    costs = [lane.work * (1.5 + by) for lane, by in zip(lanes.lanes, spread, strict=True)]
    own_time, (given, dropped) = end - begin - 1.0, random.random((2, len(begin))) < 0.3
    waits = [
        HostWait(*row)
        for row in zip(begin, end, own_time, end, given.tolist(), dropped.tolist(), strict=True)
    ]
    change = arrives, costs, waits
    expected = replay_by_piece(lanes, begin, ended, change)
    assert Schedule(lanes, begin, ended).run(*change) == pytest.approx(
        expected, rel=1e-12, abs=1e-3
    )
