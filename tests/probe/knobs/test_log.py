"""Numbers that are read when somebody looks at them: on the emulated device in its own process, and
piece by piece."""

import ast
import copy
import inspect
import linecache
import logging
import math
import pickle
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from whyidle.probe.knobs import _asking, _reads, _script
from whyidle.probe.knobs._later import MOST, Later

LATE = (
    "sums",
    "products",
    "last",
    "long_sum",
    "changes_in_place",
    "forks",
    "tracked",
    "on_a_bar",
    "on_no_bar",
)
AT_ONCE = {
    "given_to_others": "it is given to client.log_metric",
    "in_place": "it is used at once",
    "listed": "it is given to shown.append",
    "returned": "handed is handed on in line",
    "dumped": "given is handed on in line",
    "decides": "it is used at once",
    "on_the_host": "no number of the device's was read",
}


@pytest.fixture(scope="module")
def seen(told_by):
    """What became of each job, see ``reads_on_emulated``."""
    return told_by("reads_on_emulated.py")


def test_what_is_shown_is_the_same_in_every_job(seen):
    assert seen.keys() == {*LATE, *AT_ONCE, "evaluated", "on_a_bar_of_its_own", "broken"}
    assert all(job["same"] for job in seen.values())
    assert [name for name, job in seen.items() if job["faults"]] == ["broken"]


@pytest.mark.parametrize("job", LATE)
def test_the_host_waits_only_where_a_number_is_looked_at(seen, job, put_off):
    put_off(seen[job])


@pytest.mark.parametrize("job", AT_ONCE)
def test_what_may_be_needed_at_once_is_read_at_once(seen, job, read_at_once):
    read_at_once(seen[job], AT_ONCE[job])


def test_a_bar_that_draws_in_a_way_of_its_own_has_the_number_at_once(seen):
    before, after = seen["on_a_bar_of_its_own"]["waits"]
    assert before / 2 < after


def test_a_fault_in_the_knob_is_not_the_jobs(seen):
    """It is given up after one."""
    assert seen["broken"]["asked"] == 1
    assert "planted" in seen["broken"]["declined"]
    assert not seen["broken"]["took"]


def test_what_comes_late_may_be_put_off_still(seen):
    assert seen["evaluated"]["took"] == 24
    assert "given to shown.append" in seen["evaluated"]["declined"]


def later(number, fresh=False):
    return Later((torch.tensor(number, dtype=torch.float64), None), fresh=fresh)


