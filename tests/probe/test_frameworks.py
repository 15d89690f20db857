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


def adapter(name, package, facts=None):
    kind = type("Adapter", (Adapter,), {"__module__": f"frameworks.{name}.adapter"})
    return kind(name, package, facts)


class Derived(OrderedDict):
    """Of the job, and derived from a class of a package."""


def joined(*adapters):
    frameworks = Frameworks(adapters[0])
    for adapter in adapters[1:]:
        frameworks.add(adapter)
    return frameworks


def test_an_object_belongs_to_the_package_of_its_class_or_of_a_base():
    frameworks = joined(adapter("first", "argparse"), adapter("second", "collections"))
    assert frameworks.name_optimizer(Derived()) == "second: Derived"
    assert frameworks.describe_training(Derived()) == {"pid": 1, "framework": "second"}
    assert frameworks.describe_training(None) == {"pid": 1, "framework": "first"}


def test_what_an_adapter_made_itself_is_its_own():
    frameworks = joined(adapter("first", "argparse"), adapter("second", "collections"))
    made = type("Step", (), {"__module__": "frameworks.second.steps"})
    assert frameworks.name_optimizer(made()) == "second: Step"


def test_a_process_is_described_by_the_first_framework_that_can():
    frameworks = joined(adapter("a", "a"), adapter("b", "b", {"version": "1"}))
    assert frameworks.describe_process() == {"version": "1", "framework": "b"}
    assert joined(adapter("a", "a")).describe_process() is None
