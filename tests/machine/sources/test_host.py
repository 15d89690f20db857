"""A job's processes and the machine around them, on a real and on a drawn file system."""

import os
import subprocess
import sys
import time

import pytest

from whyidle.errors import InputError
from whyidle.machine.sources import host
from whyidle.model.live.telemetry import Target, split_key

pytestmark = pytest.mark.real_processes("counters of the machine are read while processes use it")

STAT = (
    "{pid} (py (x) thon) {state} {parent} 1 1 0 -1 4194304 102 0 7 0 150 50 0 0 20 0 9 0 29 "
    + "3133440 380 18446744073709551615 1 1 1 0 0 0 0 0 0 0 0 0 17 1 0 0 300 0 0 0 0 0 0 0 0 0 0\n"
)


def drawn(root, **files):
    """A file system of a machine with one process, 10, and its child, 11."""
    for pid, parent in ((10, 1), (11, 10), (12, 1)):
        put(root, f"proc/{pid}/stat", STAT.format(pid=pid, parent=parent, state="D"))
        put(root, f"proc/{pid}/statm", "765 439 411 5 0 123 0\n")
        put(root, f"proc/{pid}/io", "rchar: 900\nwchar: 0\nread_bytes: 4096\nwrite_bytes: 8192\n")
    put(root, "proc/stat", "cpu  100 1 50 1000 20 3 4 5 0 0\nintr 1 2\nprocs_blocked 2\n")
    put(root, "proc/loadavg", "1.50 1.81 1.19 7/110 23319\n")
    put(root, "proc/meminfo", "MemTotal: 1000 kB\nSwapTotal: 10 kB\nSwapFree: 4 kB\nCached: 5 kB\n")
    put(root, "proc/10/cgroup", "0::/jobs/one\n")
    for name, text in files.items():
        put(root, name, text)
    return root


