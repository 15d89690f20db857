"""Policies that are asked for one action at a time."""

from cured_twins import judge
from whyidle.testing.contracts import Pair
from whyidle.testing.recorded_job import RecordedJob

CAUSE = "single-sample-policy"
MS = 1_000_000
S = "/env/lib/python3.11/site-packages/"
PLAY = """for episode in range(n):
    for t in range(1000):
        action = select(state)
        state, reward, done, _ = env.step(action)
        turns.append((action, reward))
    loss = loss_of(turns)
    loss.backward()
    optimizer.step()
"""
POLICY = f"{S}torch/nn/modules/linear.py(134): forward;/job/play.py(3): <module>"
ENV = "/job/pole.py(20): step;/job/play.py(4): <module>"
BACKWARD = f"{S}torch/autograd/graph.py(9): _engine_run_backward;/job/play.py(7): <module>"


def play(policy_ms=40, env_ms=5, source=PLAY, look="python"):
    job = RecordedJob()
    job.sources = {"/job/play.py": source}
    for _ in range(60):
        getattr(job, look)(POLICY, policy_ms * MS)
        job.python(ENV, env_ms * MS)
        job.backward(BACKWARD, int(1.6 * policy_ms * MS))
        job.step(f"{S}torch/optim/adam.py(9): step;/job/play.py(8): <module>", 5 * MS)
    return job


def test_the_policy_is_found_and_the_environment_stays():
    proof = judge(CAUSE, play(env_ms=30))
    assert proof
    assert [place.line for place in proof.where] == [3]
    assert proof.predicted.speedup < (40 + 64 + 30 + 5) / (30 + 5)
    assert proof.predicted.speedup > 2.5


def test_a_large_model_is_left_alone():
    assert judge(CAUSE, play(look="work")) is None


PAIRS = {
    CAUSE: Pair(sick=play, healthy=lambda: play(source=PLAY.replace("env.step", "envs.step"))),
}
