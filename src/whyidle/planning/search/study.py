"""A search as a study of Optuna: where it is kept, what is proposed, and which trials end early.

The folder of a search holds ``search.json`` (what is searched, and where its study is kept), unless
``--storage`` says otherwise the study itself, and a folder for each trial. Several processes, also
of several machines, may run trials of one study.
"""

from __future__ import annotations

import math
import os
import socket
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import msgspec
import psutil

from whyidle.errors import InputError, MissingExtraError, UsageError
from whyidle.model.documents.search import AGAIN, Dimension, SearchSetup, SearchTrial, Value, Values
from whyidle.planning.search.space import grid_values
from whyidle.store.atomic_write import write_atomic

FILE: Final = "search.json"
RECORD, DRIVER, RETRY_OF = "whyidle", "whyidle.driver", "whyidle.retry_of"
"""user attributes of trials: the trial as our document has it, the process that runs it, and the
trial whose values it has"""
STARTUP: Final = 8
"""random trials before TPE models the space; Optuna's 10 suits searches of hundreds"""
UNPRUNED: Final = 4
"""trials that the median needs before it ends others; Optuna's default is 5"""
UNJUDGED: Final = 2
"""first step that is compared: one value says little, and learning rates may still warm up"""
HEARTBEAT_S, GRACE_S = 60, 180
"""period of the sign of life of trials, and the silence after which Optuna runs one again; shorter
ones fail trials that live (optuna#5470)"""


class SearchFile(msgspec.Struct, kw_only=True):
    """What ``search.json`` holds. ``storage`` is a URL of Optuna."""

    setup: SearchSetup
    storage: str
    study: str
    trials: int
    parallel: int = 1

    def write(self, folder: Path) -> None:
        """Write it."""
        write_atomic(folder / FILE, msgspec.json.format(msgspec.json.encode(self)))


def read_search_file(folder: Path) -> SearchFile:
    """Read the file of a search.

    Raises:
        UsageError: there is none.
        InputError: it cannot be read.
    """
    try:
        return msgspec.json.decode((folder / FILE).read_bytes(), type=SearchFile)
    except FileNotFoundError as error:
        hint = "whyidle tune --resume last"
        raise UsageError(f"There is no search in {folder}.", hint=hint) from error
    except (msgspec.DecodeError, OSError) as error:
        raise InputError(f"Cannot read {folder / FILE}.", why=f"{error}.") from error


def check_setup(folder: Path, before: SearchSetup, setup: SearchSetup) -> None:
    """Check that a folder holds this search.

    Raises:
        UsageError: it holds another one; the message names the first difference.
    """
    for name in SearchSetup.__struct_fields__:
        there, here = getattr(before, name), getattr(setup, name)
        if there != here:
            shown = isinstance(here, str | int) and len(f"{there}{here}") < 200
            raise UsageError(
                f"{folder} holds another search: not the same {name}.",
                why=f"There {there!r}, here {here!r}." if shown else "",
                hint=f"whyidle tune --resume {folder} continues it; --out chooses another folder.",
            )


