"""Numbers that are kept on objects and read when somebody looks at them: on the emulated device in
its own process, and the class that is changed for it by itself."""

import ast
import copy
import pickle

import pytest
import torch

from whyidle.probe.knobs import _attributes, _kept, _reads, _script
from whyidle.probe.knobs._later import Later

LATE = ("on_an_object", "metered", "extremes", "smooth", "most", "carried_away")
AT_ONCE = {
    "is_slotted": "is no plain class",
    "of_the_class": "has something else as its total",
    "derived": "has something else as its total",
    "forwarded": "it is given to meter.update: val is handed on in line",
    "no_number_yet": "one.total is no plain number so far",
    "looked_into": "looked_into.py may look into it by other ways than names",
}


@pytest.fixture(scope="module")
def told(told_by):
    return told_by("kept_on_emulated.py")


@pytest.fixture
def seen(told):
    return told["jobs"]


def test_what_is_shown_is_the_same_in_every_job(seen):
    assert seen.keys() == {*LATE, *AT_ONCE, "is_looked_at"}
    assert [name for name, job in seen.items() if not job["same"] or job["faults"]] == []


def test_classes_are_as_they_were_in_the_end(told):
    assert told["left"] == []


@pytest.mark.parametrize("job", LATE)
def test_the_host_waits_only_where_a_number_is_looked_at(seen, job, put_off):
    put_off(seen[job])


@pytest.mark.parametrize("job", AT_ONCE)
def test_what_cannot_be_kept_so_is_read_at_once(seen, job, read_at_once):
    read_at_once(seen[job], AT_ONCE[job])


def test_whoever_looks_in_every_step_gets_the_number(seen):
    """One wait for each: whether the device is still at it when it is asked, time tells."""
    _, after = seen["is_looked_at"]["waits"]
    assert after <= seen["is_looked_at"]["took"] == 24


def read(text):
    found = _reads.Text(text, {"__name__": "__main__", "__file__": "job.py"})
    call = next(one for one in found.around if isinstance(one, ast.Call) and _script.reads(one))
    return found.read(call)


def within(*lines):
    body = "\n".join("            " + line for line in lines)
    return f"class T:\n    def train(self, meter):\n        for loss in self.data:\n{body}\n"


@pytest.mark.parametrize(
    ("lines", "kept", "again"),
    [
        (["self.last = loss.item()"], {"last"}, []),
        (["self.total += loss.item()"], {"total"}, ["self.total"]),
        (["meter.total -= loss.item() * 2"], {"total"}, ["meter.total"]),
        (["x = loss.item()", "self.a = self.b = x"], {"a", "b"}, []),
        (
            ["self.sum += loss.item()", "self.mean = self.sum / 3 - 1", "print(self.mean)"],
            {"sum", "mean"},
            ["self.sum", "self.sum"],
        ),
        (["self.most = max(self.most, loss.item())"], {"most"}, ["self.most"]),
        (["self.most = max(loss.item(), self.most) + 1"], {"most"}, ["self.most"]),
        (["self.sum += loss.item()", "x = self.sum"], {"sum"}, ["self.sum"]),
        (["self.sum += loss.item()", "self.other.mean = self.sum"], {"sum"}, ["self.sum"]),
    ],
)
def test_what_comes_to_hold_a_number(lines, kept, again):
    found = read(within(*lines))
    assert not found.why
    assert found.wide
    assert {one.name for one in found.kept} == kept
    assert sorted(map(ast.unparse, found.again)) == again


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["self.a.total += loss.item()"], "used at once"),
        (["self.total[0] += loss.item()"], "used at once"),
        (["self.total, x = loss.item(), 1"], "used at once"),
        (["self.most = max(self.most, loss.item(), 1)"], "used at once"),
        (["self.most = max(self.most, loss.item() + 1)"], "used at once"),
        (["self.most = max(self.most, loss.item(), key=abs)"], "used at once"),
        (["x = loss.item()", "meter = self.next", "meter.last = x"], "x is handed on in line 6"),
        (["x = loss.item()", "f = lambda: setattr(self, 'x', x)"], "x is handed on in line 5"),
    ],
)
def test_what_may_not_hold_it(lines, said):
    assert said in read(within(*lines)).why


def test_another_max_is_nobodys():
    own = "def max(a, b): return type(b)\n"
    assert "used at once" in read(own + within("self.most = max(self.most, loss.item())")).why


