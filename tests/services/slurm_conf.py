"""A one-node Slurm with four fake GPUs in a folder, as root; with accounting if asked for."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path

import accounting_conf

CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={port}
SlurmdPort={slurmd_port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
ReturnToService=2
SlurmdParameters=config_overrides
MailProg=/bin/true
NodeName={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=16000 Gres=gpu:a100:4 State=UNKNOWN
PartitionName=gpu Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""
DEVICES = [Path(f"/dev/whyidle-gpu{n}") for n in range(4)]


def start_slurm(
    folder: Path,
    port: int,
    slurmd_port: int,
    accounting_port: int | None = None,
    more: str = "",
) -> dict[str, str]:
    """Start it; returns the environment of its clients. Device files are copies of /dev/null.
    ``more`` are further lines of slurm.conf."""
    host = socket.gethostname().partition(".")[0]
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    for device in DEVICES:
        if not device.exists():
            os.mknod(device, 0o20666, os.makedev(1, 3))
    conf = folder / "slurm.conf"
    text = CONF.format(host=host, folder=folder, port=port, slurmd_port=slurmd_port) + more
    if accounting_port is not None:
        text += accounting_conf.SLURM.format(folder=folder, port=accounting_port)
    conf.write_text(text)
    line = f"NodeName={host} Name=gpu Type=a100 File=/dev/whyidle-gpu[0-3]\n"
    (folder / "gres.conf").write_text(line)
    environ = {**os.environ, "SLURM_CONF": str(conf)}
    munge = [f"--key-file={key}", f"--socket={folder}/munge.socket", f"--seed-file={folder}/seed"]
    munge += [f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log"]
    for command in (["munged", "--force", *munge], ["slurmctld", "-i"], ["slurmd", "-N", host]):
        subprocess.run(command, env=environ, check=True, capture_output=True, timeout=20)
        if command[0] == "munged" and accounting_port is not None:
            accounting_conf.start_accounting(folder, accounting_port, environ)
    return environ


def stop_slurm(folder: Path) -> None:
    """End its daemons by the ids that they wrote; slurmd may ignore SIGTERM while a step runs."""
    names = ("slurmd", "slurmctld", "munged")
    files = [path for name in names if (path := folder / f"{name}.pid").exists()]
    pids = [int(text) for path in files if (text := path.read_text().strip())]
    for signal in (15, 9):
        for pid in [pid for pid in pids if Path(f"/proc/{pid}").exists()]:
            os.kill(pid, signal)
        until = time.monotonic() + 5
        while time.monotonic() < until and any(Path(f"/proc/{pid}").exists() for pid in pids):
            time.sleep(0.1)
    accounting_conf.stop_accounting(folder)
    for device in DEVICES:
        device.unlink(missing_ok=True)
