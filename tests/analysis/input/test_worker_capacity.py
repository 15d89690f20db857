"""How many workers and waiting batches fit."""

from dataclasses import replace

from watched_run import add_telemetry
from whyidle.analysis.facts import Facts
from whyidle.analysis.input.worker_capacity import most_waiting, most_workers
from whyidle.model.loader_tables import Loading
from whyidle.testing.builder import Builder, ms

GB = float(1 << 30)
MACHINE = {"machine_memory_bytes": 64 * GB, "machine_memory_available_bytes": 30.4 * GB}


def facts(outside=None, cores=None):
    built = Builder()
    for _ in range(4):
        with built.step():
            built.loader(ms(30))
    made = replace(built.timeline(), loading=Loading(cores=cores))
    return Facts(add_telemetry(made, outside) if outside else made)


def test_what_is_not_told_limits_nothing():
    assert most_workers(facts(), 2, waits=True) is None
    assert most_waiting(facts(), 8) is None
    assert most_workers(facts({"job_memory_resident_bytes": GB}), 2, waits=True) is None


def test_cores_limit_only_those_that_compute():
    assert most_workers(facts(cores=3.5), 0, waits=False) == 4
    assert most_workers(facts(cores=3.5), 0, waits=True) is None
    assert most_workers(facts(cores=2.0), 6, waits=False) == 6


def test_memory_limits_by_what_each_process_holds_now():
    """Of 30.4 GB a tenth of the machine is kept back: 24 GB more, at 4 GB each."""
    told = facts({**MACHINE, "job_memory_resident_bytes": 12 * GB})
    assert most_workers(told, 2, waits=True) == 2 + 6
    assert most_workers(told, 0, waits=True) == 2


def test_the_control_group_limits_too_but_its_cache_does_not():
    group = {
        "group_memory_limit_bytes": 20 * GB,
        "group_memory_bytes": 16 * GB,
        "group_memory_file_bytes": 6 * GB,
    }
    told = facts({**MACHINE, **group, "job_memory_resident_bytes": 8 * GB})
    assert most_workers(told, 3, waits=True) == 3 + 4


def test_shared_memory_limits_by_what_batches_fill_of_it():
    told = facts({"shm_free_bytes": 3 * GB, "shm_used_bytes": GB})
    assert most_workers(told, 2, waits=True) == 8
    assert most_waiting(told, 4) == 16
    full = facts({"shm_free_bytes": 0.0, "shm_used_bytes": GB})
    assert most_workers(full, 2, waits=True) == 2


def test_without_workers_shared_memory_tells_nothing():
    told = facts({"shm_free_bytes": 3 * GB, "shm_used_bytes": GB})
    assert most_workers(told, 0, waits=True) is None
