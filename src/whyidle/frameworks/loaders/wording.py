"""How users of PyTorch's ``DataLoader`` write its knobs, whatever it feeds."""

from __future__ import annotations

from typing import Final

BY_HAND: Final[dict[str, str]] = {
    "dataset.cache": "a cache of the dataset's items, by index",
    "loader.full_affinity": (
        "os.sched_setaffinity(0, CORES) in worker_init_fn, with all cores of the command"
    ),
    "loader.persistent_workers": "DataLoader(..., persistent_workers={value})",
    "loader.prefetch_factor": "DataLoader(..., prefetch_factor={value})",
    "loader.worker_threads": "torch.set_num_threads({value}) in the DataLoader's worker_init_fn",
    "loader.workers": "DataLoader(..., num_workers={value})",
}
