"""Calls of a training loop in stacks."""

from __future__ import annotations

import pytest

from whyidle.analysis.sampling.calls_from_stacks import (
    FrameRoles,
    SeenCall,
    are_steps_seen,
    join_calls,
    name_call,
)
from whyidle.frameworks.torch.names import VOCABULARY

SITE = "/usr/lib/python3/site-packages/torch"
LOOP = "/job/train.py(16): main"
NEXT = f"{SITE}/utils/data/dataloader.py(725): __next__"
INLINE = (
    f"{SITE}/utils/data/_utils/fetch.py(54): fetch",
    f"{SITE}/utils/data/dataloader.py(785): _next_data",
)
WAITING = (f"{SITE}/utils/data/dataloader.py(1275): _try_get_data",)


@pytest.mark.parametrize(
    ("frames", "role"),
    [
        (("/job/data.py(9): __getitem__", *INLINE, NEXT, LOOP), "batch_inline"),
        (
            ("/usr/lib/python3.11/selectors.py(415): select", *WAITING, NEXT, LOOP),
            "batch_from_workers",
        ),
        ((f"{SITE}/utils/data/dataloader.py(770): _next_data", NEXT, LOOP), "batch"),
        (
            (
                f"{SITE}/autograd/graph.py(979): _engine_run_backward",
                f"{SITE}/_tensor.py(623): backward",
                LOOP,
            ),
            "backward",
        ),
        (
            (f"{SITE}/optim/sgd.py(127): step", f"{SITE}/optim/optimizer.py(530): wrapper", LOOP),
            "optimizer",
        ),
        ((f"{SITE}/optim/optimizer.py(1000): zero_grad", LOOP), ""),
        ((f"{SITE}/nn/functional.py(2000): relu", LOOP), ""),
        ((LOOP,), ""),
    ],
)
def test_the_outermost_call_names_the_phase(frames: tuple[str, ...], role: str):
    assert name_call(frames, FrameRoles(VOCABULARY)) == role


def test_work_of_a_model_inside_the_loader_is_loading():
    inside = (
        f"{SITE}/autograd/graph.py(979): _engine_run_backward",
        "/job/data.py(9): __getitem__",
    )
    assert name_call((*inside, *INLINE, NEXT, LOOP), FrameRoles(VOCABULARY)) == "batch_inline"


def test_successive_periods_of_a_call_are_one():
    periods = [
        (0, 5, "batch"),
        (5, 9, "batch_inline"),
        (9, 12, ""),
        (12, 20, "backward"),
        (25, 30, "backward"),
    ]
    assert join_calls(periods) == [
        SeenCall(0, 9, "batch_inline"),
        SeenCall(12, 20, "backward"),
        SeenCall(25, 30, "backward"),
    ]


def loop(batch: int, rest: int, steps: int) -> list[SeenCall]:
    length = batch + rest
    return [SeenCall(i * length, i * length + batch, "batch_inline") for i in range(steps)]


def test_steps_are_seen_if_no_phase_is_short():
    assert are_steps_seen(loop(100, 60, 10), 20.0)
    assert not are_steps_seen(loop(100, 30, 10), 20.0)
    assert not are_steps_seen(loop(30, 100, 10), 20.0)
    assert not are_steps_seen(loop(100, 60, 5), 20.0)
