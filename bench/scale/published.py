"""Predicts published scaling tables from one GPU, and from one node.

    python bench/scale/published.py

The tables are those of DLPerf (github.com/Oneflow-Inc/DLPerf; medians of 5 to 7 runs, 2020): four
nodes of eight V100 SXM2, one InfiniBand adapter of 100 Gbit/s in each. They tell batch and rate.
Added here: the number of parameters, the nominal NVLink of a V100 (six links of 25 GB/s), and how
gradients are exchanged: PyTorch's ImageNet example in DistributedDataParallel's buckets during the
backward pass, NVIDIA's BERT in one exchange after it (``message_size=250000000`` of Apex), in fp16
with half of the bytes. The tables do not tell how much ranks vary, so no rank is ever late here.
"""

from typing import NamedTuple

import numpy as np

from whyidle.analysis.ranks.rank_scaling import BUCKET, FIRST_BUCKET, OwnSteps, simulate_step
from whyidle.model.documents.rank_scaling import Link

NODE = 8
WITHIN = Link(latency_s=0.0, bytes_per_s=150e9, spread=0.34, source="given")
BETWEEN = Link(latency_s=0.0, bytes_per_s=12.5e9, spread=0.34, source="given")
BACKWARD = 2 / 3
"""share of a step in the backward pass: twice the operations of the forward pass"""
RESNET50, BERT_BASE = 25_557_032, 110_106_428


class Table(NamedTuple):
    """Samples per second by number of GPUs, and what one of them exchanges."""

    name: str
    batch: int
    bytes: int
    overlaps: bool
    rates: dict[int, float]


TABLES = (
    Table("ResNet-50, fp32, batch 128", 128, 4 * RESNET50, True,
          {1: 350.66, 4: 1306.49, 8: 2707.42, 16: 5193.09, 32: 10032.72}),
    Table("BERT base, fp32, batch 32", 32, 4 * BERT_BASE, False,
          {1: 119.6, 4: 457.72, 8: 921.32, 16: 1499.4, 32: 2885.81}),
    Table("BERT base, fp32, batch 48", 48, 4 * BERT_BASE, False,
          {1: 121.94, 4: 464.66, 8: 928.01, 16: 1584.32, 32: 3039.3}),
    Table("BERT base, fp16, batch 64", 64, 2 * BERT_BASE, False,
          {1: 444.51, 4: 1671.66, 8: 3251.7, 16: 4936.92, 32: 9331.72}),
    Table("BERT base, fp16, batch 96", 96, 2 * BERT_BASE, False,
          {1: 462.35, 4: 1727.93, 8: 3287.12, 16: 5426.07, 32: 10349.12}),
)  # fmt: skip


def step_s(table, ranks):
    """The published step, s."""
    return table.batch * ranks / table.rates[ranks]


def predict(table, ranks):
    """The step on so many GPUs, s, by the model alone from that of one GPU."""
    own = step_s(table, 1)
    sizes, ready = [table.bytes], [own]
    if table.overlaps:
        sizes = [FIRST_BUCKET]
        while sum(sizes) < table.bytes:
            sizes.append(min(BUCKET, table.bytes - sum(sizes)))
        ready = own * (1 - BACKWARD + BACKWARD * np.cumsum(sizes) / table.bytes)
    steps = OwnSteps(np.atleast_2d(ready), np.array([own]), 1, 0.0)
    link = WITHIN if ranks <= NODE else BETWEEN
    return simulate_step(steps, np.array(sizes, float), link, ranks).step


def errors(table):
    """(GPUs, predicted from one GPU, from one node, published), s."""
    beyond = step_s(table, NODE) - predict(table, NODE)
    return [
        (n, predict(table, n), predict(table, n) + beyond if n > NODE else None, step_s(table, n))
        for n in table.rates
        if n > 1
    ]


def main():
    print("| job | GPUs | published, ms | from one GPU | error | from one node | error |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for table in TABLES:
        for ranks, one, node, truth in errors(table):
            cells = [table.name, str(ranks), f"{1e3 * truth:.0f}"]
            for step in (one, node):
                cells += [f"{1e3 * step:.0f}", f"{step / truth - 1:+.1%}"] if step else ["", ""]
            print("| " + " | ".join(cells).replace("%", " %") + " |")


if __name__ == "__main__":
    main()
