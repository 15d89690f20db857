"""Creates namespaces and executes the command in them: ``namespace_launcher.py PLAN WORDS...``.

It mounts the overlays and executes the command in the same process, so that its id, group, streams
and signals are unchanged. It uses little of the standard library, because it starts before every
trial.

Exit statuses, as of ``env``: 125, the isolation failed (reason on standard error); 126 and 127, the
command cannot be executed or was not found.
"""

from __future__ import annotations

import ctypes
import fcntl
import marshal
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x00020000, 0x10000000, 0x40000000
MS_NOSUID, MS_NODEV = 0x2, 0x4
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 0x1, 0x20, 0x1000, 0x4000, 0x40000
KEPT_FLAGS = {0x2: 0x2, 0x4: 0x4, 0x8: 0x8, 0x400: 0x400, 0x800: 0x800, 0x1000: 0x200000}
"""flags of ``statvfs`` -> of ``mount``, which a user's remount must repeat"""
O_PLACE = getattr(os, "O_PATH", 0) | getattr(os, "O_DIRECTORY", 0)
DIE_WITH_PARENT = 1
SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 0x1, 0x40
RTM_NEWADDR, IFA_ADDRESS, IFA_LOCAL, IFA_F_NODAD = 20, 1, 2, 0x02
NLM_F_REQUEST, NLM_F_ACK, NLM_F_EXCL, NLM_F_CREATE = 0x1, 0x4, 0x200, 0x400
FAILED = 125

libc = ctypes.CDLL(None, use_errno=True)


def system_call(name: str, *arguments: object) -> None:
    """Call a C function; raises OSError with its name."""
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    """Call ``mount(2)``."""
    system_call(
        "mount",
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        os.fsencode(options) if options else None,
    )


def stable_path(path: str) -> str:
    """A path of a folder that stays valid after a mount over it."""
    handle = os.open(path, O_PLACE) if os.path.isdir(path) else os.open(path, os.O_PATH)
    return f"/proc/self/fd/{handle}"


def unshare_namespaces(user: bool, network: bool) -> None:
    """Create namespaces; with ``user``, inside a user namespace that maps ids to themselves."""
    flags = CLONE_NEWNS | (CLONE_NEWNET if network else 0)
    if not user:
        system_call("unshare", flags)
        return
    mapped = _id_mapper()
    system_call("unshare", flags | CLONE_NEWUSER)
    if not mapped():
        _write_text("/proc/self/setgroups", "deny")
        _write_text("/proc/self/uid_map", f"{UID} {UID} 1")
        _write_text("/proc/self/gid_map", f"{GID} {GID} 1")


def _write_text(path: str, text: str) -> None:
    handle = os.open(path, os.O_WRONLY)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


UID, GID = os.geteuid(), os.getegid()


def _id_mapper() -> Callable[[], bool]:
    """Prepare mapping all ids. Root without capabilities (in a container) may do it, but only from
    outside the new namespace, so a forked child does it."""
    if UID != 0:
        return lambda: False
    ask, answer = os.pipe(), os.pipe()
    whole = [_identity_map(f"/proc/self/{kind}_map") for kind in ("uid", "gid")]
    pid = os.fork()
    if pid == 0:
        os.close(ask[1])  # else the read would not end if the parent fails
        try:
            if os.read(ask[0], 1) != b"g":
                os._exit(0)
            for kind, text in zip(("uid", "gid"), whole, strict=True):
                _write_text(f"/proc/{os.getppid()}/{kind}_map", text)
            os.write(answer[1], b"y")
        finally:
            os._exit(0)

    def map_all() -> bool:
        os.close(answer[1])
        os.write(ask[1], b"g")
        done = os.read(answer[0], 1) == b"y"
        os.waitpid(pid, 0)
        for handle in (*ask, answer[0]):
            os.close(handle)
        return done

    return map_all


def _identity_map(path: str) -> str:
    with open(path, encoding="ascii") as file:
        ranges = [line.split() for line in file]
    return "\n".join(f"{first} {first} {count}" for first, _, count in ranges)


def put_up(plan: dict[str, list[tuple[str, ...]]], user: bool) -> list[tuple[str, str]]:
    """Mount the plan. Returns folders that cannot have an overlay, now read-only, with reasons."""
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    style = "userxattr" if user else "redirect_dir=on"
    kept = [(stable_path(source), target) for source, target in plan["bind"]]
    refused = mount_overlays(plan["overlay"], style)
    for path, kind in plan["memory"]:
        in_memory(path, style if kind == "overlay" else None)
    for source, target in kept:
        mount(source, target, None, MS_BIND | MS_REC)
    for (path,) in plan["read_only"]:
        read_only(path)
    for (path,) in plan["sockets"]:
        with suppress(FileNotFoundError):  # its service ended
            mount(os.devnull, path, None, MS_BIND)
    for (path,) in plan["settings"]:
        mount(path, path, None, MS_BIND | MS_REC)
        read_only(path)
    return refused


