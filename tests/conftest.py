"""What holds for every test."""

import compileall
import os
import signal
import sys
from pathlib import Path

import pytest

import whyidle

REAL_PROCESSES = {
    "live": "jobs under whyidle run: when steps and samples come is the machine's choice",
    "fix/isolation": "isolated processes start, mount, listen and end beside the test",
    "fix/executors": "each trial is a process of its own",
}
"""folder -> why the timing of its tests is the machine's; single files have ``pytestmark``"""
FRAMEWORKS = ("tensorflow", "jax")
"""marks of tests that need the framework: those in ``with_NAME``, run by make test-frameworks"""
FLAKY = (
    "It failed beside other tests and passes alone. With CI=true this is a failure: make it "
    "independent of its neighbours, or mark it real_processes with the reason (CONTRIBUTING.md)."
)


def pytest_addoption(parser):
    parser.addoption(
        "--second-try", action="store_true", help="run what failed beside others again, alone"
    )
    parser.addoption(
        "--frameworks", action="store_true", help="run what needs TensorFlow or JAX, too"
    )


def pytest_configure(config):
    """Processes that tests start find our probe compiled, as an installer leaves it: isolated ones,
    which write nothing there, would each compile it anew."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if not hasattr(config, "workerinput"):
        compileall.compile_dir(Path(whyidle.__file__).parent / "probe", quiet=2)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # by a shell, in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)  # tests send it


def pytest_collection_modifyitems(config, items):
    marks = {path: list(marks_of(path)) for path in {item.path for item in items}}
    for item in items:
        for mark in marks[item.path]:
            item.add_marker(mark)
        if item.get_closest_marker("live"):
            item.add_marker(pytest.mark.real_processes("its times are judged"))
    if not config.getoption("--frameworks"):
        left = {item for item in items if any(map(item.get_closest_marker, FRAMEWORKS))}
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]


def marks_of(path):
    """The marks that a file has by its folder."""
    place = path.relative_to(Path(__file__).parent).as_posix()
    for framework in FRAMEWORKS:
        if place.startswith(f"with_{framework}/"):
            yield framework
    for folder, reason in REAL_PROCESSES.items():
        if place.startswith(f"{folder}/"):
            yield pytest.mark.real_processes(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """A test that passes at its second try only counts as failed in CI, see ``FLAKY``."""
    result = yield
    second = item.config.getoption("second_try") and os.environ.get("CI") == "true"
    if second and not item.get_closest_marker("real_processes"):
        pytest.fail(FLAKY, pytrace=False)
    return result


@pytest.fixture(autouse=True)
def mistakes(monkeypatch):
    """A cause that fails fails its test; a user is told of it, and of all else."""
    monkeypatch.setattr("whyidle.diagnosis.diagnose.CONTAINED", ())


@pytest.fixture(autouse=True)
def one_thread():
    """PyTorch in this process computes in one thread: tests run beside each other, and threads that
    wait for a core by spinning take it from those that they wait for."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


@pytest.fixture
def default_hangup():
    """What is started meanwhile ends by SIGHUP, as in a terminal: under ``nohup`` a process and
    all that it starts ignore the signal, and tests that send it need one who does not."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
