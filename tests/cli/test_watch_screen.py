"""The screen of `whyidle watch`: keys, details, and alerts below the table."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time

import pytest
from watched_machines import fleet, gpu, job, machine, reason

from whyidle.cli._watch_screen import _KEY, Keys, ScreenNotices
from whyidle.model.live.alert import Delivery, Notice, Rule
from whyidle.reports._watch_table import WatchView, render_machine

RULE = Rule(id="held", summary="unused", of="gpu", signal="s", above=0.5, window_s=60.0)
LOOSE = job([], key="run:1", user="eve", command="python loose.py")


def draw(keys: Keys, look, width: int = 100, height: int | None = 30) -> str:
    return render_machine(look, width=width, colours=None, height=height, view=keys.view)


def press(keys: Keys, text: bytes, look) -> bool:
    return all(keys.press(key, look) for key in _KEY.findall(text))


def test_the_cursor_opens_any_row():
    look = machine([gpu(0), gpu(1, "free", jobs=[])], [job(["GPU-0000"]), LOOSE])
    keys = Keys()
    press(keys, b"\x1b[B\x1b[B\x1bOB\x1b[B\r", look)  # the last key stays at the end
    assert (keys.view.selected, keys.view.opened) == ("run:1", {"run:1"})
    assert "started 2.5 h ago" in draw(keys, look)
    press(keys, b"k\n", look)
    assert keys.view.opened == {"run:1", "gpu1"}
    press(keys, b"\x1b", look)
    assert (keys.view.selected, keys.view.opened) == (None, set())


def test_q_ends_and_other_keys_do_nothing():
    keys, look = Keys(), fleet(2)
    assert press(keys, b"xyz\x1b[C\x00", look)
    assert keys.view == WatchView()
    assert not press(keys, b"q", look)
    assert not press(keys, b"Q", None)  # before the first look


def test_details_name_the_fix_and_what_would_prove_a_suspicion():
    proven = reason("input 59 %")
    known = type(proven)(
        text=proven.text, proven=True, cause=proven.cause, place=proven.place, fix="num_workers=8"
    )
    likely = type(proven)(text="likely swapping", proven=False, proof="vmstat 1")
    look = machine([gpu(0, reason=known)], [job(["GPU-0000"], reason=known, suspicions=[likely])])
    keys = Keys()
    press(keys, b"j\r", look)
    text = draw(keys, look)
    assert "try: num_workers=8" in text
    assert "likely swapping" in text
    assert text.count("try:") == 1  # once, though the job says the same


@pytest.mark.parametrize("height", [6, 12, 24])
@pytest.mark.parametrize("count", [1, 8, 64])
def test_the_foot_stays_on_the_screen(count: int, height: int):
    keys, look = Keys(), fleet(count)
    press(keys, b"j\r", look)
    lines = draw(keys, look, 80, height).rstrip("\n").split("\n")
    assert len(lines) <= height
    assert lines[-1].startswith("q quit")


@pytest.mark.parametrize("number", [0, 30, 63])
def test_the_selected_row_is_always_shown(number: int):
    keys, look = Keys(), fleet(64)
    keys.view.selected = f"gpu{number}"
    text = render_machine(look, width=80, colours="standard", height=24, view=keys.view)
    lines = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in text.split("\n")]
    assert any(line.startswith(f"{number} ") for line in lines)
    assert any(re.fullmatch(r"\d+ more lines: .*", line) for line in lines)
    (marked,) = [line for line in text.split("\n") if "\x1b[7m" in line]
    assert len(re.sub(r"\x1b\[[\d;]*m", "", marked)) == 80  # over the whole width


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
