"""What is replaced is put back as it was, and only where nobody else has replaced it since."""

import functools
import types

import pytest

from whyidle.probe.core.wrapped_functions import set_attribute


class Owner:
    @staticmethod
    def alone():
        return "alone"

    @classmethod
    def of_class(cls):
        return cls.__name__

    def of_object(self):
        return "object"


class Heir(Owner):
    """Holds none of it itself."""


@pytest.mark.parametrize("name", ["alone", "of_class", "of_object"])
def test_what_an_owner_holds_is_put_back_as_it_was(name):
    before = vars(Owner)[name]
    undo = set_attribute(Owner, name, lambda *_: "ours")
    assert getattr(Owner(), name)() == "ours"
    undo()
    assert vars(Owner)[name] is before


def test_what_is_inherited_is_so_again():
    undo = set_attribute(Heir, "alone", staticmethod(lambda: "ours"))
    assert Heir.alone() == "ours"
    undo()
    assert "alone" not in vars(Heir)
    assert Heir.alone() == "alone"


def test_what_somebody_else_has_put_there_since_stays():
    module = types.ModuleType("saving")
    module.save = lambda what: [what]
    ours = functools.partial(module.save)
    undo = set_attribute(module, "save", ours)
    below = module.save
    module.save = lambda what: below(what) if what else None
    theirs = module.save
    undo()
    assert module.save is theirs
    assert module.save("it") == ["it"]