def test_sums_are_computed_as_python_would():
    numbers = torch.rand(MOST // 2, dtype=torch.float64).tolist()
    plain = put_off = 0.1
    for each in numbers:
        plain = 1 - (plain + each) - each / 3
        put_off = 1 - (put_off + later(each)) - later(each, fresh=True) / 3
        if type(put_off) is float:
            put_off = later(put_off)
    assert type(put_off) is Later
    assert float(put_off) == plain


def test_a_long_sum_is_read_before_it_holds_too_much():
    total = 0
    kinds = []
    for _ in range(MOST):
        total += later(1.0)
        kinds.append(type(total))
    assert kinds == [Later] * (MOST - 1) + [float]
    assert total == MOST


def test_what_is_read_once_is_not_read_again():
    held = torch.tensor(1.5)
    one = Later((held, None))
    assert float(one) == 1.5
    held.zero_()
    assert float(one) == 1.5
    assert type(one + 1) is float


@pytest.mark.parametrize(
    "look",
    [
        float, int, bool, str, repr, hash, abs, round, math.sqrt, math.floor, math.ceil, math.trunc,
        copy.copy, copy.deepcopy, np.float64,
        lambda one: round(one, 1),
        lambda one: f"{one:.3f} {one} {one!r}",
        lambda one: "%.2f %d %s" % (one, one, one),  # noqa: UP031 it is what is asked
        lambda one: (one * 2, 2 * one, one / 2, 2 / one, one // 2, 7 % one, one**2, 2**one, -one),
        lambda one: (one == 2.5, one != 2.5, one < 3, one <= 3, one > 3, one >= 3, one < 3),
        lambda one: (divmod(one, 2), one.is_integer(), one.hex()),
        lambda one: pickle.loads(pickle.dumps(one)),
        lambda one: (np.float64(2) * one, np.ones(2) + one).__repr__(),
        lambda one: (torch.ones(2) * one).tolist(),
        lambda one: [0, 1, 2][int(one)],
        lambda one: {2.5: "found"}[one],
    ],
)  # fmt: skip
def test_it_is_as_the_number_is(look):
    found, plain = look(later(2.5)), look(2.5)
    assert found == plain
    assert type(found) is type(plain)


def test_numbers_of_an_evaluation_are_summed_up_with_others():
    with torch.inference_mode():
        correct = torch.ones(3).sum().clone()
    total = Later((correct, None)) + Later((torch.tensor(2.0), None))
    assert type(total) is Later
    assert f"{total}" == "5.0"


def test_several_threads_may_look():
    total = sum((Later((torch.tensor(float(n)), None)) for n in range(100)), 0)
    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(float, [total] * 32)) == {4950.0}


def test_a_handler_may_look_while_a_number_is_read():
    total = later(1.0) + later(2.0)
    seen = []

    def handled(left, right):
        seen.append(f"{total}")  # as a signal's handler would, in the midst of it
        return left + right

    reads = threading.Thread(target=float, args=[Later(made=(handled, total, 1.0))], daemon=True)
    reads.start()
    reads.join(20.0)
    assert seen == ["3.0"]
    assert not reads.is_alive()


def test_whole_numbers_stay_whole():
    one = 2 + Later((torch.tensor(3), None))
    assert type(one) is Later
    assert f"{one:d}" == "5"
    assert [0, 1, 2, 3, 4, "five"][one] == "five"


def calls_of(text):
    """The calls in which it reads a number."""
    return [one for one in text.around if isinstance(one, ast.Call) and _script.reads(one)]


def why(text, main=True, **meanings):
    """Why the only read of a text cannot be put off."""
    name = {"__name__": "__main__", "__file__": "job.py"} if main else {"__name__": "job"}
    found = _reads.Text(text, name | meanings)
    (call,) = calls_of(found)
    return found.read(call).why


def within(use, before="", name="total += loss.item()", first="total = 0.0", given="n"):
    body = "\n".join("        " + line for line in [name, *use.splitlines()])
    top = f"{before}\ndef train(loader, {given}):\n    {first}\n    for loss in loader:\n"
    return f"{top}{body}\n"


@pytest.mark.parametrize(
    "use",
    [
        "",
        "print(total)",
        "print(f'{total / n:.3f} {total}')",
        "print('%s %.3f' % (n, total))",
        "print('{} {loss}'.format(total, loss=total))",
        "if total > 3: break",
        "print(math.exp(total))",
        "logging.info('loss %s', total)\nlogger.warning('%s', total)",
        "return total / n, n",
        "best = best if total > 1 else 0",
        "other = total\nprint(other)",
        "other: float = total - n\nprint(other)",
        "total = 0.0",
        "print(vars(n), dir(n))",
    ],
)
@pytest.mark.parametrize("main", [True, False])
def test_texts_that_look_at_a_number(use, main):
    given = {"math": math, "logging": logging, "logger": logging.getLogger("x")}
    assert why(within(use), main, **given) == ""


@pytest.mark.parametrize(
    "use",
    [
        "return total",
        "return total + 1",
        "yield total",
        "curve.append(total)",
        "curve[n] = total",
        "self.n.total = total",
        "meter.update(loss=total)",
        "math.exp(total)",
        "logger.info('%s', total)",
        "both = max(total, 1)",
        "pair = [total, n]",
        "pair = total, n",
        "total.hex()",
        "other = total\nreturn other",
        "f = lambda: total",
        "x = 1 if n else total",
        "[total for _ in range(3)]",
        "curve[total]",
        "total @ n",
        "(other := total)",
    ],
)
def test_texts_that_hand_it_on(use):
    """``math`` and ``logger`` are nothing that is known here."""
    assert "handed on in line" in why(within(use))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (within("", name="curve[n] = loss.item()"), "used at once"),
        (within("", name="self.n.total += loss.item()"), "used at once"),
        (within("", name="total *= loss.item()"), "used at once"),
        (within("", name="a, b = loss.item(), 1"), "used at once"),
        (within("print(locals())"), "its own variables"),
        (within("print(vars())"), "its own variables"),
        (within("print(total)", "print = send"), "handed on in line 6"),
        (within("print(total)", "from rich import print"), "handed on in line 6"),
        (within("round(total)", "def round(x): return x"), "handed on in line 6"),
        (within("abs(total)", given="abs"), "handed on in line 6"),
        (within("", "def report():\n    send(total)"), "handed on in line 2"),
    ],
)
def test_texts_that_need_it_at_once(text, said):
    assert said in why(text)


