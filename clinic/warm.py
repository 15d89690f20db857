"""An interpreter that has imported what every job does, and becomes one job after another.

A job alone takes some seven seconds, of which importing PyTorch (and, at its first step, the
compiler) takes two and a half that tell nothing. So these are imported once, and each job is a fork
of that: the script runs as ``__main__`` of a process, session and environment of its own, and ends
as any interpreter does. Both arms of a pair begin like this. Started afresh are: what is watched,
ranks, jobs whose start-up is measured, and those that set the environment or their cores.

Run as a script it needs nothing but what it imports: what else lay in its memory would be the
jobs', whose collector is timed. On its standard input it is told of a job in a line, and tells its
number on its standard output, and in the end its status.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path

PRELOADED = ("numpy", "torch", "torch.utils.data", "torch._dynamo")


def serve() -> dict[str, object]:
    """Until there is a job to become: returns in the fork, with the job. Leaves when nobody will
    ask for one any more."""
    with contextlib.suppress(ImportError):  # the script will say so
        for name in PRELOADED:
            __import__(name)
    rest = b""
    while True:
        line, found, rest = rest.partition(b"\n")
        if not found:
            more = os.read(0, 65536)
            if not more:
                os._exit(0)
            rest = line + more
            continue
        child = os.fork()
        if child == 0:
            os.setsid()
            _tell(os.getpid())  # not before there is a session that can be ended
            job: dict[str, object] = json.loads(line)
            return job
        _tell(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def _tell(number: int) -> None:
    os.write(1, b"%d\n" % number)


def become(job: dict[str, object]) -> None:
    """The process that the job would have been started in."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    said = os.open(str(job["said"]), os.O_WRONLY | os.O_APPEND)
    for number, file in ((0, nothing), (1, said), (2, said)):
        os.dup2(file, number)
    os.close(nothing)
    os.close(said)
    os.chdir(str(job["folder"]))
    os.environ.clear()
    os.environ.update(job["environment"])  # type: ignore[call-overload]
    words = job["words"]
    assert isinstance(words, list)
    sys.argv = words
    sys.path[0] = str(Path.cwd())


def run() -> None:
    """The script, as the main module."""
    script = Path(sys.argv[0]).absolute()
    code = compile(script.read_bytes(), str(script), "exec")
    main = sys.modules["__main__"].__dict__
    kept = {name: main[name] for name in ("__name__", "__builtins__", "__loader__")}
    main.clear()
    main.update(kept, __file__=str(script), __spec__=None, __package__=None, __doc__=None)
    exec(code, main)


if __name__ == "__main__":
    become(serve())
    run()
