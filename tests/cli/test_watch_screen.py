"""The screen of `whyidle watch`: keys, details, and alerts below the table."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time

import pytest
from watched_machines import fleet, gpu, job, machine, reason

from whyidle.cli._watch_screen import ScreenNotices, press_keys
from whyidle.model.live.alert import Delivery, Notice, Rule
from whyidle.reports._watch_table import WatchView, render_machine

RULE = Rule(id="held", summary="unused", of="gpu", signal="s", above=0.5, window_s=60.0)


def draw(view: WatchView, look, width: int = 100, height: int | None = 30) -> str:
    return render_machine(look, width=width, colours=None, height=height, view=view)


def test_digits_are_the_numbers_of_the_table():
    view, look = WatchView(), fleet(8)
    assert press_keys(view, b"5", look)
    assert view.opened == {"gpu5"}
    assert "GPU-0005" in draw(view, look)
    assert press_keys(view, b"59x\x1b[A\xff", look)  # there is no GPU 9
    assert view.opened == set()
    assert not press_keys(view, b"q", look)
    assert not press_keys(view, b"Q", None)  # before the first look


def test_details_name_the_fix_and_what_would_prove_a_suspicion():
    proven = reason("input 59 %")
    known = type(proven)(
        text=proven.text, proven=True, cause=proven.cause, place=proven.place, fix="num_workers=8"
    )
    likely = type(proven)(text="likely swapping", proven=False, proof="vmstat 1")
    look = machine([gpu(0, reason=known)], [job(["GPU-0000"], reason=known, suspicions=[likely])])
    text = draw(WatchView(opened={"gpu0"}), look)
    assert "try: num_workers=8" in text
    assert "likely swapping" in text
    assert text.count("try:") == 1  # once, though the job says the same


@pytest.mark.parametrize("height", [6, 12, 24])
@pytest.mark.parametrize("count", [1, 8, 64])
def test_the_foot_stays_on_the_screen(count: int, height: int):
    view = WatchView(opened={"gpu0"})
    lines = draw(view, fleet(count), 80, height).rstrip("\n").split("\n")
    assert len(lines) <= height
    assert lines[-1].startswith("q quit")


def test_alerts_stand_below_the_table_and_are_printed_afterwards(capsys):
    view = WatchView()
    notices = ScreenNotices(view)
    for number in range(5):
        labels = {"gpu": str(number), "hostname": "n"}
        told = Notice(
            key=str(number), rule=RULE, event="fires", value=1, since=0, when=9, labels=labels
        )
        notices.publish(Delivery(notices=[told], held_back=number // 4))
    text = render_machine(fleet(1), width=80, colours=None, height=24, view=view)
    assert [f"GPU {n} on n" in text for n in range(5)] == [False, False, False, True, True]
    assert "1 more notices were held back" in text
    notices.print_told()
    assert capsys.readouterr().out.count("[FIRING] held") == 5


def test_a_real_terminal_is_drawn_at_once_and_left_as_it_was():
    leader, follower = pty.openpty()
    environ = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "90", "LINES": "24"}
    command = [sys.executable, "-m", "whyidle", "watch", "--interval", "30"]
    with subprocess.Popen(command, stdin=follower, stdout=follower, env=environ) as watch:
        text, until = b"", time.monotonic() + 20
        while b"q quit" not in text and time.monotonic() < until:
            if select.select([leader], [], [], 0.2)[0]:
                text += os.read(leader, 1 << 16)
        os.write(leader, b"q")
        assert watch.wait(10) == 0
        while select.select([leader], [], [], 0.2)[0]:
            text += os.read(leader, 1 << 16)
    os.close(follower)
    os.close(leader)
    assert text.endswith(b"\x1b[?25h\x1b[?1049l")
