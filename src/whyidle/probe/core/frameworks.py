"""All frameworks that one process has imported, as one framework.

Keras trains with TensorFlow, JAX or PyTorch, and JAX reads its batches through any of them: a
process may have several, and one of them trains. Each object is named and described by the
framework that its class comes from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..wire import ProcessFacts
from .adapter import Adapter
from .op_profiler import OpProfiler

BACKWARD = "whyidle::backward"


class Frameworks:
    """The adapters of a process, in the order of their imports."""

    backward_label = BACKWARD

    def __init__(self, first: Adapter) -> None:
        self.adapters = [first]
        self.is_tracing: Callable[[], bool] = first.is_tracing

    def add(self, adapter: Adapter) -> None:
        """Add a framework that was imported later."""
        self.adapters.append(adapter)
        if self.is_tracing is bool:
            self.is_tracing = adapter.is_tracing

    def adapter_of(self, kind: type) -> Adapter:
        """Return the framework that a class comes from, or whose adapter has it; of an unknown
        class the first."""
        modules = [base.__module__ for base in kind.__mro__]
        packages = {module.partition(".")[0] for module in modules}
        for adapter in self.adapters:
            folder = type(adapter).__module__.rpartition(".")[0]
            inside = any(module.startswith(f"{folder}.") for module in modules)
            if inside or not packages.isdisjoint(adapter.packages):
                return adapter
        return self.adapters[0]

    def name_batch(self, iterator: type) -> tuple[str, str]:
        """Return role and label of the batches that iterators of this class return."""
        return self.adapter_of(iterator).name_batch(iterator)

    def name_optimizer(self, optimizer: Any) -> str:
        """Return the label of an optimizer's steps."""
        return self.adapter_of(type(optimizer)).name_optimizer(optimizer)

    def describe_process(self) -> ProcessFacts | None:
        """Return facts that hold whether the process trains or not; None if none are known."""
        for adapter in self.adapters:
            facts = adapter.describe_process()
            if facts is not None:
                return {**facts, "framework": adapter.name}
        return None

    def describe_training(self, optimizer: Any) -> ProcessFacts:
        """Return the facts known when training begins."""
        adapter = self.adapter_of(type(optimizer))
        return {**adapter.describe_training(optimizer), "framework": adapter.name}

    def op_profiler(self, facts: ProcessFacts) -> OpProfiler:
        """Return the profiler of the framework that trains."""
        name = facts.get("framework")
        own = (adapter for adapter in self.adapters if adapter.name == name)
        return next(own, self.adapters[0]).op_profiler(facts)