def mount_overlays(overlays: list[tuple[str, ...]], style: str) -> list[tuple[str, str]]:
    """Mount the overlays. Returns folders that cannot have one. A folder removed since the planning
    needs none: its parent is read-only."""
    below = {}
    for path, _, _ in overlays:
        with suppress(FileNotFoundError):
            below[path] = stable_path(path)
    shelves = {path: stable_path(path) for _, *own in overlays for path in own}
    refused = []
    for path, upper, work in overlays:
        if path not in below:
            continue
        layers = f"lowerdir={below[path]},upperdir={shelves[upper]},workdir={shelves[work]}"
        try:
            mount("overlay", path, "overlay", 0, f"{layers},{style}")
        except OSError as error:
            if not os.path.isdir(path):
                continue
            refused.append((path, error.strerror or str(error)))
            mount(below[path], path, None, MS_BIND | MS_REC)
            read_only(path)
    return refused


def in_memory(path: str, style: str | None) -> None:
    """Store writes to a folder in a new tmpfs of the same size, which vanishes with the last
    process. Without an overlay ``style``, existing files are read-only."""
    below, room = stable_path(path), os.statvfs(path)
    options = f"mode=1777,size={room.f_blocks * room.f_frsize}"
    mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, options)
    if style is None:
        for each in os.scandir(below):
            bind_mount(each, os.path.join(path, each.name))
        return
    kept = stable_path(path)
    for name in ("upper", "work"):
        os.mkdir(f"{kept}/{name}")
    os.chmod(f"{kept}/upper", 0o1777)
    layers = f"lowerdir={below},upperdir={kept}/upper,workdir={kept}/work"
    mount("overlay", path, "overlay", 0, f"{layers},{style}")


def bind_mount(entry: os.DirEntry[str], path: str) -> None:
    """Bind a file or folder read-only."""
    if entry.is_dir(follow_symlinks=False):
        os.mkdir(path)
    elif entry.is_file(follow_symlinks=False):
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
    else:
        return
    mount(entry.path, path, None, MS_BIND | MS_REC)
    read_only(path)


def read_only(path: str) -> None:
    """Remount read-only."""
    have = os.statvfs(path).f_flag
    flags = sum(flag for bit, flag in KEPT_FLAGS.items() if have & bit)
    mount("none", path, None, MS_REMOUNT | MS_BIND | MS_RDONLY | flags)


def bring_up(addresses: list[str]) -> None:
    """Bring up the loopback device with the machine's own addresses."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = b"lo".ljust(16, b"\0")
        flags = struct.pack("<16sh14x", request, IFF_UP | IFF_RUNNING)
        fcntl.ioctl(control, SIOCSIFFLAGS, flags)
    index = socket.if_nametoindex("lo")
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as route:
        for address in addresses:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            packed = socket.inet_pton(family, address)
            body = struct.pack("=BBBBI", family, len(packed) * 8, IFA_F_NODAD, 0, index)
            for kind in (IFA_LOCAL, IFA_ADDRESS):
                body += struct.pack("=HH", 4 + len(packed), kind) + packed
            flags16 = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL
            head = struct.pack("=IHHII", 16 + len(body), RTM_NEWADDR, flags16, 1, 0)
            route.send(head + body)
            route.recv(4096)  # errors are ignored: the address is then unreachable


def die_with(parent: int) -> None:
    """End this process when its parent ends. Must follow changes of ids, which reset it."""
    system_call("prctl", DIE_WITH_PARENT, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(FAILED)


def main(arguments: list[str]) -> int:
    """Set up the isolation, then execute the command."""
    parent = os.getppid()
    with open(arguments[0], "rb") as file:
        plan = marshal.load(file)
    folder = os.getcwd()
    try:
        unshare_namespaces(plan["user"], plan["network"] is not None)
        refused = put_up(plan, plan["user"])
        if plan["network"] is not None:
            bring_up(plan["network"])
        die_with(parent)
    except OSError as error:
        sys.stderr.write(f"whyidle: the trial could not be isolated: {error.strerror}\n")
        return FAILED
    os.chdir(folder)  # so far it is the folder below the new mounts
    os.environ.update(plan["environment"])
    words = arguments[1:]
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(
            number, signal.SIG_DFL
        )  # Python ignores them, which the command would inherit
    if not words:
        sys.stdout.write("".join(f"{path}\0{why}\0" for path, why in refused))
        return 0
    try:
        os.execvp(words[0], words)
    except OSError as error:
        sys.stderr.write(f"whyidle: {words[0]}: {error.strerror}\n")
        return 127 if isinstance(error, FileNotFoundError) else 126


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