def put(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def read(root, pid=10):
    reader = host.open(Target(pid=pid, root=root))
    values = reader.read()
    reader.close()
    return values, reader.missing


def test_the_job_is_the_root_and_its_descendants(tmp_path):
    values, _ = read(drawn(tmp_path))
    assert {split_key(name)[1] for name in values} == {"", "pid10", "pid11"}
    assert values["job_processes"] == 2
    assert values["job_blocked"] == 2
    assert values["state@pid10"] == 3
    assert values["job_read_bytes"] == 8192
    assert values["job_cpu_user_s"] == pytest.approx(3.0)


def test_more_processes_than_files_may_be_open_are_counted(tmp_path, monkeypatch):
    root = drawn(tmp_path)
    for pid in range(20, 30):
        put(root, f"proc/{pid}/stat", STAT.format(pid=pid, parent=11, state="S"))
    monkeypatch.setattr("whyidle.machine.sources._process_tree.MOST", 5)
    values, _ = read(root)
    assert values["job_processes"] == 12
    assert sum(name.startswith("state@") for name in values) == 5


def test_totals_do_not_fall_when_processes_end(tmp_path):
    reader = host.open(Target(pid=10, root=drawn(tmp_path)))
    first = reader.read()
    assert first["job_cpu_user_s"] == pytest.approx(3.0)
    put(tmp_path, "proc/11/stat", "")
    assert reader.read()["job_cpu_user_s"] == first["job_cpu_user_s"]
    waited = STAT.format(pid=10, parent=1, state="S").replace("150 50 0 0", "150 50 160 0")
    put(tmp_path, "proc/10/stat", waited)  # the parent has waited for it
    assert reader.read()["job_cpu_user_s"] == pytest.approx(3.1)
    put(tmp_path, "proc/10/stat", "")
    last = reader.read()
    assert last["job_processes"] == 0
    assert last["job_cpu_user_s"] == pytest.approx(3.1)
    reader.close()


def test_a_name_with_brackets_does_not_shift_fields(tmp_path):
    values, _ = read(drawn(tmp_path))
    assert values["cpu_user_s@pid10"] == pytest.approx(1.5)
    assert values["faults_major@pid10"] == 7
    assert values["cpu_system_s@pid10"] == pytest.approx(0.5)


def test_storage_wait_only_where_the_kernel_keeps_it(tmp_path):
    values, missing = read(drawn(tmp_path))
    assert values["io_wait_s@pid10"] is None
    assert "task_delayacct" in missing["io_wait_s"].how
    put(tmp_path, "proc/sys/kernel/task_delayacct", "1\n")
    values, missing = read(tmp_path)
    assert values["io_wait_s@pid10"] == pytest.approx(3.0)
    assert "io_wait_s" not in missing


def test_a_file_that_fails_takes_no_others_with_it(tmp_path):
    root = drawn(tmp_path)
    (root / "proc/11/io").unlink()
    put(root, "proc/meminfo", "garbage")
    values, _ = read(root)
    assert values["read_bytes@pid11"] is None
    assert values["cpu_user_s@pid11"] == pytest.approx(1.5)
    assert values["machine_memory_bytes"] is None
    assert values["machine_cpu_user_s"] > 0


def test_each_absence_has_a_reason(tmp_path):
    _, missing = read(drawn(tmp_path))
    assert "psi=1" in missing["pressure_cpu_some_ratio"].how
    assert "no quota" in missing["cores_quota"].reason
    assert "no memory control group" in missing["group_memory_limit_bytes"].reason


def test_pressure(tmp_path):
    some = "some avg10=14.25 avg60=11.69 avg300=18.48 total=153830718\n"
    full = "full avg10=1.00 avg60=0.00 avg300=0.00 total=2000000\n"
    values, missing = read(drawn(tmp_path, **{"proc/pressure/io": some + full}))
    assert values["pressure_io_some_ratio"] == pytest.approx(0.1425)
    assert values["pressure_io_full_s"] == 2.0
    assert "pressure_io_some_s" not in missing
    assert "pressure_cpu_some_s" in missing


def test_limits_of_a_control_group_of_version_2(tmp_path):
    files = {
        "sys/fs/cgroup/jobs/one/cpu.max": "max 100000\n",
        "sys/fs/cgroup/jobs/one/memory.max": "max\n",
        "sys/fs/cgroup/jobs/cpu.max": "50000 100000\n",
        "sys/fs/cgroup/jobs/cpu.stat": "nr_periods 40\nnr_throttled 10\nthrottled_usec 2500000\n",
        "sys/fs/cgroup/jobs/memory.max": "1073741824\n",
        "sys/fs/cgroup/jobs/memory.current": "536870912\n",
        "sys/fs/cgroup/jobs/memory.stat": "anon 1\nfile 4096\n"
        "workingset_refault_anon 9\nworkingset_refault_file 3\n",
        "sys/fs/cgroup/jobs/one/cpu.pressure": "some avg10=50.00 avg60=0 avg300=0 total=1000000\n",
    }
    put(tmp_path, "sys/fs/cgroup/jobs/one/memory.current", "1")
    values, missing = read(drawn(tmp_path, **files))
    assert values["cores_quota"] == values["cores_effective"] == 0.5
    assert values["throttled_s"] == 2.5
    assert (values["throttled_periods"], values["quota_periods"]) == (10, 40)
    assert values["group_memory_limit_bytes"] == 1 << 30
    assert values["group_memory_bytes"] == 1 << 29
    assert values["group_memory_file_bytes"] == 4096
    assert values["group_read_again_bytes"] == 3 * os.sysconf("SC_PAGE_SIZE")
    assert values["group_pressure_cpu_some_ratio"] == 0.5
    assert "cores_quota" not in missing


def test_limits_of_a_control_group_of_version_1(tmp_path):
    files = {
        "proc/10/cgroup": "5:cpu,cpuacct:/a\n4:memory:/b\n",
        "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "150000",
        "sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000",
        "sys/fs/cgroup/cpu/a/cpu.stat": "nr_periods 4\nnr_throttled 1\nthrottled_time 3000000000\n",
        "sys/fs/cgroup/memory/b/memory.limit_in_bytes": "2097152",
        "sys/fs/cgroup/memory/b/memory.usage_in_bytes": "1048576",
        "sys/fs/cgroup/memory/b/memory.stat": "cache 1\ntotal_cache 77\n"
        "workingset_refault_file 1\ntotal_workingset_refault_file 5\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "5",
    }
    values, _ = read(drawn(tmp_path, **files))
    assert values["cores_quota"] == 1.5
    assert values["throttled_s"] == 3.0
    assert values["group_memory_limit_bytes"] == 2097152
    assert values["group_memory_file_bytes"] == 77
    assert values["group_read_again_bytes"] == 5 * os.sysconf("SC_PAGE_SIZE")


def test_unlimited_in_version_1_is_no_limit(tmp_path):
    files = {
        "proc/10/cgroup": "5:cpu:/\n4:memory:/\n",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
        "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
        "sys/fs/cgroup/memory/memory.usage_in_bytes": "5",
    }
    values, missing = read(drawn(tmp_path, **files))
    assert values["cores_quota"] is None
    assert values["group_memory_limit_bytes"] is None
    assert values["group_memory_bytes"] == 5
    assert {"cores_quota", "group_memory_limit_bytes"} <= set(missing)


def test_idle_time_that_goes_back_does_not(tmp_path):
    reader = host.open(Target(pid=10, root=drawn(tmp_path)))
    first = reader.read()["machine_cpu_idle_s"]
    put(tmp_path, "proc/stat", "cpu  100 1 50 990 20 3 4 5 0 0\n")
    assert reader.read()["machine_cpu_idle_s"] == first
    reader.close()


def test_no_such_process(tmp_path):
    with pytest.raises(InputError, match="no process 99"):
        host.open(Target(pid=99, root=drawn(tmp_path)))


def test_children_come_and_go_and_their_time_stays():
    code = (
        "import subprocess, sys\n"
        "burn = 'from time import process_time as now\\n'\n"
        "burn += 't = now()\\nwhile now() - t < .1: pass\\n'\n"
        "burn += 'print(1, flush=True)\\ninput()'\n"
        "sys.stdin.readline()\n"
        "child = subprocess.Popen([sys.executable, '-c', burn], stdin=-1, stdout=-1)\n"
        "child.stdout.readline(); print(child.pid, flush=True); sys.stdin.readline()\n"
        "child.communicate(b'x\\n'); print('gone', flush=True); sys.stdin.readline()\n"
    )
    job = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    reader = host.open(Target(pid=job.pid))
    try:
        assert reader.read()["job_processes"] == 1
        say(job)
        child = job.stdout.readline().strip()
        during = until(reader, lambda values: f"cpu_user_s@pid{child}" in values)
        assert during["job_processes"] == 2
        spent = during["job_cpu_user_s"] + during["job_cpu_system_s"]
        assert spent >= 0.09
        say(job)
        assert job.stdout.readline() == "gone\n"
        after = reader.read()
        assert after["job_processes"] == 1
        assert after["job_cpu_user_s"] + after["job_cpu_system_s"] >= spent
    finally:
        job.communicate("\n")
    assert reader.read()["job_processes"] == 0
    reader.close()


def say(job):
    job.stdin.write("\n")
    job.stdin.flush()


def until(reader, holds):
    """A scan is made at most a hundredth of the time, so a child may wait a moment."""
    for _ in range(200):
        values = reader.read()
        if holds(values):
            return values
        time.sleep(0.01)
    raise AssertionError("never")
