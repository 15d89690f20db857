"""Peak rates of devices: dense FLOP/s per precision and memory bandwidth. Numbers are the vendors'
own, in TFLOP/s and GB/s; figures "with sparsity" (NVIDIA from A100, AMD from MI300) are halved.
GeForce cards are listed with FP32 accumulation, as used by PyTorch, at half the advertised FP16
rate. An MI250X counts as one of its two dies, as in PyTorch. Unlisted devices and MIG slices have
no peak.

Sources: NVIDIA data sheets V100 to DGX B200; the GA102, AD102 and Blackwell RTX architecture white
papers (appendix tables); AMD CDNA to CDNA4 white papers and Instinct data sheets.
"""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec import Struct

from whyidle.model.timeline import DeviceInfo


class DevicePeaks(Struct, frozen=True):
    """Dense peaks of one device, FLOP/s, and memory bandwidth, bytes/s. ``fp32`` is the vector
    rate, ``matrix_fp32`` that of matrix cores (AMD). None: no such units."""

    fp32: float
    tf32: float | None
    fp16: float | None
    bf16: float | None
    fp8: float | None
    bandwidth: float
    matrix_fp32: float | None = None

    def peak_flops(self, precision: str | None, *, tensor: bool) -> float | None:
        """Return the peak for a kernel of this precision; None where unknown."""
        if precision == "fp32":
            return self.matrix_fp32 or self.fp32 if tensor else self.fp32
        if not tensor:
            return self.fp32 if precision in ("fp16", "bf16") else None
        by_name = {"tf32": self.tf32, "fp16": self.fp16, "bf16": self.bf16, "fp8": self.fp8}
        return by_name.get(precision or "")


_SLICE: Final = re.compile(r"\bMIG\b")
_X = None
# name pattern, fp32, tf32, fp16, bf16, fp8 (TFLOP/s), bandwidth (GB/s), matrix fp32
_TABLE: Final[tuple[tuple[Any, ...], ...]] = (
    (r"P100-PCIE", 9.3, _X, _X, _X, _X, 732),
    (r"P100", 10.6, _X, _X, _X, _X, 732),
    (r"V100S", 16.4, _X, 130, _X, _X, 1134),
    (r"V100-PCIE|V100-FHHL", 14.0, _X, 112, _X, _X, 900),
    (r"V100", 15.7, _X, 125, _X, _X, 900),
    (r"\bT4\b", 8.1, _X, 65, _X, _X, 320),
    (r"RTX 2080 Ti", 13.4, _X, 53.8, _X, _X, 616),
    (r"A100-PCIE-80GB|A100 80GB PCIe", 19.5, 156, 312, 312, _X, 1935),
    (r"A100.*80GB", 19.5, 156, 312, 312, _X, 2039),
    (r"A100", 19.5, 156, 312, 312, _X, 1555),
    (r"\bA30\b", 10.3, 82, 165, 165, _X, 933),
    (r"\bA40\b", 37.4, 74.8, 149.7, 149.7, _X, 696),
    (r"\bA10G\b", 35.0, 35, 70, 70, _X, 600),
    (r"\bA10\b", 31.2, 62.5, 125, 125, _X, 600),
    (r"RTX A6000", 38.7, 77.4, 154.8, 154.8, _X, 768),
    (r"RTX A5000", 27.8, 55.6, 111.1, 111.1, _X, 768),
    (r"RTX 3090 Ti", 40.0, 40.0, 80.0, 80.0, _X, 1008),
    (r"RTX 3090", 35.6, 35.6, 71.0, 71.0, _X, 936),
    (r"RTX 3080 Ti", 34.1, 34.1, 68.2, 68.2, _X, 912),
    (r"RTX 3080", 29.8, 29.8, 59.5, 59.5, _X, 760),
    (r"RTX 6000 Ada", 91.1, 182.1, 364.2, 364.2, 728.5, 960),
    (r"\bL4\b", 30.3, 60, 121, 121, 242, 300),
    (r"L40S", 91.6, 183, 362, 362, 733, 864),
    (r"\bL40\b", 90.5, 90.5, 181, 181, 362, 864),
    (r"RTX 4090 D", 73.5, 73.5, 147.1, 147.1, 294.2, 1008),
    (r"RTX 4090", 82.6, 82.6, 165.2, 165.2, 330.3, 1008),
    (r"RTX 4080", 48.7, 48.7, 97.5, 97.5, 194.9, 717),
    (r"RTX 5090", 104.8, 104.8, 209.5, 209.5, 419, 1792),
    (r"RTX 5080", 56.3, 56.3, 112.6, 112.6, 225.1, 960),
    (r"H100 NVL", 60, 417.5, 835.5, 835.5, 1671, 3900),
    (r"H100 PCIe", 51, 378, 756, 756, 1513, 2000),
    (r"H100.*HBM3|H100 SXM|H100-SXM", 67, 494.7, 989.4, 989.4, 1978.9, 3350),
    (r"\bH200 NVL", 60, 417.5, 835.5, 835.5, 1671, 4800),
    (r"\bH200", 67, 494.7, 989.4, 989.4, 1978.9, 4800),
    (r"GH200", 67, 494.7, 989.4, 989.4, 1978.9, 4000),
    (r"GB200", 80, 1250, 2500, 2500, 5000, 8000),
    (r"B200", 75, 1125, 2250, 2250, 4500, 8000),
    (r"MI100", 23.1, _X, 184.6, 92.3, _X, 1229, 46.1),
    (r"MI210", 22.6, _X, 181, 181, _X, 1638, 45.3),
    (r"MI250X", 23.9, _X, 191.5, 191.5, _X, 1638, 47.9),
    (r"MI250", 22.6, _X, 181, 181, _X, 1638, 45.3),
    (r"MI300A", 122.6, 490.3, 980.6, 980.6, 1961.2, 5300),
    (r"MI300X", 163.4, 653.7, 1307.4, 1307.4, 2614.9, 5300),
    (r"MI325X", 163.4, 653.7, 1307.4, 1307.4, 2614.9, 6000),
    (r"MI350X", 144.2, _X, 2306.9, 2306.9, 4613.7, 8000),
    (r"MI355X", 157.3, _X, 2516.6, 2516.6, 5033.2, 8000),
)


