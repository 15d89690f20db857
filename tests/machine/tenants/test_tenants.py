"""Whose process it is, by control groups as real schedulers and runtimes write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from whyidle.machine.tenants import slurm
from whyidle.machine.watch.job_groups import load_tenants
from whyidle.model.live.tenancy import ProcessIdentity

POD = "8f6c1d2e-0b7a-4b64-9f1d-3a5e7c9b1d2f"
CONTAINER = "4c01db0b339c3a6d8e1f0a9b7c6d5e4f3a2b1c0d9e8f7a6b5c4d3e2f1a0b9c8d"
SHOWN = """JobId=1 JobName=held
   UserId=alice(1001) GroupId=root(0) MCS_label=N/A
   JobState=RUNNING Reason=None Dependency=(null)
   Partition=gpu AllocNode:Sid=localhost:6109
   NodeList=vm
   JOB_GRES=gpu:a100:2
     Nodes=vm CPU_IDs=0-1 Mem=1000 GRES=gpu:a100:2(IDX:0-1)

JobId=2 JobName=done
   UserId=bob(1002) GroupId=root(0) MCS_label=N/A
   JobState=COMPLETED Reason=None Dependency=(null)
   Partition=gpu
     Nodes=vm CPU_IDs=2 Mem=500 GRES=
"""
"""what scontrol of Slurm 22.05.8 printed, shortened"""


def identify(cgroup: str, root: Path = Path("/"), **environ: str):
    process = ProcessIdentity(
        pid=7, user="eve", cgroup=f"0::{cgroup}\n", environ=environ or None, root=root
    )
    return next(t for reader in load_tenants() if (t := reader.identify(process)))


@pytest.mark.parametrize(
    ("cgroup", "step"),
    [
        ("/slurm/uid_1001/job_4711/step_0/task_0", "0"),
        ("/slurm_vm/uid_0/job_4711/step_batch", "batch"),
        ("/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0", "0"),
        ("/system.slice/node7_slurmstepd.scope/job_4711/step_extern", "extern"),
        ("/slurm/uid_1001/job_4711", None),
    ],
)
def test_every_shape_of_slurm_s_control_groups(cgroup: str, step: str | None):
    tenant = identify(cgroup)
    assert (tenant.kind, tenant.job) == ("slurm", "4711")
    assert tenant.labels.get("step") == step


def test_slurm_with_an_identifier_in_place_of_the_number():
    cgroup = "/system.slice/slurmstepd.scope/s6DH1WQ2NJP400/step_0"
    assert identify(cgroup).job == "s6DH1WQ2NJP400"
    assert identify(cgroup, SLURM_JOB_ID="4711").job == "4711"


def test_slurm_without_control_groups():
    tenant = identify("/", SLURM_JOB_ID="12", SLURM_PROCID="3", SLURM_JOB_PARTITION="gpu")
    assert (tenant.kind, tenant.job) == ("slurm", "12")
    assert tenant.labels == {"slurm_job": "12", "rank": "3", "partition": "gpu"}


def test_reservations_of_running_jobs_on_this_node():
    (one,) = slurm.parse_jobs(SHOWN, "vm")
    assert (one.job, one.user, one.ordinals) == ("1", "alice", (0, 1))
    assert one.labels["name"] == "held"
    assert slurm.parse_jobs(SHOWN, "other") == []
    single = " ".join(line.strip() for line in SHOWN.partition("\n\n")[0].splitlines())
    assert slurm.parse_jobs(single, "vm")[0].ordinals == (0, 1)  # scontrol -o


@pytest.mark.parametrize(
    "cgroup",
    [
        f"/kubepods/burstable/pod{POD}/{CONTAINER}",
        f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{POD.replace('-', '_')}"
        f".slice/cri-containerd-{CONTAINER}.scope",
    ],
)
def test_pods_by_both_drivers(cgroup: str, tmp_path: Path):
    assert identify(cgroup, tmp_path).job == POD
    (tmp_path / f"var/log/pods/team-a_train-0_{POD}").mkdir(parents=True)
    tenant = identify(cgroup, tmp_path)
    assert (tenant.kind, tenant.job) == ("kubernetes", "train-0")
    assert tenant.labels["namespace"] == "team-a"
    assert tenant.labels["container"] == CONTAINER[:12]


def test_a_pod_from_inside(tmp_path: Path):
    tenant = identify("/", tmp_path, KUBERNETES_SERVICE_HOST="10.0.0.1", HOSTNAME="train-0")
    assert (tenant.kind, tenant.job) == ("kubernetes", "train-0")


@pytest.mark.parametrize(
    ("cgroup", "name"),
    [
        (f"/docker/{CONTAINER}", CONTAINER[:12]),
        (f"/system.slice/docker-{CONTAINER}.scope", CONTAINER[:12]),
        (f"/machine.slice/libpod-{CONTAINER}.scope", CONTAINER[:12]),
        ("/lxc.payload.web-1/init.scope", "web-1"),
    ],
)
def test_containers(cgroup: str, name: str):
    tenant = identify(cgroup)
    assert (tenant.kind, tenant.job) == ("container", name)


def test_apptainer_by_its_environment():
    assert identify("/user.slice", APPTAINER_NAME="torch.sif").job == "torch.sif"


def test_everything_else_is_plain():
    assert identify("/user.slice/user-1000.slice/session-3.scope").kind == "plain"
    tenant = identify("/system.slice/jupyter.service")
    assert (tenant.kind, tenant.labels) == ("plain", {"unit": "jupyter.service"})
