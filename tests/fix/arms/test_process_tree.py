"""What the processes of an arm hold and fetch, with real ones."""

import subprocess
import sys
import time

import pytest

from whyidle.fix.arms.process_tree import ProcessTree, TreeSample, fetched_bytes, others_cores

pytestmark = pytest.mark.real_processes("what a process holds is read while it runs")

GROWS = """
import subprocess, sys, time
code = "import time; x = bytearray(40 << 20); time.sleep(60)"
child = subprocess.Popen([sys.executable, "-c", code])
held = [bytearray(20 << 20)]
print("ready", flush=True)
sys.stdin.readline()
held.append(bytearray(60 << 20))
print("more", flush=True)
sys.stdin.readline()
child.kill()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere shared memory counts")
def test_memory_of_all_processes_is_seen_to_grow():
    words = [sys.executable, "-c", GROWS]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as child:
        tree = ProcessTree(child.pid)
        assert child.stdout.readline() == "ready\n"
        wait(tree, lambda sample: sample.own > 60 << 20)
        before = tree.samples[-1].own
        print(file=child.stdin, flush=True)
        assert child.stdout.readline() == "more\n"
        wait(tree, lambda sample: sample.own > before + (55 << 20))
        assert tree.samples[-1].own < before + (70 << 20)
        assert tree.samples[-1].time_ns <= time.perf_counter_ns()
        child.stdin.close()


def wait(tree, enough):
    deadline = time.monotonic() + 20
    while not (tree.samples and enough(tree.samples[-1])):
        assert time.monotonic() < deadline
        tree.take_sample()
        time.sleep(0.01)


def test_a_process_that_is_gone_is_no_fault():
    with subprocess.Popen([sys.executable, "-c", "pass"]) as child:
        child.wait()
        tree = ProcessTree(child.pid)
        tree.take_sample()
    assert tree.samples[-1].own == 0


def test_what_is_fetched_between_two_moments():
    samples = [TreeSample(10 * i, 0, 100 * i) for i in range(10)]
    assert fetched_bytes(samples, 20, 50) == 400  # from the sample before
    assert fetched_bytes(samples, 0, 1000) == 900
    assert fetched_bytes([], 0, 10) == 0


def test_cores_that_others_take_between_two_moments():
    """The job takes one core, others one and a half; before a machine tells, nobody knows."""
    samples = [TreeSample(i * 10**9, 0, 0, 1.0 * i, 2.5 * i + 0.1) for i in range(10)]
    samples[3::2] = [TreeSample(i * 10**9, 0, 0) for i in range(3, 10, 2)]  # not read along
    assert others_cores(samples, 2 * 10**9, 5 * 10**9) == pytest.approx(1.5)
    assert others_cores([TreeSample(i * 10**9, 0, 0) for i in range(10)], 0, 10**10) is None
    assert others_cores([], 0, 10) is None


def test_what_a_process_used_counts_when_it_is_gone():
    code = "import time\nwhile time.process_time() < 0.3: pass\nprint('done', flush=True); input()"
    words, pipe = [sys.executable, "-c", code], subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as child:
        tree = ProcessTree(child.pid)
        assert child.stdout.readline() == "done\n"
        wait(tree, lambda sample: sample.cpu_s >= 0.29)
        print(file=child.stdin, flush=True)
        child.wait()
    samples = len(tree.samples)
    wait(tree, lambda sample: len(tree.samples) > samples and sample.machine_s)
    assert tree.samples[-1].cpu_s >= 0.29


def test_processes_that_come_and_go_between_two_looks_are_the_job_s_own():
    """As compilers are: nobody has seen them, and their parent has waited for them."""
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    code = (
        f"import subprocess, sys\n"
        f"print('ready', flush=True); input()\n"
        f"subprocess.run([sys.executable, '-c', {burn!r}])\n"
        f"print('done', flush=True); input()"
    )
    words, pipe = [sys.executable, "-c", code], subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as child:
        assert child.stdout.readline() == "ready\n"
        tree = ProcessTree(child.pid)
        wait(tree, lambda sample: sample.machine_s)
        before = tree.samples[-1].cpu_s
        print(file=child.stdin, flush=True)
        assert child.stdout.readline() == "done\n"
        samples = len(tree.samples)
        wait(tree, lambda sample: len(tree.samples) > samples and sample.machine_s)
        assert before + 0.29 <= tree.samples[-1].cpu_s < before + 0.29 + 1.0
        print(file=child.stdin, flush=True)


def test_a_process_that_was_seen_and_then_waited_for_counts_once():
    code = "import time\nwhile time.process_time() < 0.5: pass\ninput()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}]); input()"
    words, pipe = [sys.executable, "-c", parent], subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as child:
        tree = ProcessTree(child.pid)
        wait(tree, lambda sample: sample.cpu_s >= 0.49)
        print(file=child.stdin, flush=True)
        deadline = time.monotonic() + 1.5
        while time.monotonic() < deadline:
            tree.take_sample()
            time.sleep(0.05)
        counted = [sample.cpu_s for sample in tree.samples if sample.machine_s]
        assert counted[-1] < 0.95
        print(file=child.stdin, flush=True)