MEMORY: Final = dict[str, int]([
    ("t4", 16), ("v100-16gb", 16), ("v100-32gb", 32), ("v100", 16), ("p100", 16), ("a10", 24),
    ("a10g", 24), ("a30", 24), ("a40", 48), ("l4", 24), ("l40", 48), ("l40s", 48),
    ("a100-40gb", 40), ("a100-80gb", 80), ("a100", 40), ("h100", 80), ("h100-nvl", 94),
    ("h200", 141), ("gh200", 96), ("b200", 180), ("gb200", 186), ("rtx2080ti", 11),
    ("rtx3080", 10), ("rtx3080ti", 12), ("rtx3090", 24), ("rtx4080", 16), ("rtx4090", 24),
    ("rtx5080", 16), ("rtx5090", 32), ("rtxa5000", 24), ("rtxa6000", 48), ("rtx6000ada", 48),
    ("mi100", 32), ("mi210", 64), ("mi250", 64), ("mi250x", 64), ("mi300a", 128),
    ("mi300x", 192), ("mi325x", 256), ("mi350x", 288), ("mi355x", 288),
])  # fmt: skip
"""name -> GB, the smaller where a name stands for several; sources as above"""


def memory_of(text: str) -> int | None:
    """Bytes of a size such as ``24GB`` or of a device's name such as ``RTX 4090``; None if it is
    neither. GB are decimal: what vendors sell as 24 GB holds 24 GiB, and the difference is about
    what the context of the device's library takes."""
    size = re.fullmatch(r"([\d.]+) ?([MG])i?B?", text.strip(), re.I)
    if size and size[1].replace(".", "", 1).isdigit():
        return round(float(size[1]) * (1e9 if size[2] in "Gg" else 1e6)) or None
    name = re.sub(r"^(nvidia|amd|geforce|instinct)|[ _]", "", text.lower().strip())
    known = MEMORY.get(name.replace("rtx-", "rtx"))
    return None if known is None else round(known * 1e9)


def peak_of(info: DeviceInfo) -> DevicePeaks | None:
    """Return the peaks of a recorded device; None if neither recorded nor known by name."""
    if info.peaks is not None:
        fp32, tf32, fp16, bf16, bandwidth = info.peaks
        return DevicePeaks(fp32, tf32, fp16, bf16, None, bandwidth)
    for pattern, *row in _TABLE if info.name and not _SLICE.search(info.name) else ():
        if re.search(pattern, str(info.name), re.I):
            bandwidth = row.pop(5) * 1e9
            fp32, tf32, fp16, bf16, fp8, *matrix = (rate and rate * 1e12 for rate in row)
            return DevicePeaks(fp32, tf32, fp16, bf16, fp8, bandwidth, *matrix)
    return None
