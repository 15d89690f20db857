"""`whyidle scale`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from own_sgd import OWN_SGD

from whyidle.__main__ import main
from whyidle.model.documents.rank_scaling import Needed, RankScaling, ScalePoint
from whyidle.planning import rank_scaling
from whyidle.reports._rank_scaling import describe_needs

JOB = f"""
{OWN_SGD}
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(3)])
optimizer = SGD(model.parameters(), lr=0.1)
for step in range(90):
    optimizer.zero_grad()
    model(torch.ones(8, 64)).square().mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--to", "0", "x.py"], "whole number"),
        (["--to", "2,a", "x.py"], "whole number"),
        (["--to", "200000", "x.py"], "at most"),
        (["--to", "2"], "either a command or --run"),
        (["--to", "2", "--run", "last", "x.py"], "either a command or --run"),
        (["--to", "2", "--within", "fast", "x.py"], "must be like"),
        (["--to", "2", "--within", "0GB/s", "x.py"], "must be like"),
        (["x.py"], "--to"),
    ],
)
def test_wrong_usage_is_refused(words, why, capsys):
    assert main(["scale", *words]) == 2
    assert why in capsys.readouterr().err


def test_a_job_that_does_not_train_is_refused(capsys):
    assert main(["scale", "--to", "2", "--", sys.executable, "-c", "print(1)"]) == 1
    assert "does not train with PyTorch" in capsys.readouterr().err


def test_a_script_that_is_missing_is_named(capsys):
    assert main(["scale", "--to", "2", "--", sys.executable, "nothing.py"]) == 1
    assert "The script nothing.py does not exist" in capsys.readouterr().err


def test_a_job_of_one_rank_is_predicted_for_usual_links_and_a_known_one(capsys, monkeypatch):
    pytest.importorskip("torch")
    Path("train.py").write_text(JOB)
    words = ["scale", "--to", "4,16,1000", "--json", "-", "--", sys.executable, "train.py"]
    assert main(words) == 0
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err
    points = json.loads(shown.out)["points"]
    assert {point["scenario"] for point in points} == {
        "NVLink", "PCIe 4", "200 Gbit/s", "25 Gbit/s"
    }  # fmt: skip
    four, sixteen, thousand = (points[at] for at in (0, 4, 8))
    assert four["interval"]["high"] > four["step_s"]
    assert thousand["bound"]
    assert thousand["interval"] is None

    def width(point):
        return point["interval"]["high"] - point["step_s"]

    monkeypatch.setattr(rank_scaling, "NEAR", 16)  # the same recording, told as if 16 were near
    assert main(["scale", "--to", "4,16", "--json", "-", "--run", "last"]) == 0
    near = json.loads(capsys.readouterr().out)["points"]
    assert width(near[0]) == pytest.approx(width(four))
    assert width(near[4]) < width(sixteen)  # beyond eight times, the interval widens
    words = ["--to", "1,2,4", "--per-node", "2", "--within", "1GB/s,20us"]
    assert main(["scale", *words, "--json", "-", "--run", "last"]) == 0
    told = json.loads(capsys.readouterr().out)
    one, two, *four = told["points"]
    assert one["efficiency"] == 1.0
    assert one["step_s"] == pytest.approx(one["measured_s"], rel=0.2)
    assert two["interval"]["low"] <= two["step_s"] <= two["interval"]["high"]
    assert two["efficiency"] < 1.0
    assert [point["scenario"] for point in four] == ["200 Gbit/s", "25 Gbit/s"]
    assert four[0]["step_s"] < four[1]["step_s"]
    assert sum(told["buckets"]) == 3 * (64 * 64 + 64) * 4
    assert main(["scale", *words, "--html", "scale.html", "--run", "last"]) == 0
    shown = capsys.readouterr().out
    assert "limited by" in shown
    assert "--per-node 2 --within 1GB/s,20us --run" in " ".join(shown.split())
    assert "200 Gbit/s" in Path("scale.html").read_text()


RANKS = """
import torch
torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(600, 600), bucket_cap_mb=1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(30):
    optimizer.zero_grad()
    model(torch.ones(8, 600)).square().mean().backward()
    optimizer.step()
"""


@pytest.mark.services
@pytest.mark.real_processes("two ranks meet in every step")
def test_the_link_between_two_ranks_is_measured(capsys):
    torch = pytest.importorskip("torch")
    if not torch.distributed.is_available():
        pytest.skip("a PyTorch without collectives")
    Path("job.py").write_text(RANKS)
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    assert main(["scale", "--to", "2,4", "--json", "-", "--", *start, "job.py"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["measured_ranks"] == 2
    assert told["within"]["source"] == "measured"
    assert told["within"]["bytes_per_s"] > 1e6
    assert told["points"][0]["measured_s"] is not None
    assert told["points"][1]["step_s"] > 0


def test_what_helps_against_few_cores_is_told():
    needed = Needed(target=0.9, bytes_per_s=None, batch_times=None, cores=48)
    point = ScalePoint(
        ranks=8, nodes=1, step_s=0.2, interval=None, efficiency=0.5, exchange=0.0, late=0.0,
        bottleneck="host cores", needed=needed,
    )  # fmt: skip
    scaling = RankScaling(
        run="r", command=[], measured_ranks=1, per_node=8, steps=64, own_s=0.1, own_spread_s=0.0,
        correlation=None, residual_s=None, buckets=[], within=None, between=None, core_s=1.0,
        cores=4, points=[point], notes=[],
    )  # fmt: skip
    assert "48 cores on each host" in describe_needs(scaling)[0]