def test_whose_method_a_number_is_given_to():
    class Holder:
        writer = object()

        def __init__(self):
            self.client = Later((torch.ones(()), None))

        @property
        def late(self):
            raise AssertionError("looked at")

    self = Holder()
    frame = inspect.currentframe()
    assert _asking.meant("self.client.add", frame) == (self.client, "add")
    assert _asking.meant("turn_up.add", frame) == (None, "add")
    for nothing in ("self.late.add", "self.writer.add", "nobody.add"):
        assert _asking.meant(nothing, frame)[0] is None
    for text, which in (("a.b.add('x', loss.item(), 3)\n", 1), ("a.b.add(x=loss.item())\n", "x")):
        read = _reads.Text(text, {})
        said = _reads.Read("", method="a.b.add", argument=which)
        assert read.read(calls_of(read)[0]) == said
    read = _reads.Text("a.add({'x': loss.item()})\n", {})
    said = _reads.Read("", method="a.add", inside=True, argument="")
    assert read.read(calls_of(read)[0]) == said
    assert why("a.add({loss.item(): 'x'})\n") == "it is used at once"
    del self


def test_a_frame_that_is_asked_keeps_nothing():
    def look():
        held = torch.zeros(3)
        assert _asking.variable(sys._getframe(), "held") is held
        gone = weakref.ref(held)
        del held
        return gone()

    assert look() is None


@pytest.mark.parametrize(
    "first",
    [
        "total = 0.0",
        "total, n = 0, 1",
        "total: float = -1",
        "total = float(n)",
        "total = len(n) * 2 + 1.5",
        "total = 0\n    total = total * 2",
        "total = 0\n    total *= 2",
    ],
)
def test_a_number_is_added_to(first):
    assert why(within("", first=first)) == ""


@pytest.mark.parametrize(
    "first",
    [
        "total = torch.zeros(())",
        "total = n",
        "total, n = n",
        "for total in n: pass",
        "total = abs(n) if n else n",
        "total = 0\n    total += n",
        "total = True",
        "pass",
    ],
)
def test_whatever_else_is_added_to_may_be_no_number(first):
    """An array would be added to in place: others may hold it, too."""
    given = "total" if first == "pass" else "n"
    assert why(within("", first=first, given=given)) == "it is used at once"


def test_a_logger_that_is_an_argument_may_be_anything():
    logger = logging.getLogger("x")
    assert why(within("logger.info('%s', total)"), logger=logger) == ""
    assert "handed on" in why(within("logger.info('%s', total)", given="logger"), logger=logger)


def test_other_cells_of_a_notebook_see_its_names():
    text = _reads.Text("total = 0\ntotal += loss.item()\n", {"__name__": "__main__"})
    assert "seen from outside" in text.read(calls_of(text)[0]).why


def test_what_other_files_can_see_is_read_at_once():
    at_the_top = "total = 0.0\nfor loss in loader:\n    total += loss.item()\n"
    assert why(at_the_top) == ""
    assert "seen from outside" in why(at_the_top, main=False)
    said = within("", name="global total\n        total += loss.item()")
    assert "seen from outside" in why(said, main=False)
    assert "seen from outside" in why("class Loss:\n    total = loss.item()\n")


def test_a_text_that_has_changed_since_is_not_trusted(tmp_path):
    path = tmp_path / "job.py"
    seen = []
    path.write_text("def job(x):\n    y = 0\n    y += ask(x).item()\n")

    class Tensor:
        def item(self):
            seen.append(_asking.Asked().read(sys._getframe(1)).why)
            return 1

    names = {"ask": lambda _: Tensor()}
    exec(compile(path.read_text(), path, "exec"), names)
    for _ in range(50):  # its code changes itself
        names["job"](1)
    path.write_text("def job(x):\n    y = 1\n    y += ask(x).item()\n    return y\n")
    linecache.clearcache()
    names["job"](1)
    assert seen == [""] * 50 + ["its text is not there, or is another one by now"]


def test_the_text_is_parsed_as_python_does():
    text = _reads.Text("(a\n .b()\n .item\n ())", {})
    assert [ast.unparse(call) for call in calls_of(text)] == ["a.b().item()"]


def test_on_a_cpu_nothing_is_put_off(turn):
    hand = turn({"log.deferred": True})
    total = 0.0
    total += torch.ones(()).item()
    assert type(total) is float
    assert not hand.applied


def test_compiled_code_reads_as_ever(turn):
    turn({"log.deferred": True})

    @torch.compile(backend="eager", fullgraph=True)
    def scaled(x):
        return x * x.sum().item()

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        assert scaled(torch.ones(3)).tolist() == [3.0] * 3
