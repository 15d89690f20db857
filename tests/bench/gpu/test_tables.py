"""The table of each stage, from sample results, and what the tables are made from."""

import json

import pytest

from bench.gpu.raw_trace import RawTrace, unite_spans
from bench.gpu.stage import load_stage

SHARES = {"input": 0.5, "transfer": 0.0, "host": 0.1, "compute": 0.3, "unknown": 0.1}
PAIRS = {"added_percent": [0.1, 0.2], "median_percent": 0.15, "error_percent": None}
DEVICE_RUN = {"options": "--tf32", "steps": 40, "shares": SHARES}
UNTRIED = {
    "consent": "rounding",
    "kept": False,
    "numerics": None,
    "speedup": None,
    "low": None,
    "high": None,
    "predicted": 1.2,
    "pairs": 0,
}
USED = {
    "step_ms": 10.0,
    "samples_per_s": 1000.0,
    "gpu_util_ratio": 0.9,
    "sm_active_ratio": 0.4,
    "tensor_active_ratio": None,
    "compute_ratio": 0.8,
}
SAMPLES = {
    "doctor": {
        "pytorch": {
            "python": "3.12.1",
            "machine": "x86_64",
            "cores": 16,
            "torch": "2.9.0",
            "cuda": "12.8",
            "devices": 1,
            "products": 8,
            "kernels_seen": 0,
            "cupti_works": False,
            "device": {
                "name": "NVIDIA H100",
                "memory_bytes": 80 << 30,
                "capability": "9.0",
                "multiprocessors": 132,
            },
        },
        "driver": {"cards": [{"name": "NVIDIA H100", "driver_version": "570.1"}]},
        "nvml": {
            "imitated": False,
            "facts": {"driver": "570.1"},
            "signals": ["power_w"],
            "gpm_signals": [],
            "missing": {"sm_active_ratio": "the device has no GPM"},
            "read_us_median": 812.0,
        },
        "whyidle-doctor": {"checks": [{"name": "NVML", "state": "gap", "found": "not there"}]},
    },
    "truth": {
        "small-kernels": {
            "first": None,
            "right": False,
            "place_right": None,
            "step_ms": 3.25,
            "measured_speedup": 2.0,
            "predicted_speedup": None,
        }
    },
    "attribution": {
        "read-in-each-step": {
            "traced_steps": 200,
            "same_windows": {
                "windows": 40,
                "late_ratio_events": 0.10,
                "late_ratio_cupti": 0.12,
                "work_ratio_events_at_least": 0.30,
                "work_ratio_cupti": 0.35,
            },
            "same_steps": {"steps": 198, "work_ratio_whyidle": 0.351, "work_ratio_cupti": 0.35},
            "shares_by_trace": SHARES,
            "shares_by_events_whole_run": SHARES,
            "steps_of_whole_run": 900,
            "shares_by_burst": {**SHARES, "input": 0.48},
            "burst": "burst of steps 300 to 302",
        },
        "no-events": {
            "traced_steps": 3,
            "same_windows": None,
            "same_steps": {"steps": 3, "work_ratio_whyidle": None, "work_ratio_cupti": 0.5},
            "shares_by_trace": SHARES,
            "shares_by_events_whole_run": SHARES,
            "steps_of_whole_run": 9,
            "shares_by_burst": None,
            "burst": None,
        },
    },
    "overhead": {
        "steps-of-2-ms": {
            "step_ms": 2.01,
            "watched": PAIRS,
            "profiler": {**PAIRS, "error_percent": 0.05},
            "control": PAIRS,
        },
        "bursts": {
            "bursts": [
                {
                    "state": "recorded",
                    "steps": 3,
                    "before_s": 0.002,
                    "during_s": 0.004,
                    "after_s": None,
                    "cost_s": 0.5,
                }
            ],
            "spent_s": 0.5,
            "off": None,
        },
    },
    "heal": {
        "fp32": {
            "trials": [
                {
                    "fix": "autocast",
                    "consent": "numerics",
                    "kept": True,
                    "why": "faster",
                    "numerics": "the losses are those of the precision",
                    "speedup": 2.4,
                    "low": 2.2,
                    "high": 2.6,
                    "predicted": 2.0,
                    "pairs": 4,
                },
                {**UNTRIED, "fix": "compile-model", "why": "no time | left"},
            ],
            "plan": True,
            "patch": 2,
            "patch_missing": "",
            "samples_per_s": {"sick": 100.0, "planned": 240.0, "patched": 250.0, "cured": 260.0},
        },
        "nothing-kept": {
            "trials": [],
            "plan": False,
            "patch": 0,
            "patch_missing": "fix wrote no patch",
            "samples_per_s": {"sick": 100.0, "cured": 150.0},
        },
    },
    "cases": {
        "image-classifier": {
            "calibration": {"device_step_ms": 50.0, "unit_ms": 20.0, "work": 4},
            "cores": 16,
            "before": {**USED, "gpu_util_ratio": 0.55},
            "after": {**USED, "samples_per_s": 2000.0},
            "trials": [],
        },
        "language-model": {
            "job": USED,
            "alone_tokens_per_s": 1000.0,
            "ideal_tokens_per_s": 1250.0,
            "first": None,
        },
    },
    "harm": {
        "sigkill-job": {
            "status": 137,
            "status_right": True,
            "ended_after_s": 1.0,
            "reported": True,
            "left": [],
        },
        "sigkill-whyidle": {"job_finished": True, "left": ["python worker.py"]},
        "launch-blocking": {
            "same": True,
            "devices": 1,
            "steps_seen": 100,
            "utilization_ratio": None,
        },
        "memory": {
            "alone": {"tensors_bytes": 1 << 20, "allocator_bytes": 2 << 20, "device_bytes": 3 << 20}
        },
        "faults": {
            "clock.record": {"same": True, "met": 1, "noted": True},
            "clock.query": {"same": False, "met": None, "noted": None, "reason": "status 1"},
        },
    },
    "emulator": {"compute-bound": {"real": DEVICE_RUN, "emulated": DEVICE_RUN}},
    "telemetry": {
        "job": {
            "file": "telemetry-nvidia-h100-job.jsonl.gz",
            "bytes": 2048,
            "moments": 40,
            "lost_lines": 0,
            "means": {"busy_ratio@gpu0": 0.5},
        }
    },
}
SAID = {
    "doctor": ["**it does not work**", "driver 570.1", "the device has no GPM", "gap: NVML"],
    "truth": ["| small-kernels | none | **no** | – | 3.25 | – | 2.00x |"],
    "attribution": [
        "| read-in-each-step | events | 40 | waiting for a batch | 10.0% | 12.0% | -2.0 |",
        "| read-in-each-step | trace | 198 | work on the device | 35.1% | 35.0% | +0.1 |",
        "| read-in-each-step | input | 50.0% | 48.0% | 50.0% | -2.0 |",
        "burst of steps 300 to 302",
        "| no-events | events | 0 | no event in the recorded steps | – | – | – |",
    ],
    "overhead": ["| torch.profiler | 2.01 | +0.15 % ± 0.05 | 2 |", "2.00 | 4.00 | – | 0.50 |"],
    "heal": [
        "| fp32 | autocast | 2.40x | 2.50x | 2.60x | applied |",
        "| fp32 | compile-model | rounding | no: no time / left | 1.20x | – | – |",
        "| nothing-kept | none | – | – | 1.50x | fix wrote no patch |",
    ],
    "cases": [
        "| before | 1000 | 55% | 40% | – | 80% |",
        "2.00 times as fast. Kept: nothing.",
        "The job alone reaches 80% of the ideal. First finding: none.",
    ],
    "harm": [
        "| sigkill-job | yes | left running: nothing; status 137 |",
        "| sigkill-whyidle | **no** | left running: python worker.py; the job trained on |",
        "| fault in clock.query | **no** | status 1 |",
        "| alone | 1.0 | 2.0 | 3.0 |",
    ],
    "emulator": ["| compute-bound | input | 50.0% | 50.0% | +0.0 |"],
    "telemetry": ["| telemetry-nvidia-h100-job.jsonl.gz | 2048 | 40 | 0 | 1 | 0.5 | – |"],
}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_table_renders_from_a_sample(name):
    text = "\n".join(load_stage(name).table(SAMPLES[name]))
    for part in SAID[name]:
        assert part in text


