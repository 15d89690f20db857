"""What this machine lets whyidle see: devices, driver, NVML, GPM, CUPTI, and what is missing."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench.gpu.job_run import JOBS, JobError, run_command
from bench.gpu.stage import Item, SkippedError, Stage
from bench.gpu.target import Target

LIMIT_S, COST_S = 120.0, 6.0
READS = 5
ASKED = ("name", "driver_version", "memory.total", "mig.mode.current", "compute_mode")


def read_json(target: Target, words: Sequence[str], folder: Path) -> dict[str, Any]:
    """What a command prints as its last line of standard output.

    Raises:
        JobError: it failed or printed no JSON.
    """
    status, output, errors = run_command(words, folder, target.environment, LIMIT_S)
    lines = output.strip().splitlines()
    if status or not lines or not lines[-1].startswith("{"):
        last = (errors.strip() or output.strip()).splitlines()[-1:]
        raise JobError(f"status {status}: {' '.join(last) or 'no output'}")
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer


def examine_pytorch(target: Target, folder: Path) -> dict[str, Any]:
    """PyTorch's device, and the kernels that its profiler sees: CUPTI's."""
    script = target.write_script(JOBS / "kernels.py", folder)
    result = read_json(target, [sys.executable, script.name, "--device", target.kind], folder)
    result["kernels_seen"] = result["events"].get("kernel", 0)
    result["cupti_works"] = result["kernels_seen"] >= result["products"]
    return result


def examine_nvml(target: Target, folder: Path) -> dict[str, Any]:
    """What NVML and GPM give whyidle; imitated where there is no GPU."""
    if not target.emulated and importlib.util.find_spec("pynvml") is None:
        raise SkippedError("the package nvidia-ml-py is not installed")
    return read_nvml(target, folder / "telemetry.jsonl", READS)


def ask_driver(target: Target, folder: Path) -> dict[str, Any]:
    """What nvidia-smi says of the cards."""
    if target.emulated or shutil.which("nvidia-smi") is None:
        raise SkippedError("no nvidia-smi here")
    words = ["nvidia-smi", f"--query-gpu={','.join(ASKED)}", "--format=csv,noheader"]
    status, output, errors = run_command(words, folder, target.environment, LIMIT_S)
    if status:
        raise JobError(
            f"nvidia-smi ended with status {status}: {(errors or output).strip()[-200:]}"
        )
    rows = [line.split(", ") for line in output.strip().splitlines()]
    return {"cards": [dict(zip(ASKED, row, strict=True)) for row in rows]}


def read_nvml(target: Target, file: Path, reads: int) -> dict[str, Any]:
    """Read NVML in a process of its own, and keep its readings in a file.

    Raises:
        JobError: it could not be read.
    """
    words = [sys.executable, "-m", "bench.gpu.nvml_reading", str(file), "--reads", str(reads)]
    imitated = ["--imitated"] if target.emulated else []
    result = read_json(target, [*words, *imitated], file.parent)
    facts = {key: result["facts"][key] for key in result["facts"] if "uuid" not in key}
    return {"imitated": target.emulated, **result, "facts": facts}


def run_doctor(target: Target, folder: Path) -> dict[str, Any]:
    """``whyidle doctor``, whole."""
    document = folder / "doctor.json"
    words = [sys.executable, "-m", "whyidle", "doctor", "--json", str(document)]
    status, _, errors = run_command(words, folder, target.environment, LIMIT_S)
    if status:
        raise JobError(f"whyidle doctor ended with status {status}: {errors.strip()[-200:]}")
    text = document.read_text(encoding="utf-8").replace(sys.executable, "python")
    return {"checks": json.loads(text)["checks"]}


def _run_in_folder(
    target: Target, examine: Callable[[Target, Path], dict[str, Any]]
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="whyidle-gpu-") as name:
        return examine(target, Path(name))


def list_items(target: Target) -> list[Item]:
    """One item per thing to ask."""
    asked = {
        "pytorch": examine_pytorch,
        "driver": ask_driver,
        "nvml": examine_nvml,
        "whyidle-doctor": run_doctor,
    }
    return [
        Item(name, partial(_run_in_folder, target, examine), COST_S)
        for name, examine in asked.items()
    ]


def table_lines(results: dict[str, dict[str, Any]]) -> Iterator[str]:
    """What there is, then what is missing."""
    yield "| what | answer |"
    yield "|---|---|"
    if torch := results.get("pytorch"):
        device = torch["device"]
        yield f"| Python | {torch['python']}, {torch['machine']}, {torch['cores']} cores |"
        yield f"| PyTorch | {torch['torch']}, CUDA {torch['cuda'] or '–'} |"
        yield (
            f"| devices | {torch['devices']}, the first: {device['name']}, "
            f"{device['memory_bytes'] / 2**30:.0f} GiB, capability {device['capability']}, "
            f"{device['multiprocessors']} multiprocessors |"
        )
        yield (
            f"| kernels in a profile (CUPTI) | {torch['kernels_seen']}, at least "
            f"{torch['products']} were launched: "
            f"{'it works' if torch['cupti_works'] else '**it does not work**'} |"
        )
    for card in results.get("driver", {}).get("cards", []):
        yield f"| nvidia-smi | {', '.join(f'{name} {value}' for name, value in card.items())} |"
    if nvml := results.get("nvml"):
        driver = nvml["facts"].get("driver", "–")
        yield (
            f"| NVML{' (imitated)' if nvml['imitated'] else ''} | driver {driver}, "
            f"{len(nvml['signals'])} signals, {nvml['read_us_median']:.0f} us a read |"
        )
        yield f"| GPM | {', '.join(nvml['gpm_signals']) or 'not to be had'} |"
        for name, reason in nvml["missing"].items():
            yield f"| not to be had: {name} | {reason} |"
    if doctor := results.get("whyidle-doctor"):
        gaps = [check for check in doctor["checks"] if check["state"] == "gap"]
        yield f"| `whyidle doctor` | {len(doctor['checks'])} checks, {len(gaps)} gaps |"
        for gap in gaps:
            yield f"| gap: {gap['name']} | {gap['found']} |"


STAGE = Stage("doctor", "What can be measured on this machine", list_items, table_lines)
