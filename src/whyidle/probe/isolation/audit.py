"""An audit hook that records what leaves the machine, and which programs are started.

Each process writes lines ``WHAT<tab>FILE:LINE`` to a file of its own, once for each pair. Refused
connections, which are a leak only if nobody answered in the end, go to another file, and reached
ports to a third. If the job may not use a network and the system cannot close it, connections are
refused here, as if there were no route to the address or, on this machine, no listener.
"""

from __future__ import annotations

import _thread
import atexit
import errno
import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
LISTENS = "0A"
READERS = frozenset(
    {
        "c++",
        "cc",
        "clang",
        "clang++",
        "g++",
        "gcc",
        "git",
        "hostname",
        "hwloc-info",
        "ldconfig",
        "lscpu",
        "lspci",
        "nvidia-smi",
        "objdump",
    }
    | {"numactl", "rocm-smi", "rocminfo", "uname", "which", "whoami"}
)
"""programs that libraries start to inspect the machine or to compile into a temporary folder"""
_STANDARD = os.path.dirname(os.__file__) + os.sep
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_INSTALLED = f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}"


@dataclass
class AuditRequest:
    """What to watch for and what to refuse."""

    folder: str  # of the notes
    local: list[str]  # this machine's names and addresses
    refuse: bool = False  # connections to others
    programs: bool = False  # note started programs other than Python
    read_only: list[str] = field(default_factory=list)  # folders that cannot be written
    closed: bool = False  # whether the network has no way out
    layers: str | None = None  # folder that takes all writes outside ``left``
    left: list[str] = field(default_factory=list)  # places that are written for good
    taken: list[int] = field(default_factory=list)
    """ports of this machine with other listeners, which may store or forward what they receive; out
    of reach in a ``closed`` network"""


class AuditNotes:
    """The notes of one process."""

    def __init__(self, request: AuditRequest) -> None:
        self.request = request
        self.local = {*request.local, "localhost", "localhost.localdomain", "ip6-localhost", ""}
        self.local |= {"::1", "0.0.0.0", "::"}
        self.seen: set[tuple[str, str]] = set()
        self.busy: set[int] = set()
        self.watched: dict[str, Callable[..., None]] = {
            "socket.connect": self._note_connection,
            "socket.sendto": self._note_connection,
            "socket.sendmsg": self._note_connection,
            "socket.getaddrinfo": self._looked_up,
        }
        if request.programs:
            self.watched |= {
                "subprocess.Popen": self._note_program,
                "os.posix_spawn": self._note_program,
                "os.exec": self._note_program,
                "os.system": self._note_shell,
            }
        if request.read_only:
            self.watched["open"] = self._note_open
            self.denied = {_device_number(path) for path in request.read_only}

    def audit_hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Handle an audit event; most are ignored."""
        handler = self.watched.get(event)
        if handler is None:
            return
        thread = _thread.get_ident()
        if thread in self.busy:
            return
        self.busy.add(thread)
        try:
            handler(*arguments)
        finally:
            self.busy.discard(thread)

    def write_note(self, what: str, kind: str = "notes") -> None:
        """Write a note with the user's line that led here."""
        key = (" ".join(what.split()), user_line())
        if key in self.seen or len(self.seen) >= 200:  # different notes
            return
        self.seen.add(key)
        path = os.path.join(self.request.folder, f"{os.getpid()}.{kind}")
        try:
            with open(path, "a", encoding="utf-8", errors="replace") as file:
                file.write("\t".join(key) + "\n")
        except OSError:
            pass  # it cannot be recorded; the job continues

    def _note_connection(self, sock: Any, address: Any) -> None:
        if sock.family not in (socket.AF_INET, socket.AF_INET6) or not isinstance(address, tuple):
            return
        host, port = str(address[0]), address[1]
        if self._is_remote(host):
            self.write_note(f"connection to {host}:{port}")
            self._refuse_call()
        elif sock.type == socket.SOCK_STREAM and port in self.request.taken:
            self._note_taken_port(host, port)

    def _note_taken_port(self, host: str, port: int) -> None:
        """Note a connection to a port that had a listener at the start. In a network of its own the
        job finds no listener there, except one that it starts itself, perhaps later."""
        if not self.request.closed:
            self.write_note(f"connection to {host}:{port}")
            self._refuse_call(errno.ECONNREFUSED)
        elif _is_listening(port):
            self.write_note(f"{port}", "reached")
        else:
            self.write_note(f"connection to {host}:{port}", "refused")

    def _looked_up(self, host: Any, port: Any, *_: Any) -> None:
        name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
        if name is not None and self._is_remote(str(name)):
            self.write_note(f"connection to {name}:{port}" if port else f"look-up of {name}")
            self._refuse_call()

    def _is_remote(self, host: str) -> bool:
        bare = host.strip("[]").partition("%")[0].lower()
        return not (
            bare in self.local or bare.startswith("127.") or bare in ("::1", "0.0.0.0", "::")
        )

    def _refuse_call(self, number: int = errno.ENETUNREACH) -> None:
        if self.request.refuse:
            raise OSError(number, os.strerror(number))

    def _note_program(self, program: Any, words: Any, *rest: Any) -> None:
        name = os.path.basename(os.fsdecode(program))
        if name in ("sh", "bash") and isinstance(words, (list, tuple)) and len(words) > 2:
            self._note_shell(words[-1])
        elif self._only_looks(name, words):
            return
        elif not self._is_isolated_python(os.fsdecode(program), name):
            self.write_note(f"program {name}")
        elif not self._is_python_isolated(words, rest[-1] if rest else None):
            self.write_note(f"program {name}, without the variables that isolate it")

    @staticmethod
    def _is_python_isolated(words: Any, environment: Any) -> bool:
        """Whether a started Python process will load this module too."""
        alone = {"-I", "-E", "-S", "-IS", "-SI", "-ES", "-SE"}
        if isinstance(words, (list, tuple)) and alone & {os.fsdecode(word) for word in words[1:4]}:
            return False
        if not isinstance(environment, Mapping):
            return True
        names = {os.fsdecode(word) for word in environment}
        return {"WHYIDLE_ISOLATION", "PYTHONPATH"} <= names

    @staticmethod
    def _only_looks(name: str, words: Any) -> bool:
        """Whether a program only inspects the machine, unlike ``git push``."""
        if name not in READERS:
            return False
        every = words if isinstance(words, (list, tuple)) else str(words).split()
        return name != "git" or "push" not in map(os.fsdecode, every)

    def _note_shell(self, command: Any) -> None:
        words = os.fsdecode(command).split()
        name = os.path.basename(words[0]) if words else "sh"
        if not self._only_looks(name, words) and not name.startswith("python"):
            self.write_note(f"program {name}")

    @staticmethod
    def _is_isolated_python(path: str, name: str) -> bool:
        if name.startswith("python") or path == sys.executable:
            return True
        try:
            with open(path, "rb") as file:
                first = file.read(128).split(b"\n")[0]
        except OSError:
            return False
        return first.startswith(b"#!") and b"python" in first

    def _note_open(self, path: Any, _: Any, flags: Any) -> None:
        writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        if isinstance(path, int) or not isinstance(flags, int) or not flags & writes:
            return
        try:
            above = os.path.dirname(os.path.realpath(path))
            if os.statvfs(above).f_flag & os.ST_RDONLY and os.stat(above).st_dev in self.denied:
                self.write_note(f"write to {os.fsdecode(path)} refused")
        except OSError:
            pass  # there is no such folder: the job's own call raises


