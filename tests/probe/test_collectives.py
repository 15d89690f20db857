"""Collectives as the probe records them, without a process group."""

import contextlib
import time
import weakref

import pytest
import standin

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from torch._C._distributed_c10d import ProcessGroup, Work  # noqa: E402

from whyidle.probe.core.events import Events  # noqa: E402
from whyidle.probe.frameworks.torch import collectives, gradient_exchange  # noqa: E402


class Loop(standin.Loop):
    """Whose spans are told whole, with their labels."""

    def __init__(self):
        super().__init__()
        labels, number = {}, self.recorder.name_number

        def numbered(label, role):
            labels[number(label, role)] = label
            return number(label, role)

        def add(span):
            self.spans.append((*span[:3], labels[span[3]], span[4]))

        self.recorder.name_number, self.recorder.add = numbered, add

    def add_span(self, role, label, kind, begin):
        Events.add_span(self, role, label, kind, begin)


@pytest.fixture
def known():
    return collectives.ProcessRank(Loop())


@pytest.fixture
def exchange(known):
    return gradient_exchange.GradientExchange(known.events, lambda: "gloo")


def test_a_collective_lasts_from_its_call_to_the_end_of_its_wait(known):
    work = object()
    call = collectives._wrap_method(known, lambda group: work, "allreduce", "gloo:all_reduce")
    assert call(None) is work
    assert not known.events.spans
    collectives._note_wait(known, work, 7)
    (wait, flight) = known.events.spans
    assert wait[3] == collectives.WAIT
    assert flight[2:4] == (collectives.FLIGHT, "gloo:all_reduce")
    assert not known.pending


def test_a_call_that_has_waited_itself_is_one_span(known):
    collectives._wrap_method(known, lambda group: None, "broadcast", "nccl:broadcast")(None)
    assert [span[3] for span in known.events.spans] == ["nccl:broadcast"]


def test_the_job_s_own_errors_pass_and_ours_do_not(known):
    def broken(group):
        raise RuntimeError("of the job")

    with pytest.raises(RuntimeError, match="of the job"):
        collectives._wrap_method(known, broken, "allreduce", "gloo:all_reduce")(None)
    known.pending = None
    assert (
        collectives._wrap_method(known, lambda group: 3, "allreduce", "gloo:all_reduce")(None) == 3
    )
    assert known.events.faults[0][0] == "collectives"


@pytest.fixture
def group(known):
    """The groups of a job of one rank, whose collectives are recorded."""
    dist = torch.distributed
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    collectives._wrap_collectives(known)
    yield dist
    known.events.undo.pop("collectives", bool)()
    dist.destroy_process_group()


def test_collectives_go_on_once_they_are_recorded_no_more(known, group):
    one = torch.ones(3)
    group.all_reduce(one)
    group.all_reduce(one, async_op=True).wait()
    assert [span[3] for span in known.events.spans] == [collectives.WAIT, "gloo:all_reduce"] * 2
    known.events.undo.pop("collectives")()
    group.all_reduce(one)
    group.all_reduce(one, async_op=True).wait()
    assert len(known.events.spans) == 4
    wrapped = [(ProcessGroup, each) for each in collectives.COLLECTIVES]
    for owner, method in [*wrapped, (Work, "wait")]:
        assert type(vars(owner).get(method)).__name__ in ("instancemethod", "NoneType")


def test_a_process_group_written_in_python_has_pytorch_s_own_errors(known, group):
    class Own(ProcessGroup):
        pass

    with pytest.raises(RuntimeError, match="backend"):
        Own(0, 1).barrier()
    known.events.undo.pop("collectives")()
    with pytest.raises(RuntimeError, match="backend"):
        Own(0, 1).barrier()


class Model:
    device_type = "cpu"

    def __init__(self, syncs):
        self.require_backward_grad_sync = syncs


def test_a_backward_pass_without_exchange_is_no_collective(exchange):
    model = Model(syncs=False)
    exchange.models.append(lambda: model)
    exchange.backward_ended(collectives.clock_ns(), 0, 0)
    assert exchange.synced == 0
    assert not exchange.events.spans


@pytest.mark.parametrize("around", ["forward", "both"])
def test_a_forward_pass_alone_may_lie_within_no_sync(exchange, group, around):
    """So it is where the exchange of all but one micro-batch was left out at run time."""
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    exchange.models.append(weakref.ref(model))  # no child of a later test may be the one to end it
    for _ in range(2):
        for syncs in (False, False, True):
            with contextlib.nullcontext() if syncs else model.no_sync():
                loss = model(torch.ones(1, 2)).sum()
                if around == "both":
                    loss.backward()
                    exchange.backward_ended(collectives.clock_ns(), 0, 0)
            if around == "forward":
                loss.backward()
                exchange.backward_ended(collectives.clock_ns(), 0, 0)
    assert exchange.synced == 2
    waits = [span[3] for span in exchange.events.spans]
    assert waits.count("gloo:all_reduce") == 2


def test_what_of_a_backward_pass_the_thread_slept_is_waiting(exchange):
    model = Model(syncs=True)
    exchange.models.append(lambda: model)
    begin = collectives.clock_ns() - 50_000_000
    exchange.backward_ended(begin, time.thread_time_ns(), exchange.queued_ns())
    ((start, end, _, name, _),) = exchange.events.spans
    assert name == "gloo:all_reduce"
    assert end - start > 40_000_000
    ((suffix, (at, ran, queued, _)),) = exchange.events.rows
    assert (suffix, at) == ("clock", end)
    assert 0 < ran <= time.thread_time_ns()
    assert -1 <= queued <= exchange.queued_ns()


def test_where_a_model_is_wrapped_is_noted(exchange):
    exchange.model_wrapped(Model(syncs=True))
    assert exchange.made.split(";")[0].startswith(__file__)
