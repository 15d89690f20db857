"""Restricts itself with Landlock and executes the command: ``landlock_launcher.py PLAN WORDS...``.

It gives up the right to write outside the planned folders, and to connect to ports of services; so
do its child processes. It uses little of the standard library, because it starts before every
trial. Exit statuses are those of ``namespace_launcher.py``. Without a command it prints `OPEN` if
the kernel cannot restrict ports.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import signal
import struct
import sys

CREATE, ADD, RESTRICT = 444, 445, 446  # system calls, the same on all architectures
BENEATH, PORT = 1, 2
WRITE_FILE, REMOVE, MAKE, REFER, TRUNCATE = 1 << 1, 0b11 << 4, 0b1111111 << 6, 1 << 13, 1 << 14
ON_FILES = WRITE_FILE | TRUNCATE
CONNECT_TCP = 1 << 1
DIE_WITH_PARENT, NO_NEW_PRIVILEGES = 1, 38
PORTS_SINCE = 4  # first version that restricts ports: Linux 6.7
FAILED, OPEN = 125, "open"

libc = ctypes.CDLL(None, use_errno=True)


def system_call(number: int, *arguments: object) -> int:
    """Run a system call; raises OSError."""
    found: int = libc.syscall(ctypes.c_long(number), *arguments)
    if found < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return found


def landlock_version() -> int:
    """Version of Landlock's interface.

    Raises:
        OSError: Landlock is missing or disabled.
    """
    return system_call(CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))  # the version


def restrict_process(
    writable: list[str], ports: list[tuple[int, int]], existing: list[str]
) -> bool:
    """Restrict this process and its future children.

    They may write below ``writable``, write to existing files below ``existing``, and connect only
    to ``ports`` (first, last) if any are given. Returns whether the kernel can restrict ports.
    """
    have = landlock_version()
    files = WRITE_FILE | REMOVE | MAKE
    files |= (REFER if have >= 2 else 0) | (TRUNCATE if have >= 3 else 0)
    net = CONNECT_TCP if ports and have >= PORTS_SINCE else 0
    rules = struct.pack("=QQ", files, net) if have >= PORTS_SINCE else struct.pack("=Q", files)
    ruleset = system_call(CREATE, rules, ctypes.c_size_t(len(rules)), ctypes.c_uint32(0))
    for path in writable:
        _allow_path(ruleset, path, files)
    for path in existing:
        _allow_path(ruleset, path, files & ON_FILES)
    if net:
        rule = ctypes.create_string_buffer(16)
        words = (ctypes.c_long(ADD), ctypes.c_int(ruleset), ctypes.c_int(PORT), rule, 0)
        for first, last in ports:
            for port in range(first, last + 1):
                struct.pack_into("=QQ", rule, 0, CONNECT_TCP, port)
                if libc.syscall(*words) != 0:
                    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    if libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    system_call(RESTRICT, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    os.close(ruleset)
    return have >= PORTS_SINCE


def _allow_path(ruleset: int, path: str, rights: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        rights &= rights if os.path.isdir(path) else ON_FILES
        rule = struct.pack("=Qi", rights, handle)
        system_call(ADD, ctypes.c_int(ruleset), ctypes.c_int(BENEATH), rule, ctypes.c_uint32(0))
    finally:
        os.close(handle)


def die_with(parent: int) -> None:
    """End this process when its parent ends, on Linux."""
    if sys.platform.startswith("linux"):
        libc.prctl(DIE_WITH_PARENT, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(FAILED)


def main(arguments: list[str]) -> int:
    """Apply the restrictions of the plan, then execute the command."""
    parent = os.getppid()
    with open(arguments[0], "rb") as file:
        plan = marshal.load(file)
    refuses = False
    if plan["writable"] is not None:
        try:
            refuses = restrict_process(plan["writable"], plan["ports"], plan["existing"])
        except OSError as error:
            sys.stderr.write(f"whyidle: the trial could not be isolated: {error.strerror}\n")
            return FAILED
    die_with(parent)
    os.environ.update(plan["environment"])
    words = arguments[1:]
    if not words:
        sys.stdout.write("" if refuses else OPEN)
        return 0
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(
            number, signal.SIG_DFL
        )  # Python ignores them, which the command would inherit
    try:
        os.execvp(words[0], words)
    except OSError as error:
        sys.stderr.write(f"whyidle: {words[0]}: {error.strerror}\n")
        return 127 if isinstance(error, FileNotFoundError) else 126


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