def _device_number(path: str) -> int:
    try:
        return os.stat(path).st_dev
    except OSError:
        return -1


def user_line() -> str:
    """Return the innermost line on the stack outside libraries and the probe."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        library = name.startswith(("<", _STANDARD, _OWN)) or any(
            folder in name for folder in _INSTALLED
        )
        if not library:
            return f"{name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def install_audit(request: AuditRequest) -> AuditNotes:
    """Install the audit hook, which cannot be removed."""
    notes = AuditNotes(request)
    sys.addaudithook(notes.audit_hook)
    if request.closed:
        atexit.register(_count_lookups, request.folder)
    return notes


def _count_lookups(folder: str) -> None:
    """Record how many packets in this network had no route, those of programs and C code included,
    as the system counts them."""
    total = 0
    try:
        with open("/proc/net/snmp", encoding="ascii") as file:
            names, numbers = (line.split() for line in file if line.startswith("Ip:"))
        total += int(dict(zip(names, numbers, strict=True))["OutNoRoutes"])
        with open("/proc/net/snmp6", encoding="ascii") as file:
            total += sum(int(line.split()[1]) for line in file if "Ip6OutNoRoutes" in line)
        if total:
            with open(os.path.join(folder, f"{os.getpid()}.routes"), "w") as file:
                file.write(str(total))
    except (OSError, ValueError, KeyError):
        pass  # not counted by this kernel


def _is_listening(port: int) -> bool:
    """Whether a port has a listener, sockets of C++ code included: PyTorch's ranks meet at one."""
    end = f":{port:04X}"
    return any(place.endswith(end) for table in TABLES for place in _listening_sockets(table))


def _listening_sockets(table: str) -> Iterator[str]:
    with suppress(OSError), open(table, encoding="ascii") as file:  # no IPv6 has no table of it
        for line in file:
            _, local, _, state = line.split()[:4]
            if state == LISTENS:
                yield local
