"""The jobs of the proof: each with a defect, and beside it the same job cured by hand."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from bench.gpu.job_run import JOBS
from bench.gpu.target import Target


@dataclass(frozen=True)
class Twin:
    """A job with one known defect, and its cure."""

    name: str
    script: str
    causes: tuple[str, ...]
    """what may be said first: the defect, or another name of the same one; none: it is healthy"""
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

    def environment(self, target: Target) -> dict[str, str]:
        """What both need in their environment."""
        return {"WHYIDLE_EMULATED": json.dumps(self.device)} if target.emulated else {}

    def line_number(self) -> int | None:
        """The line of the script that holds the place, from 1."""
        if not self.place:
            return None
        lines = (JOBS / self.script).read_text(encoding="utf-8").splitlines()
        return next(number for number, line in enumerate(lines, 1) if self.place in line)


SMALL = ("--batch", "64", "--width", "64", "--depth", "4")
"""a perceptron that the emulated device takes some milliseconds for"""
TUNED = ("--pin", "--tf32", "--fused")

SICK = (
    Twin(
        "loader-without-workers",
        "images.py",
        ("dataloader-no-workers",),
        sick=("--workers", "0"),
        cured=("--workers", "8", "--pin"),
        emulated=("--batch", "8", "--size", "24", "--width", "4", "--work", "20"),
        place="in enumerate(loader, 1)",
    ),
    Twin(
        "pageable-copies",
        "tables.py",
        ("pageable-h2d-copy", "blocking-h2d-copy"),
        cured=("--pin",),
        shared=("--batch", "16384", "--width", "2048", "--depth", "2", "--tf32", "--fused"),
        emulated=("--batch", "512", "--width", "64", "--depth", "2", "--tf32", "--fused"),
        place="rows = rows.to(",
    ),
    Twin(
        "read-in-each-step",
        "tables.py",
        ("per-step-host-sync",),
        sick=("--read-every", "1"),
        shared=("--batch", "512", "--width", "512", "--depth", "24", *TUNED),
        emulated=("--batch", "32", "--width", "32", "--depth", "12", *TUNED),
        place="total += loss.item()",
    ),
    Twin(
        "small-kernels",
        "experts.py",
        ("launch-bound-small-kernels",),
        cured=("--batched",),
        emulated=("--batch", "8", "--width", "16", "--experts", "40"),
    ),
    Twin(
        "fp32",
        "tables.py",
        ("no-mixed-precision",),
        cured=("--bf16",),
        shared=("--batch", "8192", "--width", "4096", "--depth", "8", *TUNED),
        emulated=("--batch", "64", "--width", "128", "--depth", "6", *TUNED),
        consent=("numerics",),
    ),
    Twin(
        "tf32-off",
        "tables.py",
        ("tf32-disabled", "no-mixed-precision"),
        cured=("--tf32",),
        shared=("--batch", "8192", "--width", "4096", "--depth", "8", "--pin", "--fused"),
        emulated=("--batch", "64", "--width", "128", "--depth", "6", "--pin", "--fused"),
        consent=("numerics",),
    ),
    Twin(
        "unfused-optimizer",
        "tables.py",
        ("unfused-optimizer",),
        cured=("--fused",),
        shared=("--batch", "256", "--width", "512", "--depth", "64", "--pin", "--tf32"),
        emulated=("--batch", "16", "--width", "16", "--depth", "32", "--pin", "--tf32"),
        place="optimizer.step()",
    ),
    Twin(
        "tiny-batch",
        "tables.py",
        ("batch-too-small", "launch-bound-small-kernels"),
        sick=("--batch", "8"),
        cured=("--batch", "512"),
        shared=("--width", "1024", "--depth", "8", *TUNED),
        emulated=("--width", "64", "--depth", "6", *TUNED),
        consent=("convergence",),
    ),
    Twin(
        "allocator-churn",
        "tables.py",
        ("allocator-thrash",),
        sick=("--empty-cache",),
        shared=("--batch", "8192", "--width", "1024", "--depth", "8", *TUNED),
        emulated=(*SMALL, *TUNED),
        place="empty_cache()",
        device={"allocate_ns": 500_000},
    ),
    Twin(
        "checkpoint-in-the-way",
        "tables.py",
        ("sync-checkpoint",),
        sick=("--save-every", "25"),
        shared=("--batch", "2048", "--width", "4096", "--depth", "8", *TUNED),
        emulated=("--batch", "16", "--width", "512", "--depth", "4", *TUNED),
        place="torch.save(",
        device={"peak_flops": 2e10},
    ),
)

HEALTHY = (
    Twin(
        "compute-bound",
        "dense.py",
        (),
        emulated=("--batch", "64", "--width", "128", "--depth", "4"),
    ),
    Twin("cuda-graph", "dense.py", (), shared=("--graph",), needs_cuda=True),
    Twin(
        "tuned-loader",
        "images.py",
        (),
        shared=("--workers", "8", "--pin", "--work", "0"),
        emulated=("--workers", "1", "--pin", "--batch", "8", "--size", "24", "--width", "8",
                  "--work", "0"),
    ),
)  # fmt: skip
