"""Requests to iterators of data libraries. The libraries are stand-ins with the names, the classes
and the inheritance of the real ones; DALI has never been run with whyidle on a GPU."""

import importlib
import sys

import pytest
import standin

from whyidle.probe.core import data_libraries
from whyidle.probe.core.events import Events
from whyidle.probe.core.recorder import Recorder

GRAIN = """
class DatasetIterator:
    pass
class MapIterator(DatasetIterator):
    def __init__(self, items): self.items = iter(items)
    def __next__(self): return next(self.items)
    def __iter__(self): return self
"""
LATER = """
from grain._src.python.dataset.dataset import DatasetIterator
class BatchIterator(DatasetIterator):
    def __init__(self, parent): self.parent = parent
    def __next__(self): return next(self.parent), next(self.parent)
    def __iter__(self): return self
"""
DALI = """
class _DaliBaseIterator:
    def __next__(self): raise NotImplementedError
    def __iter__(self): return self
class DALIGenericIterator(_DaliBaseIterator):
    left = 3
    def __next__(self):
        self.left -= 1
        if self.left < 0:
            raise StopIteration
        return [{"data": 1}]
"""
DATASETS = """
class Dataset:
    def __iter__(self):
        for i in range(4):
            yield {"x": i}
    def iter(self, batch_size):
        for i in range(0, 4, batch_size):
            yield {"x": [i]}
"""
PIPELINE = """
class DataPipeline:
    def __init__(self, *stages): self.pipeline = list(stages)
    def __iter__(self):
        for stage in self.pipeline[:1]:
            yield from stage
class Loader(list):
    num_workers = 0
"""
FILES = {
    "grain._src.python.dataset.dataset": GRAIN,
    "grain._src.python.dataset.batch": LATER,
    "nvidia.dali.plugin.base_iterator": DALI,
    "datasets.arrow_dataset": DATASETS,
    "webdataset.pipeline": PIPELINE,
    "torch_like.loader": "def fetch(items): return list(items)",
}


class HeardEvents(Events):
    def batch_taken(self, kind, begin):
        assert begin > 0
        self.heard_kinds.append(kind.__name__)


@pytest.fixture
def libraries(tmp_path, monkeypatch):
    """Import a module of a stand-in; whatever is imported is gone afterwards."""
    own = {name.partition(".")[0] for name in FILES}
    hidden = {n: m for n, m in sys.modules.items() if n.partition(".")[0] in own}
    for name in hidden:
        del sys.modules[name]
    for name, text in FILES.items():
        path = tmp_path.joinpath("libraries", *name.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        for folder in path.relative_to(tmp_path / "libraries").parents:
            (tmp_path / "libraries" / folder / "__init__.py").touch()
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path / "libraries")
    yield importlib.import_module
    for name in [name for name in sys.modules if name.partition(".")[0] in own]:
        del sys.modules[name]
    sys.modules.update(hidden)


@pytest.fixture
def events(tmp_path):
    found = HeardEvents(Recorder(str(tmp_path)), standin.Framework())
    found.heard_kinds = []
    data_libraries.install_data_libraries(found)
    yield found
    if data_libraries.HOOK in found.undo:
        found.undo[data_libraries.HOOK]()


def test_only_the_outermost_of_nested_iterators_is_a_request(events, libraries):
    dataset = libraries("grain._src.python.dataset.dataset")
    batch = libraries("grain._src.python.dataset.batch")
    assert list(batch.BatchIterator(dataset.MapIterator(range(4)))) == [(0, 1), (2, 3)]
    assert events.heard_kinds == ["BatchIterator"] * 3  # the last finds the end


def test_iterators_of_dali_are_heard_by_their_base_class(events, libraries):
    module = libraries("nvidia.dali.plugin.base_iterator")
    assert len(list(module.DALIGenericIterator())) == 3
    assert events.heard_kinds == ["DALIGenericIterator"] * 4


@pytest.mark.parametrize(("batched", "count"), [(False, 5), (True, 3)])
def test_datasets_are_heard_row_by_row_or_by_batch(events, libraries, batched, count):
    dataset = libraries("datasets.arrow_dataset").Dataset()
    rows = list(dataset.iter(2)) if batched else list(dataset)
    assert len(rows) == count - 1
    assert events.heard_kinds == ["Dataset"] * count


def test_what_a_loader_asks_for_is_no_request_of_the_loop(events, libraries, monkeypatch):
    dataset = libraries("datasets.arrow_dataset").Dataset()
    fetch = libraries("torch_like.loader").fetch
    monkeypatch.setattr(data_libraries, "ASKERS", frozenset({"torch_like"}))
    assert len(fetch(dataset)) == 4
    assert events.heard_kinds == []


def test_a_pipeline_over_a_loader_is_left_to_the_loader(events, libraries):
    module = libraries("webdataset.pipeline")
    assert list(module.DataPipeline([1, 2])) == [1, 2]
    heard = len(events.heard_kinds)
    assert heard == 3
    assert list(module.DataPipeline(module.Loader([1, 2]))) == [1, 2]
    assert len(events.heard_kinds) == heard


def test_a_fault_stops_the_hook_and_not_the_job(events, libraries, monkeypatch):
    def fail(*_):
        raise ValueError("injected")  # into our own code, to show that it is contained

    monkeypatch.setattr(HeardEvents, "batch_taken", fail)
    dataset = libraries("datasets.arrow_dataset").Dataset()
    assert len(list(dataset)) == 4
    assert data_libraries.HOOK in events.off
    assert len(list(dataset)) == 4
