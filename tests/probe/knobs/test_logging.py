"""Reports made beside the training: the same ones, in the same order, at the same times."""

import importlib
import os
import sys
import threading
import time
import types

import numpy as np
import pytest
import small_jobs as jobs
import torch

from whyidle.probe.knobs import _background_calls
from whyidle.probe.knobs import logging as knob

EDIT = {"logging.asynchronous": True}


class Client:
    """Talks to a server that takes a while, as MLflow's does."""

    def __init__(self):
        self.sent, self.threads = [], set()

    def _send(self, *what):
        time.sleep(0.01)
        self.threads.add(threading.current_thread().name)
        self.sent.append(what)

    def log_metric(self, run_id, key, value, timestamp=None, step=None, synchronous=None):  # noqa: PLR0917
        if key == "bad":
            raise ValueError("no such key")
        self._send(run_id, key, value, timestamp, step)

    def log_batch(self, run_id, metrics=(), synchronous=None):
        for one in metrics:
            self.log_metric(run_id, one, metrics[one])

    def get_run(self, run_id):
        return list(self.sent)

    @staticmethod
    def version():
        return 2


@pytest.fixture
def client(monkeypatch):
    module = types.ModuleType("mlflow.tracking.client")
    module.MlflowClient = type("MlflowClient", (), dict(vars(Client)))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module.MlflowClient()


def test_the_loop_does_not_wait_and_the_order_is_kept(turn, client):
    hand = turn(EDIT)
    begin = time.perf_counter()
    for step in range(20):
        client.log_metric("run", "loss", float(step), step=step)
    assert time.perf_counter() - begin < 0.1
    sent = client.get_run("run")
    assert [(one[2], one[4]) for one in sent] == [(float(n), n) for n in range(20)]
    assert client.threads == {"whyidle reports"}
    assert hand.applied == {"logging.asynchronous": 20}


def test_times_are_those_of_the_calls(turn, client):
    turn(EDIT)
    begin = time.time() * 1e3
    for step in range(10):
        client.log_metric("run", "loss", 1.0, step=step)
    end = time.time() * 1e3
    client.log_metric("run", "loss", 1.0, timestamp=5)
    *usual, last = [one[3] for one in client.get_run("run")]
    assert all(int(begin) <= one <= end for one in usual)
    assert last == 5


def test_what_is_reported_is_what_it_was(turn, client):
    turn(EDIT)
    value, array, held = torch.ones(2), np.ones(2), {"a": [1.0]}
    client.log_metric("run", "tensor", value)
    client.log_metric("run", "array", array)
    client.log_batch("run", held)
    value.zero_(), array.fill(0.0), held["a"].append(2.0), held.update(b=1)
    sent = {one[1]: one[2] for one in client.get_run("run")}
    assert sent["tensor"].tolist() == [1.0, 1.0]
    assert sent["array"].tolist() == [1.0, 1.0]
    assert sent["a"] == [1.0]
    assert "b" not in sent


def test_what_cannot_be_copied_is_reported_at_once_and_in_order(turn, client):
    hand = turn(EDIT)
    client.log_metric("run", "one", 1.0)
    client.log_metric("run", "object", object())
    assert [one[1] for one in client.sent] == ["one", "object"]
    assert hand.applied == {"logging.asynchronous": 1}
    assert not hand.declined


def test_a_trackers_error_is_raised_by_the_next_call(turn, client):
    turn(EDIT)
    client.log_metric("run", "bad", 1.0)
    with pytest.raises(ValueError, match="no such key"):
        client.get_run("run")
    client.log_metric("run", "good", 1.0)
    assert [one[1] for one in client.get_run("run")] == ["good"]


def test_the_scripts_own_mistakes_are_told_as_ever(turn, client):
    turn(EDIT)
    with pytest.raises(TypeError, match="log_metric"):
        client.log_metric("run")


def test_who_asks_for_something_else_gets_it(turn, client):
    hand = turn(EDIT)
    client.log_metric("run", "one", 1.0, synchronous=False)
    assert client.threads == {"MainThread"}
    assert client.version() == 2
    assert not hand.applied


def test_a_forked_process_reports_itself(turn, client):
    turn(EDIT)
    client.log_metric("run", "one", 1.0)
    client.get_run("run")
    child = os.fork()
    if not child:
        client.log_metric("run", "two", 2.0)
        os._exit(0 if client.sent[-1][1] == "two" else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_trackers_that_are_imported_later_are_seen_after_a_step(turn, client, monkeypatch):
    module = sys.modules.pop("mlflow.tracking.client")
    hand = turn(EDIT)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    client.log_metric("run", "one", 1.0)
    assert not hand.applied
    jobs.train(jobs.model(), steps=1)
    client.log_metric("run", "two", 2.0)
    assert hand.applied
    assert [one[1] for one in client.get_run("run")] == ["one", "two"]


def test_many_reports_wait_for_room(turn, client, monkeypatch):
    monkeypatch.setattr(_background_calls, "MOST", 2)
    turn(EDIT)
    for step in range(6):
        client.log_metric("run", "loss", float(step))
    assert len(client.sent) >= 3
    assert len(client.get_run("run")) == 6


def test_the_end_waits_for_them_and_tells_of_errors(client, capsys):
    background = _background_calls.BackgroundCalls()
    background.enqueue_call(client.log_metric, (), {"run_id": "run", "key": "one", "value": 1.0})
    background.enqueue_call(client.log_metric, (), {"run_id": "run", "key": "bad", "value": 1.0})
    background.end_thread()
    assert len(client.sent) == 1
    assert "no such key" in capsys.readouterr().err


def test_a_fault_in_the_knob_is_not_the_jobs(turn, client, faults, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("a planted fault")

    monkeypatch.setattr(knob, "copy_value", broken)
    hand = turn(EDIT)
    client.log_metric("run", "one", 1.0)
    client.log_metric("run", "two", 2.0)
    assert [one[1] for one in client.sent] == ["one", "two"]
    assert "planted" in hand.declined["logging.asynchronous"]
    assert len(faults(hand)) == 1


def test_event_files_hold_the_same(turn, tmp_path):
    home = "tensorboard.backend.event_processing.event_file_loader"
    loader = pytest.importorskip(home, reason="TensorBoard is not installed").EventFileLoader
    kind = importlib.import_module("torch.utils.tensorboard").SummaryWriter

    def write(folder):
        with kind(folder) as writer:
            weights = torch.arange(8.0)
            for step in range(5):
                writer.add_scalar("loss", 1.0 / (step + 1), step)
                writer.add_histogram("weights", weights, step)
                weights.add_(1.0)
        (path,) = folder.iterdir()
        loaded = [one for one in loader(str(path)).Load() if one.HasField("summary")]
        return [(one.step, str(one.summary)) for one in loaded]

    plain = write(tmp_path / "plain")
    hand = turn(EDIT)
    assert write(tmp_path / "later") == plain
    assert hand.applied == {"logging.asynchronous": 10}