@pytest.mark.parametrize("ask", [max, min])
@pytest.mark.parametrize("numbers", [(1.0, 2.0), (2.0, 1.0), (2, 2.0), (2.0, 2), (0.0, -0.0)])
@pytest.mark.parametrize("late", [(True, False), (False, True), (True, True)])
def test_the_larger_and_the_smaller_are_as_python_finds_them(ask, numbers, late):
    def put_off(number, fold=""):
        return Later((torch.tensor(number), None), fold=fold)

    read_last = 0 if late == (True, False) else 1
    given = [
        put_off(number, ask.__name__ if place == read_last else "") if wanted else number
        for place, (number, wanted) in enumerate(zip(numbers, late, strict=True))
    ]
    found, plain = ask(*given), ask(*numbers)
    assert type(found) is Later
    assert repr(found) == repr(plain)


@pytest.mark.parametrize("given", [(float("nan"), 1.0), (1.0, float("nan"))])
def test_what_is_no_number_is_kept_as_python_would(given):
    first, second = given
    assert repr(max(first, Later((torch.tensor(second), None), fold="max"))) == repr(max(*given))


def test_a_long_search_for_the_largest_is_read_before_it_holds_too_much():
    most, kinds = 0.0, set()
    for number in range(600):
        most = max(most, Later((torch.tensor(float(number % 500)), None), fold="max"))
        kinds.add(most._known is None)
    assert kinds == {True, False}
    assert most == 499.0


def test_nothing_is_divided_by_later():
    with pytest.raises(OverflowError):
        Later((torch.tensor(1.0), None), wide=True) / 10**400
    with pytest.raises(ZeroDivisionError):
        Later((torch.tensor(1.0), None), wide=True) / 0
    with pytest.raises(ZeroDivisionError):
        1 / Later((torch.tensor(0.0), None), wide=True)
    assert type(Later((torch.tensor(1.0), None), wide=True) / 2) is Later


class Holder:
    def __repr__(self):
        return "holder"


@pytest.fixture
def places():
    made = _kept.Places(lambda work, *args: work(*args))
    assert made.keep(Holder(), "total") == ""
    yield made
    made.back()


def test_an_attribute_is_as_any_other(places):
    one = Holder()
    for whose in (one, Holder):
        with pytest.raises(AttributeError, match=r"'Holder'.* has no attribute 'total'"):
            _ = whose.total
    with pytest.raises(AttributeError, match="'Holder' object has no attribute 'total'"):
        del one.total
    one.total = Later((torch.tensor(2.5), None))
    assert type(one.total) is float
    assert one.total == 2.5
    one.total += 1
    assert vars(one) == {"total": 3.5}
    del one.total
    assert not hasattr(one, "total")


def test_numbers_are_left_with_the_objects(places):
    one, gone = Holder(), Holder()
    one.total = gone.total = Later((torch.tensor(2.5), None))
    del gone
    places.back()
    assert "total" not in vars(Holder)
    assert type(vars(one)["total"]) is float


def test_compiled_code_can_look_at_what_is_kept(places):
    class Net(Holder):
        def forward(self, x):
            y = x * self.total
            self.total = 3.0
            return y * self.total

    net = Net()
    net.total = Later((torch.tensor(2.0), None))
    compiled = torch.compile(net.forward, backend="eager")
    assert compiled(torch.ones(2)).tolist() == [6.0, 6.0]
    assert net.total == 3.0


def test_what_is_saved_is_as_without_it(places):
    one, plain = Holder(), pickle.dumps({"total": 2.5})
    one.total = Later((torch.tensor(2.5), None))
    assert type(vars(copy.copy(one))["total"]) is float
    other = Holder()
    other.total = Later((torch.tensor(2.5), None))
    assert b"builtins" not in pickle.dumps(other)
    assert plain[-12:-4] in pickle.dumps(other)
    places.back()
    assert "__reduce_ex__" not in vars(Holder)


def test_what_the_job_has_put_in_its_place_stays(places):
    Holder.total = 0.0
    places.back()
    assert Holder.total == 0.0
    del Holder.total


@pytest.mark.parametrize(
    ("text", "looked"),
    [
        ("'{a}'.format(**self.__dict__)", False),
        ("form.format(1, **self.__dict__)", False),
        ("x = self.__dict__", True),
        ("send(**self.__dict__)", True),
        ("send(x=self.__dict__)", True),
        ("vars(self)['x']", True),
        ("dumps(self, default=vars)", True),
        ("getattr(self, name)", False),
    ],
)
def test_files_that_look_into_objects(text, looked):
    assert _attributes.looked_into(_reads.Text(text, {})) is looked


def test_a_librarys_classes_are_left_alone():
    class Own(torch.nn.Module):
        pass

    class Lenient(torch.nn.Module):
        def __setattr__(self, name, value):
            super().__setattr__(name, value)

    assert _kept.usual(Own)
    assert not _kept.usual(Lenient)
    assert not _kept.usual(torch.nn.Linear)
    assert not _kept.usual(type("Made", (torch.nn.Linear,), {}))
    assert not _kept.usual(int)