@pytest.mark.parametrize("name", SAMPLES)
def test_rows_are_as_wide_as_their_head(name):
    head = None
    for line in load_stage(name).table(SAMPLES[name]):
        if line.startswith("|"):
            cells = line.count("|")
            head = head or cells
            assert cells == head, line
        else:
            head = None


def make_event(category, name, begin, end, **args):
    """An event of a trace, us."""
    return {"ph": "X", "cat": category, "name": name, "ts": begin, "dur": end - begin, "args": args}


@pytest.fixture
def trace(tmp_path):
    """One step: a batch until 100 us, two overlapping kernels and a copy, launched at once."""
    events = [
        make_event("user_annotation", "ProfilerStep#0", 10, 500),
        make_event("gpu_user_annotation", "ProfilerStep#0", 150, 400),
        make_event("user_annotation", "enumerate(DataLoader)#_Iter.__next__", 20, 100),
        make_event("cuda_runtime", "cudaLaunchKernel", 60, 65, correlation=1),
        make_event("cuda_runtime", "cudaLaunchKernel", 110, 115, correlation=2),
        make_event("cuda_runtime", "cudaMemcpyAsync", 120, 125, correlation=3),
        make_event("kernel", "gemm", 80, 200, correlation=1, stream=7),
        make_event("kernel", "relu", 190, 300, correlation=2, stream=7),
        make_event("gpu_memcpy", "Memcpy", 350, 400, correlation=3, stream=7),
        {"ph": "i", "name": "an instant", "ts": 5},
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    clock = {"begins_ns": [1_010_000]}
    path.with_name("trace.json.clock").write_text(json.dumps(clock), encoding="utf-8")
    return RawTrace.read(path)


def test_intervals_of_a_trace_are_united(trace):
    assert trace.kernels == [(80, 300)]
    assert trace.busy == [(80, 300), (350, 400)]
    assert trace.steps == 1
    assert unite_spans([(5, 6), (0, 2), (1, 3)]) == [(0, 3), (5, 6)]


def test_moments_of_the_host_are_put_on_the_clock_of_the_trace(trace):
    assert trace.to_trace_us(1_060_000) == 60


def test_an_event_comes_when_all_before_it_is_done(trace):
    assert trace.event_moment(50) == 50  # nothing was given to the device yet
    assert trace.event_moment(70) == 200
    assert trace.event_moment(115) == 300
    assert trace.event_moment(450) == 450  # everything was done


def test_a_device_with_work_does_not_wait_for_the_batch(trace):
    assert trace.late_length(0, 500) == 60
    assert trace.late_length(90, 500) == 0
