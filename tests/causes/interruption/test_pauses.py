"""Saving, evaluating, logging and collecting: found when they recur, and what remains measured."""

from dataclasses import replace

import pytest

from cured_twins import covers, judge, twin_speedup
from whyidle import catalog
from whyidle.analysis.facts import Facts
from whyidle.model.timeline import DeviceInfo, HostKind
from whyidle.testing.builder import Builder, ms, us
from whyidle.testing.contracts import Pair
from whyidle.testing.recorded_job import RecordedJob

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"
FRAMES = {
    "sync-checkpoint": "torch/serialization.py(900): save",
    "heavy-evaluation": "/home/u/train.py(50): evaluate",
    "blocking-logging-upload": "wandb/sdk/wandb_run.py(1700): log",
    "python-gc-pauses": "Python GC",
}


def job(frame: str | None, pause: int, *, every: int = 1, copied: int = 0, steps: int = 6):
    made = Builder()
    for step in range(steps):
        with made.step(), made.span("/home/u/train.py(20): main", "python_function"):
            for _ in range(20):
                made.op("aten::mm", kernels=[(GEMM, us(500))])
            made.sync()
            if frame and step % every == every - 1:
                with made.span(frame, "python_function"):
                    made.quiet(us(10))
                    if copied:
                        made.copy("d2h", copied, pinned=True, wait=True)
                    made.quiet(pause)
    return made


@pytest.mark.parametrize("cause", FRAMES)
def test_recurring_pauses_and_their_twin_without(cause):
    sick = job(FRAMES[cause], ms(12))
    proof = judge(cause, sick)
    assert proof is not None
    measured = twin_speedup(sick, job(None, 0))
    assert covers(proof, measured, slack=0.03)
    assert proof.removal.speedup == pytest.approx(measured, rel=0.03)  # nothing remains
    assert proof.removal.low > 0.95 * measured or cause == "heavy-evaluation"  # a GPU's marks
    assert proof.where
    assert proof.predicted.speedup > 1.1


@pytest.mark.parametrize(
    ("frame", "known"),
    [
        ("torch/utils/tensorboard/writer.py(300): add_histogram", True),
        ("mlflow/tracking/client.py(900): log_metric", True),
        ("wandb/sdk/wandb_run.py(1700): log", False),
        ("wandb/integration/mlflow/client.py(9): log", False),
    ],
)
def test_trackers_whose_calls_are_known(frame, known):
    assert judge("blocking-logging-upload", job(frame, ms(12))).facts.tracker is known


@pytest.mark.parametrize("cause", FRAMES)
def test_a_single_pause_may_be_rare(cause):
    proof = judge(cause, job(FRAMES[cause], ms(30), every=4))
    assert proof is not None
    assert proof.predicted.low == 1.0


@pytest.mark.parametrize("cause", FRAMES)
def test_short_pauses_are_not_worth_a_word(cause):
    assert judge(cause, job(FRAMES[cause], us(20))) is None


SOUNDING_ALIKE = {
    "sync-checkpoint": "/home/u/train.py(9): load_checkpoint",
    "heavy-evaluation": "transformers/generation/configuration_utils.py(9): validate",
    "blocking-logging-upload": "/home/u/mylogger_net.py(9): forward",
    "python-gc-pauses": "/home/u/collect_data.py(9): collect_samples",
}
PAIRS = {
    cause: Pair(
        sick=lambda frame=frame: job(frame, ms(12)),
        healthy=lambda frame=SOUNDING_ALIKE[cause]: job(frame, ms(12)),
    )
    for cause, frame in FRAMES.items()
}


def test_the_copy_from_the_device_remains_of_a_checkpoint():
    sick = job(FRAMES["sync-checkpoint"], ms(12), copied=100_000_000)
    proof = judge("sync-checkpoint", sick)
    assert proof is not None
    residual = next(e.value for e in proof.evidence if "copy from the device" in e.quantity)
    assert residual == pytest.approx(4 / 16, abs=0.03)
    assert proof.high < 12.2 / 26


def test_a_script_that_only_evaluates_is_not_interrupted_by_it():
    made = Builder()
    with made.span("/home/u/infer.py(50): evaluate", "python_function"):
        for _ in range(5):
            with made.step():
                made.quiet(ms(5))
                made.op("aten::mm", kernels=[(GEMM, ms(5))])
                made.sync()
    assert judge("heavy-evaluation", made) is None


