"""slurmdbd on MariaDB for the one-node Slurm of ``slurm_conf``, in a folder."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from pathlib import Path

SLURM = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={folder}/munge.socket
AccountingStorageTRES=gres/gpu
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
SchedulerParameters=sched_interval=1,batch_sched_delay=0
"""
DAEMON = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser=root
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm_acct_db
"""


def start_accounting(folder: Path, port: int, environ: dict[str, str]) -> None:
    """Start MariaDB and slurmdbd; munge runs already."""
    conf = folder / "slurmdbd.conf"
    conf.write_text(DAEMON.format(folder=folder, port=port))
    conf.chmod(0o600)
    socket, data = folder / "db.sock", folder / "db"
    environ = {**environ, "MYSQL_UNIX_PORT": str(socket)}
    subprocess.run(
        [
            *("mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}"),
            *("--auth-root-authentication-method=normal", "--skip-test-db"),
        ],
        env=environ,
        check=True,
        capture_output=True,
        timeout=60,
    )
    daemon = [
        *("mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", f"--socket={socket}"),
        *("--skip-networking", f"--pid-file={folder}/mariadb.pid"),
        "--innodb-buffer-pool-size=64M",
    ]
    # the shell ends at once, so that nobody's child is left
    command = f"{shlex.join(daemon)} >{shlex.quote(str(folder / 'db.log'))} 2>&1 &"
    subprocess.run(["sh", "-c", command], check=True, timeout=10)
    create = ["mariadb", "--no-defaults", "-S", str(socket), "-u", "root"]
    _retry([*create, "-e", "create database slurm_acct_db"], environ)
    subprocess.run(["slurmdbd"], env=environ, check=True, capture_output=True, timeout=60)
    _retry(["sacctmgr", "-n", "-i", "add", "cluster", "test"], environ)


def _retry(command: list[str], environ: dict[str, str]) -> None:
    until = time.monotonic() + 40
    while True:
        try:
            done = subprocess.run(command, env=environ, capture_output=True, timeout=5, check=False)
            if done.returncode == 0:
                return
            why = done.stderr
        except subprocess.TimeoutExpired:
            why = b"no answer"
        assert time.monotonic() < until, f"{command[0]}: {why!r}"
        time.sleep(0.2)


def stop_accounting(folder: Path) -> None:
    """End both daemons by the ids that they wrote."""
    for name in ("slurmdbd", "mariadb"):
        path = folder / f"{name}.pid"
        text = path.read_text().strip() if path.exists() else ""
        if not text:
            continue
        for signal, patience in ((15, 10.0), (9, 5.0)):
            if not Path(f"/proc/{text}").exists():
                break
            os.kill(int(text), signal)
            until = time.monotonic() + patience
            while time.monotonic() < until and Path(f"/proc/{text}").exists():
                time.sleep(0.1)
