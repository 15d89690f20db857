"""Traces of the legacy autograd profiler and of Ascend NPUs, for the tests of several folders."""

from __future__ import annotations


def span(name, pid, ts, dur, tid=1, **more):
    return {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, **more}


def legacy(count=5):
    events = []
    for i in range(count):
        at = 1000.5 * i
        events += [
            span("Optimizer.step#SGD.step", "CPU functions", at + 900, 50),
            span("aten::linear", "CPU functions", at, 100),
            span("aten::addmm", "CPU functions", at + 10, 80),
            span("aten::linear", "CUDA functions", at + 200, 600, tid=0),
            span("aten::addmm", "CUDA functions", at + 210, 500, tid=0),
            {"ph": "s", "name": "aten::addmm", "id": i, "pid": "CPU functions", "tid": 1, "ts": at},
        ]
    return events


def npu(count=5):
    """``ts`` are texts; CANN's calls are linked to the work on the NPU by flows."""
    names = {
        1: "Python",
        2: "Ascend Hardware",
        3: "CANN",
        4: "Communication",
        5: "Overlap Analysis",
    }
    events = [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
        for pid, name in names.items()
    ]
    for i in range(count):
        at, flow = 1_700_000_000_000_000 + 1000 * i, {"name": "HostToDevice", "cat": "HostToDevice"}
        task = {"Stream Id": 3, "Task Type": "AI_CORE"}
        copy = {"Stream Id": 4, "Task Type": "MEMCPY_ASYNC"}
        events += [
            span(f"ProfilerStep#{i}", 1, f"{at}.125", 999, cat=""),
            span("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 1, f"{at}.5", 400),
            span("aten::mm", 1, f"{at + 450}", 20, cat="cpu_op"),
            span("Node@launch", 3, f"{at + 455}.000", 5, tid=9),
            {"ph": "s", "id": str(i), "pid": 3, "tid": 9, "ts": f"{at + 455}.000", **flow},
            {"ph": "f", "id": str(i), "pid": 2, "tid": 3, "ts": f"{at + 500}.250", **flow},
            span("MatMulV2", 2, f"{at + 500}.250", 300, tid=3, args=task),
            span("EVENT_WAIT", 2, f"{at + 810}", 90, tid=3, args=task),
            span("MEMCPY_ASYNC_DEVICE_TO_HOST", 2, f"{at + 900}", 10, tid=4, args=copy),
            span("hcom_allReduce__616", 4, f"{at + 920}", 50, tid=0),
            span("Notify_Wait", 4, f"{at + 920}", 40, tid=1),
            span("Computing", 5, f"{at + 500}", 300, tid=0),
        ]
    return events
