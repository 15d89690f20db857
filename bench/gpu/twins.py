"""The jobs of the proof: each with a defect, and beside it the same job cured by hand.

Sizes on a GPU are chosen so that on a device like an H100 the defect takes a third of the step or
more, by the arithmetic of its data sheet: 600 TFLOPS in bf16, 350 in TF32, 50 in FP32, 3 TB/s of
memory, 8 GB/s for pageable and 40 GB/s for pinned copies, 6 us of the host per launch. Those on the
emulated device keep the proportions.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from bench.gpu.job_run import JOBS, JobRun, run_job
from bench.gpu.target import Target, change_text

Changes = tuple[tuple[str, str], ...]
"""texts of a script, and what replaces them; see ``Target.write_script``"""


@dataclass(frozen=True)
class Twin:
    """A job with one known defect, and its cure. Defects that ``whyidle fix`` is to cure in the
    source stand in the source, as users have them, not in options."""

    name: str
    script: str
    causes: tuple[str, ...]
    """what may be said first: the defect, or another name of the same one; none: it is healthy"""
    defect: Changes = ()
    """of the script, that bring the defect"""
    changes: Changes = ()
    """of the script, of both"""
    sick: tuple[str, ...] = ()
    """options that bring the defect"""
    cured: tuple[str, ...] = ()
    """options in their place that cure it"""
    shared: tuple[str, ...] = ()
    """options of both on a GPU"""
    emulated: tuple[str, ...] = ()
    """options of both on the emulated device, whose numbers are computed on the host"""
    place: str = ""
    """text of the line of the script to which the finding belongs; empty where it has none"""
    device: dict[str, object] = field(default_factory=dict)
    """settings of the emulated device"""
    needs_cuda: bool = False
    consent: tuple[str, ...] = ()
    """classes that ``whyidle fix`` must be allowed for the cure"""

    def options(self, target: Target, *, cured: bool) -> list[str]:
        """The options of one of the two."""
        size = self.emulated if target.emulated else self.shared
        return [*size, *(self.cured if cured else self.sick)]

    def script_changes(self, *, cured: bool) -> Changes:
        """The changes of the script of one of the two."""
        return self.changes if cured else (*self.changes, *self.defect)

    def environment(self, target: Target) -> dict[str, str]:
        """What both need in their environment."""
        return {"WHYIDLE_EMULATED": json.dumps(self.device)} if target.emulated else {}

    def line_number(self) -> int | None:
        """The line of the sick script that holds the place, from 1."""
        if not self.place:
            return None
        text = (JOBS / self.script).read_text(encoding="utf-8")
        lines = change_text(text, self.script_changes(cured=False)).splitlines()
        return next(number for number, line in enumerate(lines, 1) if self.place in line)


def run_twin(
    target: Target,
    twin: Twin,
    *,
    profile: str | None,
    cured: bool = False,
    environment: dict[str, str] | None = None,
    **options: Any,
) -> JobRun:
    """Run one of the two; ``options`` as of ``run_job``.

    Raises:
        JobError: it failed, ran past its limit, or printed no pace.
    """
    return run_job(
        target,
        twin.script,
        twin.options(target, cured=cured),
        profile=profile,
        changes=twin.script_changes(cured=cured),
        environment=twin.environment(target) | (environment or {}),
        **options,
    )


def find_twin(name: str) -> Twin:
    """A job by its name."""
    return next(twin for twin in (*SICK, *HEALTHY) if twin.name == name)


STEP = "        optimizer.step()\n"
AUTOCAST = "        with torch.autocast(args.device, torch.bfloat16):\n            loss ="
WIDE: Changes = ((AUTOCAST, "        loss ="),)
"""in 32 bits"""
READS: Changes = (("        if step % 100 == 0:\n            total +=", "        total +="),)
RELEASES: Changes = ((STEP, f"{STEP}        torch.DEVICE.empty_cache()\n"),)
SAVES: Changes = (
    (
        STEP,
        f"{STEP}        if step % 50 == 0:\n"
        '            torch.save({"network": network.state_dict(), "step": step}, "saved.pt")\n',
    ),
)

SMALL = ("--batch", "32", "--columns", "16", "--width", "64", "--depth", "3")
SLOW: dict[str, object] = {"peak_flops": 1e7}
"""a perceptron that takes the emulated device far longer than the host"""
MATRICES = ("--batch", "8192", "--width", "4096", "--depth", "4")

SICK = (
    Twin(
        "loader-without-workers",
        "images.py",
        ("dataloader-no-workers",),
        cured=("--workers", "8", "--pin"),
        emulated=("--batch", "8", "--size", "24", "--width", "4", "--work", "20"),
        place="in enumerate(loader, 1)",
    ),
    Twin(
        "pageable-copies",
        "tables.py",
        ("pageable-h2d-copy", "blocking-h2d-copy"),
        defect=((", pin_memory=True", ""), (", non_blocking=True", "")),
        shared=("--batch", "4096", "--columns", "2048", "--width", "2048", "--depth", "8"),
        emulated=("--batch", "32", "--columns", "256", "--width", "64", "--depth", "3"),
        place="rows = rows.to(",
        device=SLOW | {"pageable_bandwidth": 1e6, "pinned_bandwidth": 1e7},
    ),
    Twin(
        "read-in-each-step",
        "tables.py",
        ("per-step-host-sync",),
        defect=READS,
        shared=("--batch", "32768", "--columns", "16", "--width", "1024", "--depth", "2"),
        emulated=SMALL,
        place="total += loss.item()",
        device={"peak_flops": 3e7},
    ),
    Twin(
        "small-kernels",
        "experts.py",
        ("launch-bound-small-kernels",),
        cured=("--batched",),
        shared=("--experts", "96"),
        emulated=("--batch", "8", "--width", "16", "--experts", "40"),
    ),
    Twin(
        "fp32",
        "tables.py",
        ("no-mixed-precision",),
        defect=WIDE,
        shared=MATRICES,
        emulated=SMALL,
        device=SLOW,
        consent=("numerics",),
    ),
    Twin(
        "tf32-off",
        "tables.py",
        ("tf32-disabled", "no-mixed-precision"),
        defect=(('precision("high")', 'precision("highest")'),),
        changes=WIDE,
        shared=MATRICES,
        emulated=SMALL,
        device=SLOW,
        consent=("numerics",),
    ),
    Twin(
        "unfused-optimizer",
        "tables.py",
        ("unfused-optimizer",),
        defect=((", fused=True", ", foreach=False"),),
        changes=WIDE,
        shared=("--batch", "256", "--width", "512", "--depth", "64"),
        emulated=("--batch", "16", "--columns", "16", "--width", "16", "--depth", "16"),
        place="optimizer.step()",
    ),
    Twin(
        "tiny-batch",
        "tables.py",
        ("batch-too-small", "launch-bound-small-kernels"),
        changes=WIDE,
        sick=("--batch", "8"),
        cured=("--batch", "512"),
        shared=("--width", "1024", "--depth", "8"),
        emulated=("--columns", "16", "--width", "64", "--depth", "6"),
        consent=("convergence",),
    ),
    Twin(
        "allocator-churn",
        "tables.py",
        ("allocator-thrash",),
        defect=RELEASES,
        shared=("--batch", "8192", "--width", "1024", "--depth", "8"),
        emulated=SMALL,
        place="empty_cache()",
        device=SLOW | {"allocate_ns": 5_000_000, "release_ns": 5_000_000},
    ),
    Twin(
        "checkpoint-in-the-way",
        "tables.py",
        ("sync-checkpoint",),
        defect=SAVES,
        shared=("--batch", "2048", "--width", "4096", "--depth", "4"),
        emulated=("--batch", "16", "--columns", "16", "--width", "256", "--depth", "3"),
        place="torch.save(",
        device={"peak_flops": 1e8, "pageable_bandwidth": 1e6},
    ),
)

HEALTHY = (
    Twin(
        "compute-bound",
        "dense.py",
        (),
        emulated=("--batch", "64", "--width", "128", "--depth", "4"),
        device={"peak_flops": 1e8},
    ),
    Twin("cuda-graph", "dense.py", (), shared=("--graph",), needs_cuda=True),
    Twin(
        "tuned-loader",
        "images.py",
        (),
        shared=("--workers", "8", "--pin", "--work", "0", "--width", "256", "--depth", "4",
                "--bf16", "--channels-last"),
        emulated=("--workers", "1", "--pin", "--batch", "8", "--size", "24", "--width", "8",
                  "--work", "0", "--channels-last"),
        device={"peak_flops": 3e7},
    ),
)  # fmt: skip
