"""Makes samples of a dataset: surveys them, writes them in shards, or checks what was written.

Run by ``planning`` in the user's Python, once per purpose, with an order as JSON; writes
one line of JSON for each result to a file descriptor of its own, since datasets print.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
import os
import random
import re
import sys
import tempfile
import time
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Any

from ..knobs._sample_codec import UnknownError, decode_sample, encode_sample
from . import prepared_dataset

DATA = ("/proc/", "/sys/", "/dev/", "/etc/", "/usr/", "/lib")
CODE = (".py", ".pyc", ".so", ".pth", ".pyi")
ROUNDS, ROUNDS_S, BATCH = 7, 4.0, 32
"""rounds in which samples are made and read, the time after which no other begins, and samples that
are kept meanwhile"""
WRITTEN = 16 << 20
"""bytes of surveyed samples that are written to a temporary file"""
FULL = re.compile(
    r"No space left|errno = 28|RESOURCE_EXHAUSTED|File too large|errno = 27|quota exceeded"
)
"""how libraries say that the disk is full, or all that the user may write to it"""
_ADDRESS = re.compile(r"<(?:function )?(?:[\w.<>]*\.)?(\w+)( object)? at 0x\w+>")


class SampleError(Exception):
    """The dataset raised an error for an index."""


def main(order: dict[str, Any], reply: Callable[[dict[str, Any]], None]) -> None:
    """Carry out an order."""
    opened: dict[str, None] = {}
    _note_opened_files(opened)
    dataset = _load_dataset(order["spec"])
    chain = _find_chain(dataset)
    steps = list(chain.transforms) if chain is not None else []
    if order["mode"] == "survey":
        reply(_survey_samples(order, dataset, chain, steps) | {"files": list(opened)})
    elif order["mode"] == "check":
        reply(_check_samples(order, dataset, steps))
    else:
        _keep_prefix(chain, steps, order["prefix"])
        _seed_generators(0)
        for line in sys.stdin:
            reply(_write_shard(dataset, **json.loads(line)))


def _survey_samples(
    order: dict[str, Any], dataset: Any, chain: Any, steps: list[Any]
) -> dict[str, Any]:
    """Make some samples with all transforms, then with one less, and so on."""
    _seed_generators(order["seed"])
    size = len(dataset)
    count = min(order["count"], size)
    indices = sorted({i * (size - 1) // max(count - 1, 1) for i in range(count)})
    prefixes: list[dict[str, Any]] = []
    for prefix in range(len(steps), -1, -1):
        _keep_prefix(chain, steps, prefix)
        made = {i: _get_sample(dataset, i) for i in indices[:: order["direction"]]}
        encoded = [encode_sample(sample) for sample in made.values()][:: order["direction"]]
        digests = [hashlib.sha256(data).hexdigest() for data in encoded]
        sizes = [len(data) + 8 for data in encoded]  # with the place where it begins
        _keep_prefix(chain, steps, None)
        rounds = _time_reading(encoded, dataset, indices, steps[prefix:])
        prefixes.append({"prefix": prefix, "sizes": sizes, "digests": digests, "rounds": rounds})
    return {
        "samples": size,
        "indices": indices,
        "transforms": _name_steps(steps),
        "code": _hash_code(order["spec"], steps),
        "prefixes": prefixes,
        "imports": [name for name in ("numpy", "PIL.Image") if name in sys.modules],
    }


def _get_sample(dataset: Any, index: int) -> Any:
    try:
        return dataset[index]
    except Exception as error:  # whatever the user's dataset raises
        raise SampleError(f"dataset[{index}]: {type(error).__name__}: {error}") from error


def _time_reading(
    encoded: list[bytes], dataset: Any, indices: list[int], rest: list[Any]
) -> list[tuple[float, float]]:
    """Write samples to a temporary file: the times of rounds that make and read them."""
    ends = accumulate(map(len, encoded))
    kept = [data for data, end in zip(encoded, ends, strict=True) if end <= WRITTEN] or encoded[:1]
    with tempfile.TemporaryDirectory(prefix="whyidle-") as folder:
        path = os.path.join(folder, "surveyed")
        write_samples(path, map(decode_sample, kept))
        reader = prepared_dataset.ShardReader(path, len(kept))
        return _time_rounds(
            lambda pair: _get_sample(dataset, pair[0]),
            lambda pair: _finish_sample(reader[pair[1]], rest),
            list(zip(indices, range(len(kept)), strict=False)),
        )


def _finish_sample(sample: Any, rest: list[Any]) -> Any:
    """A prepared sample with the transforms that stay online."""
    value = sample[0] if type(sample) is tuple else sample
    for step in rest:
        value = step(value)
    return value


def _time_rounds(
    make: Callable[[Any], Any], read: Callable[[Any], Any], keys: list[Any]
) -> list[tuple[float, float]]:
    """Seconds a sample to make and to read the same samples, in turns, as a job does: in random
    order, with as many kept as a batch has. The first round, which loads libraries, is not told."""
    rounds, until = list[tuple[float, float]](), time.perf_counter() + ROUNDS_S
    for number in range(ROUNDS + 1):
        shuffled = random.Random(number).sample(keys, len(keys))
        spent = []
        for work in (make, read):
            batch: deque[Any] = deque(maxlen=BATCH)
            begin = time.perf_counter()
            for key in shuffled:
                batch.append(work(key))
            spent.append((time.perf_counter() - begin) / len(keys))
        if number:
            rounds.append((spent[0], spent[1]))
        if number > 1 and time.perf_counter() > until:
            break
    return rounds


def write_samples(path: str, samples: Iterable[Any]) -> None:
    """Write a file for ``ShardReader``."""
    offsets = array("Q", [0])
    with open(path, "wb") as file:
        for sample in samples:
            file.write(encode_sample(sample))
            offsets.append(file.tell())
        file.write(b"\0" * (-offsets[-1] % 8) + offsets.tobytes())


def _write_shard(dataset: Any, begin: int, end: int, path: str) -> dict[str, Any]:
    """Write samples aside, to the disk, then rename; end at once where whyidle is killed."""
    parent = os.getppid()

    def make_samples() -> Iterator[Any]:
        for index in range(begin, end):
            if os.getppid() != parent:
                os._exit(1)
            yield _get_sample(dataset, index)

    draft, digest = f"{path}.{os.getpid()}~", hashlib.sha256()
    try:
        write_samples(draft, make_samples())
        with open(draft, "rb+") as file:
            os.fsync(file.fileno())
            while block := file.read(1 << 20):
                digest.update(block)
        os.replace(draft, path)
    except BaseException:
        if os.path.exists(draft):
            os.unlink(draft)
        raise
    return {
        "name": os.path.basename(path),
        "samples": end - begin,
        "bytes": os.path.getsize(path),
        "sha256": digest.hexdigest(),
    }


def _check_samples(order: dict[str, Any], dataset: Any, steps: list[Any]) -> dict[str, Any]:
    """Read written samples back, and time making and reading them."""
    prepared_dataset.MANIFEST += "~"  # it is not complete before this check
    prepared = prepared_dataset.PreparedDataset(order["folder"])
    digests = [
        hashlib.sha256(encode_sample(prepared[index])).hexdigest() for index in order["indices"]
    ]
    rest = steps[order["prefix"] :]
    rounds = _time_rounds(
        lambda index: _get_sample(dataset, index),
        lambda index: _finish_sample(prepared[index], rest),
        order["indices"],
    )
    return {"digests": digests, "rounds": rounds, "same_length": len(prepared) == len(dataset)}


def _seed_generators(seed: int) -> None:
    """Other seeds in each process: what depends on them differs."""
    random.seed(seed)
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None:
        numpy.random.seed(seed)
    if torch is not None:
        torch.manual_seed(seed)
        torch.set_num_threads(1)  # as in loader workers


def _load_dataset(spec: str) -> Any:
    place, _, name = spec.rpartition(":")
    if place.endswith(".py"):
        sys.path.insert(0, os.path.dirname(os.path.abspath(place)))
        title = os.path.basename(place)[:-3]
        found: Any = importlib.util.spec_from_file_location(title, place)
        module = importlib.util.module_from_spec(found)
        sys.modules[title] = module
        found.loader.exec_module(module)
    else:
        sys.path.insert(0, os.getcwd())
        module = importlib.import_module(place)
    made = getattr(module, name)
    dataset = made if hasattr(made, "__getitem__") and not isinstance(made, type) else made()
    if not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")):
        raise TypeError(f"{spec} is not a dataset with a length: {type(dataset).__name__}")
    return dataset


def _find_chain(dataset: Any) -> Any:
    """The chain of transforms, if the dataset has a single one that is a list."""
    if "torch" not in sys.modules:
        return None
    from ..frameworks.torch.transform_chains import find_chains

    chains = [c for c in find_chains(dataset) if type(getattr(c, "transforms", None)) is list]
    return chains[0] if len(chains) == 1 else None


def _keep_prefix(chain: Any, steps: list[Any], prefix: int | None) -> None:
    if chain is not None:
        chain.transforms = steps[:prefix]


def _hash_code(spec: str, steps: list[Any]) -> str:
    place = spec.rpartition(":")[0]
    file = place if place.endswith(".py") else getattr(sys.modules[place], "__file__", None)
    text = b""
    if file:
        with open(file, "rb") as code:
            text = code.read()
    return hashlib.sha256(text + repr(_name_steps(steps)).encode()).hexdigest()


def _name_steps(steps: list[Any]) -> list[str]:
    """Transforms as they are written; what shows its address only is named."""
    return [
        _ADDRESS.sub(lambda found: found[1] + "()" * bool(found[2]), repr(step)) for step in steps
    ]


def _note_opened_files(opened: dict[str, None]) -> None:
    """Note the data files that are opened from now on."""
    own = (*DATA, sys.prefix, sys.base_prefix)

    def note_event(event: str, args: tuple[Any, ...]) -> None:
        written = event != "open" or any(mark in (args[1] or "r") for mark in "wax+")
        if not written and isinstance(args[0], str | bytes) and len(opened) < 100_000:
            path = os.path.abspath(os.fsdecode(args[0]))
            if not path.startswith(own) and not path.endswith(CODE):
                opened[path] = None

    sys.addaudithook(note_event)


def run_order() -> None:
    """Carry out the order of the command line; errors are replies."""
    order = json.loads(sys.argv[1])
    with os.fdopen(order["reply"], "w", encoding="utf-8", buffering=1) as channel:

        def reply(result: dict[str, Any]) -> None:
            try:
                print(json.dumps(result), file=channel)
            except BrokenPipeError:  # whyidle was killed
                os._exit(1)

        try:
            main(order, reply)
        except UnknownError as error:
            reply({"error": f"a sample holds {error}"})
        except SampleError as error:
            reply({"error": str(error), "kind": "disk" if FULL.search(str(error)) else "sample"})
        except Exception as error:  # whatever the user's dataset raises is told, not shown
            text = f"{type(error).__name__}: {error}"
            reply({"error": text, "kind": "disk" if FULL.search(text) else ""})
