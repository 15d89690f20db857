"""Which framework of a process names and describes what."""

from collections import OrderedDict

from whyidle.probe.core.frameworks import Frameworks


class Adapter:
    is_tracing = staticmethod(bool)

    def __init__(self, name, package, facts=None):
        self.name, self.packages, self.facts = name, (package,), facts

    def name_optimizer(self, optimizer):
        return f"{self.name}: {type(optimizer).__name__}"

    def describe_process(self):
        return self.facts

    def describe_training(self, optimizer):
        return {"pid": 1}


class Derived(OrderedDict):
    """Of the job, and derived from a class of a package."""


def joined(*adapters):
    frameworks = Frameworks(adapters[0])
    for adapter in adapters[1:]:
        frameworks.add(adapter)
    return frameworks


def test_an_object_belongs_to_the_package_of_its_class_or_of_a_base():
    frameworks = joined(Adapter("first", "argparse"), Adapter("second", "collections"))
    assert frameworks.name_optimizer(Derived()) == "second: Derived"
    assert frameworks.describe_training(Derived()) == {"pid": 1, "framework": "second"}
    assert frameworks.describe_training(None) == {"pid": 1, "framework": "first"}


def test_a_process_is_described_by_the_first_framework_that_can():
    frameworks = joined(Adapter("a", "a"), Adapter("b", "b", {"version": "1"}))
    assert frameworks.describe_process() == {"version": "1", "framework": "b"}
    assert joined(Adapter("a", "a")).describe_process() is None
