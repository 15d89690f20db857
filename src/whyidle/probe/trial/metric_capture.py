"""Passes the metric of a search on, as the job logs it to TensorBoard, MLflow, Weights & Biases or
Lightning's CSV file.

Event files are flushed minutes late, and servers would have to be asked; so the calls are noted as
they are made. Only values of the wanted name are looked at. ``boot/sitecustomize.py`` loads this
file by its path: it uses the standard library only, and a failure never reaches the job.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

Found = Iterator[tuple[str, Any, Any]]
"""name, value and step of what a call logs"""


def _scalar(tag: Any = None, scalar_value: Any = None, global_step: Any = None, **_: Any) -> Found:
    yield tag, scalar_value, global_step


def _scalars(main_tag: str, tag_scalar_dict: Any, global_step: Any = None, **_: Any) -> Found:
    for name, value in tag_scalar_dict.items():
        yield f"{main_tag}/{name}", value, global_step


def _mlflow_metric(run_id: Any, key: Any, value: Any, *args: Any, **more: Any) -> Found:
    yield key, value, more.get("step", args[1] if len(args) > 1 else None)


def _mlflow_batch(run_id: Any, metrics: Any = (), *args: Any, **more: Any) -> Found:
    for metric in metrics:
        yield metric.key, metric.value, metric.step


def _wandb_log(data: Any, step: Any = None, *args: Any, **more: Any) -> Found:
    for name, value in data.items():
        yield name, value, step


def _csv_metrics(metrics: Any, step: Any = None) -> Found:
    yield from _wandb_log(metrics, step)


class Hook(NamedTuple):
    """A method of a tracker, and what a call of it logs."""

    tracker: str
    module: str
    owner: str
    method: str
    read: Callable[..., Found]


HOOKS = (
    Hook("tensorboard", "torch.utils.tensorboard.writer", "SummaryWriter", "add_scalar", _scalar),
    Hook("tensorboard", "torch.utils.tensorboard.writer", "SummaryWriter", "add_scalars", _scalars),
    Hook("tensorboard", "tensorboardX.writer", "SummaryWriter", "add_scalar", _scalar),
    Hook("tensorboard", "tensorboardX.writer", "SummaryWriter", "add_scalars", _scalars),
    Hook("mlflow", "mlflow.tracking.client", "MlflowClient", "log_metric", _mlflow_metric),
    Hook("mlflow", "mlflow.tracking.client", "MlflowClient", "log_batch", _mlflow_batch),
    Hook("wandb", "wandb.sdk.wandb_run", "Run", "log", _wandb_log),
    Hook("csv", "lightning.fabric.loggers.csv_logs", "CSVLogger", "log_metrics", _csv_metrics),
    Hook("csv", "lightning_fabric.loggers.csv_logs", "CSVLogger", "log_metrics", _csv_metrics),
)


def list_waits(path: str, wanted: str) -> list[tuple[str, Callable[[Any], None]]]:
    """Modules, and what to call with each once it is imported. Each module stands here once: two
    that wait for the same one would ask each other for it without end."""

    def hook_module(name: str, module: Any) -> None:
        for hook in HOOKS:
            if hook.module == name:
                _hook_method(path, wanted, hook, module)

    return [(n, functools.partial(hook_module, n)) for n in dict.fromkeys(h.module for h in HOOKS)]


def _hook_method(path: str, wanted: str, hook: Hook, module: Any) -> None:
    made = getattr(module, hook.owner, None)
    original = getattr(made, hook.method, None)
    if original is None:
        return

    @functools.wraps(original)
    def log_and_note(own: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(own, *args, **kwargs)
        try:
            for name, value, step in hook.read(*args, **kwargs):
                if name == wanted:
                    write_value(path, hook.tracker, name, value, step)
        except Exception:  # arguments of a newer version: the job goes on, the metric is missed
            return result
        return result

    setattr(made, hook.method, log_and_note)


def write_value(path: str, by: str, name: str, value: Any, step: Any) -> None:
    """Append one value; in one call, since several processes may write."""
    line = {"by": by, "name": name, "value": float(value)}
    line |= {} if step is None else {"step": int(step)}
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    try:
        os.write(file, json.dumps(line).encode() + b"\n")
    finally:
        os.close(file)