def test_a_request_inside_the_loader_fetches_data():
    made = Builder()
    for _ in range(5):
        with made.step():
            with made.span("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
                made.python("requests/api.py(60): get", ms(8))
            made.op("aten::mm", kernels=[(GEMM, ms(5))])
            made.sync()
    assert judge("blocking-logging-upload", made) is None
    assert judge("dataloader-no-workers", made) is not None


def test_asked_for_collections_are_told_from_automatic_ones():
    automatic = judge("python-gc-pauses", job("Python GC", ms(12)))
    asked = judge("python-gc-pauses", job("<built-in function collect>", ms(12)))
    assert automatic is not None
    assert asked is not None
    assert not automatic.facts.explicit
    assert asked.facts.explicit


def test_rarer_collections_win_what_the_rarer_ones_do_not_take():
    """One in each step, and one in every second: thinned out to one in a hundred."""
    sick = {every: job("<built-in function collect>", ms(12), every=every) for every in (1, 2)}
    won = {}
    for every, made in sick.items():
        proof = judge("python-gc-pauses", made)
        assert proof is not None
        won[every] = proof.facts.thinned
        assert 1 - 1 / won[every].low == pytest.approx(proof.high * (1 - every / 100), abs=0.01)
    assert won[1].low > won[2].low


def test_a_pause_while_the_host_is_steps_ahead_is_still_seen():
    job = Builder()
    for step in range(12):
        with job.step():
            for _ in range(20):
                job.op("aten::mm", kernels=[(GEMM, us(400))])
        if step == 5:
            with job.span("train.py(80): save_checkpoint", "python_function"):
                job.quiet(us(200_000))  # spans several steps of the device, none of the host
    proof = judge("sync-checkpoint", job)
    assert proof is not None
    hit = next(e.value for e in proof.evidence if e.quantity == "steps with a save")
    assert hit == 1


def test_a_checkpoint_stands_still_only_while_the_device_does():
    job = Builder()
    for step in range(6):
        with job.step():
            for _ in range(20):
                job.op("aten::mm", kernels=[(GEMM, us(400))])
            if step % 2:
                with job.span("train.py(80): save_checkpoint", "python_function"):
                    job.sync()  # the device works on while the host waits here
                    job.quiet(us(50_000))
    proof = judge("sync-checkpoint", job)
    assert proof is not None
    assert "up to 50 ms" in proof.headline


EVALUATE, BATCH = "/home/u/train.py(50): evaluate", "/home/u/train.py(60): validation_step"


def evaluated(frames, count):
    """Steps of which each second one is followed by so many evaluations, or batches of one."""
    made = Builder()
    for step in range(6):
        with made.step():
            made.op("aten::mm", kernels=[(GEMM, ms(5))])
            made.sync()
            for _ in range(count * (step % 2)):
                outer, *inner = frames
                with made.span(outer, "python_function"):
                    made.quiet(ms(2))
                    for frame in inner:
                        made.python(frame, ms(2))
                made.quiet(ms(1))
    return made


@pytest.mark.parametrize(
    ("frames", "count", "told"),
    [
        ([EVALUATE], 1, 2),  # a third follows the last step
        ([EVALUATE, BATCH, BATCH], 1, 2),
        ([EVALUATE], 2, 4),  # on two sets of data, one after the other
        ([BATCH], 8, 2),
    ],
)
def test_evaluations_are_counted_not_their_batches(frames, count, told):
    proof = judge("heavy-evaluation", evaluated(frames, count))
    assert proof is not None
    assert [e.value for e in proof.evidence if e.quantity == "evaluations"] == [told]


def test_rarer_evaluations_win_what_they_took():
    often, rare = job(FRAMES["heavy-evaluation"], ms(12)), job(None, 0)
    proof = judge("heavy-evaluation", often)
    rarer = proof.facts.rarer
    assert rarer.low < 0.95 * twin_speedup(often, rare) < 1.05 * rarer.high
    assert rarer.speedup > proof.predicted.speedup
    assert (
        judge("heavy-evaluation", job(FRAMES["heavy-evaluation"], ms(30), every=4)).facts.rarer
        is None
    )


LOOP = "/job/train.py(20): main"


NEXT = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


@pytest.mark.parametrize("name", ["evaluation", "evaluation#grad"])
@pytest.mark.parametrize("asks", [False, True])
def test_how_a_watched_job_evaluates_is_told(name, asks):
    guest = RecordedJob()
    for _ in range(20):
        with guest.call(NEXT):
            guest.wait(LOOP, us(100))
        guest.backward(LOOP, ms(9))
        guest.step(LOOP, ms(1))
        with guest.call(name):
            if asks:
                with guest.call(NEXT):
                    guest.wait(LOOP, us(100))
            with guest.call(EVALUATE, HostKind.PYTHON):  # a mark tells of gradients, this does not
                guest.work(LOOP, ms(5))
    proof = judge("heavy-evaluation", guest)
    assert proof.facts.batches == asks
    spared = proof.facts.without_graph
    assert (spared is not None) == (name == "evaluation#grad")
    assert spared is None or 1.0 < spared.low < spared.speedup < spared.high < 1.5


@pytest.mark.parametrize("between", [0, 100, 400])
def test_larger_batches_spare_a_cpu_what_lies_between_its_operators(between):
    made = Builder()
    for _ in range(20):
        with made.step():
            for _ in range(10):
                made.op("aten::mm", host=us(1000 - between))
                made.quiet(us(between))
            with made.span(EVALUATE, "python_function"):
                made.op("aten::mm", host=ms(10))
    timeline = replace(made.timeline(), info=DeviceInfo())
    predicted = catalog.load_causes()["heavy-evaluation"].test(Facts(timeline)).predicted
    spared = 0.5 * 0.75 * between / 1000
    assert predicted.speedup == pytest.approx(1 / (1 - spared), abs=0.03)
    assert predicted.high == pytest.approx(2.0, abs=0.1)


def collecting(every, length=40_000):
    """Steps of 5 ms on a CPU, and 1 ms longer after a collection of so many us."""
    guest = RecordedJob()
    for number in range(60):
        hit = bool(every) and number % every == 0
        if hit:
            with guest.call("Python GC", HostKind.OVERHEAD):
                guest.python(LOOP, us(length))
        guest.backward(LOOP, ms(4 + hit))
        guest.step(LOOP, ms(1))
    return guest.timeline()


def test_steps_without_a_collection_tell_what_one_leaves_behind():
    proof = judge("python-gc-pauses", collecting(3))
    measured = Facts(collecting(3)).step_s / Facts(collecting(0)).step_s
    assert proof.predicted.speedup == pytest.approx(measured, rel=0.01)
    assert proof.predicted.high == pytest.approx(measured, rel=0.01)


def test_a_single_long_collection_among_short_ones_may_be_rare():
    def steps(long):
        guest = RecordedJob()
        for number in range(60):
            with guest.call("Python GC", HostKind.OVERHEAD):
                guest.python(LOOP, us(long if number == 30 else 20))
            guest.backward(LOOP, ms(4))
            guest.step(LOOP, ms(1))
        return guest.timeline()

    proof, short = judge("python-gc-pauses", steps(30_000)), steps(20)
    assert proof.high > 0.08
    assert proof.low < 0.005
    once = proof.high - Facts(short).bucket_share("gc")
    assert proof.predicted.speedup < 1 / (1 - 0.7 * once)
    assert judge("python-gc-pauses", short) is None


LOG, HELPER = "/job/train.py(31): main", "/job/train.py(50): log_weights"
WRITE = "/x/site-packages/torch/utils/tensorboard/writer.py(505): add_histogram"
NORM = "/x/site-packages/torch/functional.py(9): norm"
FORWARD = "/x/site-packages/torch/nn/modules/linear.py(9): forward"


def reporting(*, logs=True, at=LOG, asks=""):
    """Steps of 20 ms; each logs for 20 ms and computes for the log for 20 ms at the same line. With
    ``asks`` the line runs that for another 20 ms."""
    guest, around = RecordedJob(), "" if at == LOG else f";{LOG}"
    for _ in range(40):
        guest.backward(LOOP, ms(15))
        if logs:
            guest.work(f"{NORM};{at}{around}", ms(20))
            if asks:
                guest.work(f"{asks};{at}{around}", ms(20))
            guest.python(f"{WRITE};{at}{around}", ms(20))
        guest.step(LOOP, ms(5))
    return guest.timeline()


@pytest.mark.parametrize("at", [LOG, HELPER])
def test_what_is_computed_for_a_log_is_saved_with_it(at):
    proof = judge("blocking-logging-upload", reporting(at=at))
    measured = Facts(reporting(at=at)).step_s / Facts(reporting(logs=False)).step_s
    assert measured == pytest.approx(3.0, rel=0.02)
    assert proof.removal.low < measured < proof.removal.high < 1.5 * proof.removal.low
    assert proof.predicted.high < proof.removal.speedup  # a thread only takes over the call


def test_a_step_of_training_in_a_log_line_is_not_saved():
    """``writer.add_scalar("loss", train_step(), step)`` trains without the writer, too."""
    proof = judge("blocking-logging-upload", reporting(asks=FORWARD))
    assert proof.removal.speedup == pytest.approx(80 / 40, rel=0.1)


def test_other_lines_count_only_in_functions_that_only_log():
    def other_line(function, trains):
        guest = RecordedJob()
        for _ in range(40):
            guest.backward(LOOP, ms(15))
            if trains:
                guest.work(f"{FORWARD};/job/train.py(60): {function};{LOG}", ms(20))
            guest.work(f"{NORM};/job/train.py(61): {function};{LOG}", ms(20))
            guest.python(f"{WRITE};/job/train.py(62): {function};{LOG}", ms(20))
            guest.step(LOOP, ms(5))
        return judge("blocking-logging-upload", guest.timeline()).removal.speedup

    assert other_line("log_norms", trains=False) == pytest.approx(60 / 20, rel=0.1)
    assert other_line("step_and_log", trains=True) == pytest.approx(80 / 60, rel=0.1)


KEEP = "/job/train.py(40): keep"
WRITING = f"torch/serialization.py(900): save;{KEEP};{LOOP}"


def keeping(then, *, between=None, saved=True):
    """Steps of 10 ms, every fifth of which ends with a save of 20 ms and a wait of 30 ms in the
    line ``then``, after a call ``between``."""
    guest = RecordedJob()
    for number in range(60):
        guest.backward(LOOP, ms(8))
        guest.step(LOOP, ms(2))
        if number % 5 == 4:
            if saved:
                with guest.call("save_checkpoint"):
                    guest.work(WRITING, ms(20))
            if between:
                with guest.call(between):
                    guest.work(LOOP, ms(5))
            guest.wait(then, ms(30))
    return guest.timeline()


@pytest.mark.parametrize(
    "then",
    [
        f"/job/train.py(42): keep;{LOOP}",
        f"/usr/lib/python3.11/shutil.py(9): move;/job/train.py(43): keep;{LOOP}",
    ],
)
def test_a_wait_for_the_disk_after_saving_is_part_of_the_save(then):
    sick = keeping(then)
    assert judge("blocking-logging-upload", sick) is None
    proof = judge("sync-checkpoint", sick)
    assert proof.high == pytest.approx(50 / 100, abs=0.03)
    assert Facts(sick).bucket_share("blocked") < 0.01


@pytest.mark.parametrize(
    ("then", "more"),
    [
        (f"/job/train.py(60): publish;{LOOP}", {}),
        (f"/job/train.py(42): keep;{LOOP}", {"between": "enumerate(DataLoader)#next"}),
        (f"/job/train.py(42): keep;{LOOP}", {"saved": False}),
    ],
)
def test_other_waits_are_none_of_the_save_s(then, more):
    sick = keeping(then, **more)
    assert judge("blocking-logging-upload", sick) is not None
    assert Facts(sick).bucket_share("blocked") > 0.2


def saving(*, saves=True):
    """Steps of 10 ms; each fifth saves for 10 ms, and after each fifth save a step waits for the
    system for 50 ms more."""
    guest = RecordedJob()
    for number in range(200):
        if saves and number % 5 == 4:
            with guest.call("save_checkpoint"):
                guest.work(LOOP, ms(10))
            guest.work(LOOP, ms(50 if number % 25 == 24 else 1))
        guest.backward(LOOP, ms(8))
        guest.step(LOOP, ms(2))
    return guest.timeline()


def test_what_few_saves_leave_behind_counts_as_much_as_it_takes():
    proof = judge("sync-checkpoint", saving())
    measured = Facts(saving()).step_s / Facts(saving(saves=False)).step_s
    assert proof.removal.speedup == pytest.approx(measured, rel=0.03)
    assert proof.removal.low < measured < proof.removal.high


OPERATORS = "/env/lib/python3.11/site-packages/tensorflow/python/eager/execute.py(53)"


@pytest.mark.parametrize(
    ("asleep_in", "blocked"),
    [(f"{OPERATORS}: quick_execute;{LOOP}", False), (f"/job/notes.py(3): send;{LOOP}", True)],
)
def test_a_thread_that_waits_for_tensorflow_s_operators_is_not_held_up(asleep_in, blocked):
    """A saved model that is called without a trace runs on threads of TensorFlow."""
    guest = RecordedJob(framework="tensorflow", operator_threads=2)
    for _ in range(40):
        guest.wait(asleep_in, ms(20))
        guest.backward(LOOP, ms(20))
        guest.step(LOOP, ms(10), "Adam")
    assert (Facts(guest.timeline()).bucket_share("blocked") > 0.2) == blocked
    assert (judge("blocking-logging-upload", guest) is not None) == blocked


@pytest.mark.parametrize("trains", [True, False])
def test_the_end_of_a_framework_s_loop_is_no_call_to_remove(trains):
    """``fit`` frees what it made at the line that calls it, without a frame of its own."""
    fit = f"/job/train.py(55): main;{LOOP}"
    guest = RecordedJob(framework="tensorflow", operator_threads=2)
    for _ in range(40):
        guest.wait(fit, ms(20))
        guest.work(f"{OPERATORS}: quick_execute;{fit if trains else LOOP}", ms(2))
        guest.backward(LOOP, ms(20))
        guest.step(LOOP, ms(10), "Adam")
    assert (judge("blocking-logging-upload", guest) is None) == trains
