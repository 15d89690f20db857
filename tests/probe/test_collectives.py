"""Collectives as the probe records them, without a process group."""

import contextlib
import time
import weakref

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch._C._distributed_c10d import ProcessGroup, Work  # noqa: E402

from whyidle.probe.frameworks.torch import collectives, gradient_exchange  # noqa: E402


class Loop:
    off = frozenset()

    def __init__(self):
        self.recorder, self.undo, self.folder, self.spans, self.faults = self, {}, "", [], []
        self.names = []
        self.facts = {}
        self.add = self.spans.append
        self.rows = []

    def number(self, name, role):
        self.names.append(name)
        return name

    def span(self, role, name, kind, begin):
        self.add((begin, begin + 1, collectives.thread(), name, kind))

    def row(self, suffix, layout, row):
        layout.pack(*row)
        self.rows.append((suffix, row))

    def fault(self, where, error):
        self.faults.append((where, error))


@pytest.fixture
def known():
    return collectives.Ranks(Loop())


def test_a_collective_lasts_from_its_call_to_the_end_of_its_wait(known):
    work = object()
    call = collectives._issued(known, lambda group: work, "allreduce", "gloo:all_reduce")
    assert call(None) is work
    assert not known.loop.spans
    collectives._waited(known, work, 7)
    (wait, flight) = known.loop.spans
    assert wait[3] == collectives.WAIT
    assert flight[2:4] == (collectives.FLIGHT, "gloo:all_reduce")
    assert not known.pending


def test_a_call_that_has_waited_itself_is_one_span(known):
    collectives._issued(known, lambda group: None, "broadcast", "nccl:broadcast")(None)
    assert [span[3] for span in known.loop.spans] == ["nccl:broadcast"]


def test_the_job_s_own_errors_pass_and_ours_do_not(known):
    def broken(group):
        raise RuntimeError("of the job")

    with pytest.raises(RuntimeError, match="of the job"):
        collectives._issued(known, broken, "allreduce", "gloo:all_reduce")(None)
    known.pending = None
    assert collectives._issued(known, lambda group: 3, "allreduce", "gloo:all_reduce")(None) == 3
    assert known.loop.faults[0][0] == "collectives"


@pytest.fixture
def group(known):
    """The groups of a job of one rank, whose collectives are recorded."""
    dist = torch.distributed
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    collectives._collectives(known)
    yield dist
    known.loop.undo.pop("collectives", bool)()
    dist.destroy_process_group()


def test_collectives_go_on_once_they_are_recorded_no_more(known, group):
    one = torch.ones(3)
    group.all_reduce(one)
    group.all_reduce(one, async_op=True).wait()
    assert [span[3] for span in known.loop.spans] == [collectives.WAIT, "gloo:all_reduce"] * 2
    known.loop.undo.pop("collectives")()
    group.all_reduce(one)
    group.all_reduce(one, async_op=True).wait()
    assert len(known.loop.spans) == 4
    wrapped = [(ProcessGroup, each) for each in collectives.COLLECTIVES]
    for owner, method in [*wrapped, (Work, "wait")]:
        assert type(vars(owner).get(method)).__name__ in ("instancemethod", "NoneType")


def test_a_process_group_written_in_python_has_pytorch_s_own_errors(known, group):
    class Own(ProcessGroup):
        pass

    with pytest.raises(RuntimeError, match="backend"):
        Own(0, 1).barrier()
    known.loop.undo.pop("collectives")()
    with pytest.raises(RuntimeError, match="backend"):
        Own(0, 1).barrier()


class Model:
    device_type = "cpu"

    def __init__(self, syncs):
        self.require_backward_grad_sync = syncs


def test_a_backward_pass_without_exchange_is_counted_and_no_collective(known):
    model = Model(syncs=False)
    known.models.append(lambda: model)
    gradient_exchange.exchanged(known, collectives.now(), 0, 0)
    assert (known.synced, known.unsynced) == (0, 1)
    assert not known.loop.spans


@pytest.mark.parametrize("around", ["forward", "both"])
def test_a_forward_pass_alone_may_lie_within_no_sync(known, group, around):
    """So it is where the exchange of all but one micro-batch was left out at run time."""
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    known.models.append(weakref.ref(model))  # no child of a later test may be the one to end it
    for _ in range(2):
        for syncs in (False, False, True):
            with contextlib.nullcontext() if syncs else model.no_sync():
                loss = model(torch.ones(1, 2)).sum()
                if around == "both":
                    loss.backward()
                    gradient_exchange.exchanged(known, collectives.now(), 0, 0)
            if around == "forward":
                loss.backward()
                gradient_exchange.exchanged(known, collectives.now(), 0, 0)
    assert (known.synced, known.unsynced) == (2, 4)
    waits = [span[3] for span in known.loop.spans]
    assert waits.count("gloo:all_reduce") == 2


def test_what_of_a_backward_pass_the_thread_slept_is_waiting(known):
    model = Model(syncs=True)
    known.models.append(lambda: model)
    begin = collectives.now() - 50_000_000
    gradient_exchange.exchanged(known, begin, time.thread_time_ns(), known.queued())
    ((start, end, _, name, _),) = known.loop.spans
    assert name == "gloo:all_reduce"
    assert end - start > 40_000_000
    ((suffix, (at, ran, queued, _)),) = known.loop.rows
    assert (suffix, at) == ("clock", end)
    assert 0 < ran <= time.thread_time_ns()
    assert -1 <= queued <= known.queued()


def test_where_a_model_is_wrapped_is_noted(known):
    gradient_exchange.made(known, Model(syncs=True))
    assert known.made.split(";")[0].startswith(__file__)


def test_what_a_mark_costs_is_measured_here():
    state = torch.get_rng_state()
    assert 100 < gradient_exchange._mark_ns() < 1e6
    assert torch.equal(state, torch.get_rng_state())
