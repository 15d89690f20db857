"""Making a batch in the training process: wrapped for the first few, then now and then."""

import pytest
import standin

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch.utils.data import DataLoader  # noqa: E402
from torch.utils.data._utils.fetch import _MapDatasetFetcher  # noqa: E402

from whyidle.probe.frameworks.torch import dataloader as loaders  # noqa: E402
from whyidle.probe.frameworks.torch import loader_facts  # noqa: E402

PLAIN = _MapDatasetFetcher.fetch


class Loop(standin.Loop):
    def __init__(self):
        self.later = []
        super().__init__()

    def call_later(self, steps, work):
        self.later.append((steps, work))

    def failed(self, where, error):
        raise error

    @property
    def measured(self):
        return [suffix for suffix, _ in self.rows].count("batches")


@pytest.fixture
def loop():
    """Hooks are installed, and batches that are no sequences come out of a loader."""
    made = Loop()
    loaders.install_loader_hooks(made)
    made.undo["padding"]()
    yield made
    for undo in list(made.undo.values()):
        undo()
    assert _MapDatasetFetcher.fetch is PLAIN


def take(number):
    return sum(1 for _ in DataLoader(list(range(number)), batch_size=None))


def test_the_first_batches_are_measured_and_then_there_is_no_wrapper(loop):
    assert take(40) == 40
    assert loop.measured == loaders.FULL_FIRST
    assert _MapDatasetFetcher.fetch is PLAIN


def test_after_some_steps_one_more_is_measured(loop):
    take(40)
    ((steps, resume),) = loop.later
    assert steps == loaders.FULL_EVERY
    resume()
    take(40)
    assert loop.measured == loaders.FULL_FIRST + 1
    assert len(loop.later) == 2


def test_a_wrapper_of_somebody_else_stays(loop, monkeypatch):
    take(40)
    calls = []

    def theirs(self, index):
        calls.append(index)
        return PLAIN(self, index)

    with monkeypatch.context() as patched:
        patched.setattr(_MapDatasetFetcher, "fetch", theirs)
        loop.later[0][1]()
        assert take(5) == 5
        loop.undo["fetch"]()
        assert _MapDatasetFetcher.fetch is theirs
    assert calls == list(range(5))


def test_where_batches_are_looked_at_for_padding_the_wrapper_stays(loop):
    (kept,) = [c.cell_contents for c in loop.undo["fetch"].__closure__ if _is_loader(c)]
    kept.padding.tries = 10**9
    take(40)
    assert _MapDatasetFetcher.fetch is not PLAIN
    assert loop.measured == loaders.FULL_FIRST + 1


def _is_loader(cell):
    return isinstance(cell.cell_contents, loaders.LoaderRecorder)


def test_tensors_of_a_batch_are_counted_where_the_training_process_makes_it(loop):
    rows = [(torch.zeros(3), {"a": torch.zeros(2), "b": [torch.ones(1)]}, "name")] * 4
    for _ in DataLoader(rows, batch_size=None):
        pass
    assert loop.documents["loaders.json"]["tensors"] == 3
    assert loop.documents["loaders.json"]["cores"]
    take(4)
    assert loop.documents["loaders.json"]["tensors"] == 3


def test_tensors_of_a_batch_are_counted_where_workers_hand_it_over(loop):
    """Only of the first ones: later ones cost the loop nothing."""
    rows = [(torch.zeros(3), index, "name") for index in range(4 * loaders.FULL_FIRST)]
    plain = {"worker_init_fn": lambda _: loop.undo["fetch"](), "multiprocessing_context": "fork"}
    taken = sum(1 for _ in DataLoader(rows, batch_size=2, num_workers=1, **plain))
    assert taken > loaders.FULL_FIRST
    assert loop.documents["loaders.json"]["tensors"] == 2  # names stay a list
    (kept,) = [c.cell_contents for c in loop.undo["fetch"].__closure__ if _is_loader(c)]
    assert kept.counted == loaders.FULL_FIRST


@pytest.mark.parametrize("before", [1, 2])
def test_where_very_many_workers_have_recorded_one_more_does_not(
    loop, before, tmp_path, monkeypatch
):
    for number in range(before):
        (tmp_path / f"{number}.worker.json").write_text("{}")
    ended = []
    loop.recorder.folder, loop.recorder.end_recording = str(tmp_path), lambda: ended.append(True)
    loop.watch_thread = loop.finish_with_child = lambda: None
    loop.sampler = type("Sampler", (), {"follow": lambda self, thread: None})()
    monkeypatch.setattr(loader_facts, "MOST_WORKERS", 2)
    monkeypatch.setattr("torch.utils.data.get_worker_info", lambda: type("Info", (), {"id": 3}))
    monkeypatch.setattr("sys.addaudithook", lambda hook: None)
    assert take(3) == 3
    crowded = before == 2
    assert bool(ended) == crowded
    assert ("worker.json" in loop.documents) == (not crowded)
    assert (_MapDatasetFetcher.fetch is PLAIN) == crowded


def test_samples_are_described_before_they_are_collated(loop):
    texts = [("a text of more than twenty characters", index) for index in range(4)]
    for _ in DataLoader(texts, batch_size=2, collate_fn=lambda rows: torch.zeros(len(rows))):
        pass
    assert loop.documents["loaders.json"]["sample"] == "text"
    assert loop.documents["loaders.json"]["bytes"] == 8