def load_optuna() -> ModuleType:
    """Optuna, without its log of trials.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import optuna  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise MissingExtraError(
            "A search requires Optuna.", why=f"{error}.", hint='pip install "whyidle[tune]"'
        ) from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    # heartbeats; their signatures are asked for, not assumed
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna


def open_study(search: SearchFile) -> Any:
    """The study, new or as it was left; sampler and pruner are made anew.

    Raises:
        InputError: the storage cannot be opened.
    """
    optuna, setup = load_optuna(), search.setup
    try:
        study = optuna.create_study(
            storage=_open_storage(optuna, search.storage),
            study_name=search.study,
            direction=setup.direction,
            load_if_exists=True,
            pruner=_make_pruner(optuna, setup.pruner),
        )
    except Exception as error:  # of the database, or of its driver
        why = str(error).splitlines()[0].rstrip(".") + "."
        hint = "--storage sqlite:///study.db, or another URL of SQLAlchemy"
        raise InputError(f"Cannot open {search.storage}.", why=why, hint=hint) from error
    # each process draws other values than those before it
    study.sampler = _make_sampler(optuna, setup, setup.seed + len(study.trials))
    return study


def _open_storage(optuna: Any, url: str) -> Any:
    storages = optuna.storages
    # renamed in Optuna 5, where the old names warn
    renamed = hasattr(storages, "RetryHeartbeatStaleTrialCallback")
    retry = "RetryHeartbeatStaleTrialCallback" if renamed else "RetryFailedTrialCallback"
    option = "heartbeat_stale_trial_callback" if renamed else "failed_trial_callback"
    return storages.RDBStorage(
        url,
        heartbeat_interval=HEARTBEAT_S,
        grace_period=GRACE_S,
        **{option: getattr(storages, retry)(max_retry=3)},
    )


def _make_sampler(optuna: Any, setup: SearchSetup, seed: int) -> Any:
    samplers = optuna.samplers
    if setup.sampler == "grid":
        grid = {dimension.name: grid_values(dimension) for dimension in setup.dimensions}
        return samplers.GridSampler(grid, seed=setup.seed)
    if setup.sampler == "random":
        return samplers.RandomSampler(seed=seed)
    return samplers.TPESampler(seed=seed, n_startup_trials=STARTUP)


def _make_pruner(optuna: Any, name: str) -> Any:
    pruners = optuna.pruners
    if name == "median":
        return pruners.MedianPruner(n_startup_trials=UNPRUNED, n_warmup_steps=UNJUDGED)
    if name == "asha":
        # one in three trials passes a rung; its paper's experiments had 3 or 4
        return pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=3)
    return pruners.NopPruner()


def suggest_values(trial: Any, setup: SearchSetup) -> Values:
    """The values of a trial of Optuna."""
    return {dimension.name: _suggest(trial, dimension, setup) for dimension in setup.dimensions}


def _suggest(trial: Any, dimension: Dimension, setup: SearchSetup) -> Value:
    choices = grid_values(dimension) if setup.sampler == "grid" else dimension.choices
    value: Value
    if choices:
        value = trial.suggest_categorical(dimension.name, choices)
    elif dimension.whole:
        ends = int(dimension.low), int(dimension.high)
        value = trial.suggest_int(dimension.name, *ends, log=dimension.log)
    else:
        value = trial.suggest_float(
            dimension.name, dimension.low, dimension.high, log=dimension.log
        )
    return value


def count_points(setup: SearchSetup) -> float:
    """How many points a search can have."""
    if setup.sampler == "grid":
        return math.prod(len(grid_values(dimension)) for dimension in setup.dimensions)
    finite = all(dimension.choices for dimension in setup.dimensions)
    return math.prod(len(d.choices) for d in setup.dimensions) if finite else math.inf


def driver_mark() -> list[Any]:
    """What tells this process from all others: host, number, and when it was started."""
    return [socket.gethostname(), os.getpid(), psutil.Process().create_time()]


def requeue_lost(study: Any) -> list[int]:
    """Queue the values of trials again that were cut off on this machine, and return their numbers.
    Those of other machines are Optuna's, by their heartbeats."""
    trials = load_optuna().trial
    for trial in study.get_trials(states=(trials.TrialState.RUNNING,)):
        if _is_dead(trial.user_attrs.get(DRIVER)):
            study.tell(trial.number, state=trials.TrialState.FAIL)
    read = read_trials(study)
    retried = {trial.retry_of for trial in read}
    retried |= {t.user_attrs.get(RETRY_OF) for t in study.trials}
    lost = [trial for trial in read if trial.ending in AGAIN and trial.number not in retried]
    for trial in lost:
        study.enqueue_trial(trial.values, user_attrs={RETRY_OF: trial.number})
    return [trial.number for trial in lost]


def _is_dead(driver: list[Any] | None) -> bool:
    host, pid, created = driver or ["", 0, 0.0]
    if host != socket.gethostname():
        return False
    try:
        return psutil.Process(pid).create_time() != created
    except psutil.NoSuchProcess:
        return True


def read_trials(study: Any) -> list[SearchTrial]:
    """The trials that have begun, by number."""
    states = load_optuna().trial.TrialState
    found = []
    for trial in study.trials:
        if trial.state == states.WAITING or not trial.params:
            continue
        if RECORD in trial.user_attrs:
            found.append(msgspec.convert(trial.user_attrs[RECORD], SearchTrial))
            continue
        lost = trial.state != states.RUNNING
        retry_of = trial.user_attrs.get(RETRY_OF, trial.system_attrs.get("failed_trial"))
        found.append(
            SearchTrial(
                number=trial.number,
                values=dict(trial.params),
                ending="lost" if lost else "running",
                why="whyidle was killed" if lost else "",
                retry_of=retry_of,
            )
        )
    return found
