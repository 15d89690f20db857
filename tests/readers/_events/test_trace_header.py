from __future__ import annotations

from pathlib import Path

import pytest

from whyidle.readers._events.trace_header import device_of, place_of, rank_in_names, to_natural


@pytest.mark.parametrize(
    ("path", "rank", "world"),
    [
        ("run/rank3.json", 3, None),
        ("run/rank_12_trace.json.gz", 12, None),
        ("run/trace-rank-0.json", 0, None),
        ("run/rank_4/trace.json", 4, None),
        ("run/Rank7/step_100/t.json", 7, None),
        ("aot_rank1of2.pt.trace.json.gz", 1, 2),
        ("rank_1/rank_2.json", 2, None),
        ("rank1_rank2.json", None, None),
        ("frank3.json", None, None),
        ("lora_rank8.json", None, None),
        ("host_123.1700000000000.pt.trace.json", None, None),
        ("trace_3.json", None, None),
        ("rank12345678.json", None, None),
    ],
)
def test_rank_from_names(path, rank, world):
    assert rank_in_names(Path(path).parts) == (rank, world)


def test_the_recording_wins_over_its_name():
    place = place_of({"distributedInfo": {"rank": 5, "world_size": 8}}, Path("rank3.json"))
    assert (place.rank, place.world_size) == (5, 8)


@pytest.mark.parametrize(
    "given", [None, 3, {"rank": -1}, {"rank": "x"}, {"rank": [1]}, {"rank": 1e400}]
)
def test_odd_distributed_info(given):
    assert place_of({"distributedInfo": given}, Path("t.json")).rank is None


def test_host_from_the_name_that_the_tensorboard_handler_gives():
    path = Path("logs/node-7_4242.1758927066581847260.pt.trace.json.gz")
    assert place_of({}, path).hostname == "node-7"


def test_rank_from_a_zip_member():
    assert place_of({}, Path("all.zip"), "run/rank_6.json").rank == 6


@pytest.mark.parametrize(
    ("header", "names", "categories", "main", "kind"),
    [
        ({}, ["aten::mm"], ["cpu_op"], None, "cpu"),
        ({}, ["gloo:all_reduce", "aten::mm"], ["cpu_op"], None, "cpu"),
        ({}, ["nccl:all_reduce"], ["user_annotation"], None, "cuda"),
        ({}, ["aten::record_stream"], ["cpu_op"], None, "cuda"),
        ({"distributedInfo": {"backend": "nccl"}}, ["aten::mm"], ["cpu_op"], None, "cuda"),
        ({}, ["cudaLaunchKernel"], ["cuda_runtime"], None, "cuda"),
        ({}, ["gemm"], ["Kernel"], 0, "cuda"),
        ({}, ["hipLaunchKernel"], ["cuda_runtime"], None, "rocm"),
        ({"hip_runtime_version": 6}, [], ["kernel"], 0, "rocm"),
        (
            {"deviceProperties": [{"id": 0, "name": "AMD Instinct MI210"}]},
            [],
            ["kernel"],
            0,
            "rocm",
        ),
        ({"deviceProperties": [{"id": 0, "name": "Tesla V100"}]}, [], ["cpu_op"], None, "cuda"),
        ({}, ["urEnqueue"], ["xpu_runtime"], None, "other"),
        ({}, ["x"], ["kernel", "mtia_ccp_events"], 0, "other"),
        ({}, ["x"], ["privateuse1_runtime"], None, "other"),
    ],
)
def test_device_kind(header, names, categories, main, kind):
    assert device_of(header, names, categories, main).kind == kind


def test_the_device_that_did_the_work_is_described():
    listed = [
        {"id": 0, "name": "A"},
        {"id": 1, "name": "B", "totalGlobalMem": 9, "numSms": 4, "computeMajor": 9},
    ]
    info = device_of({"deviceProperties": listed}, [], ["kernel"], 1)
    assert (info.name, info.count, info.memory_bytes, info.sm_count, info.capability) == (
        "B",
        2,
        9,
        4,
        (9, 0),
    )


@pytest.mark.parametrize(
    "listed", [None, 3, "x", [], [1, None], [{"name": 3, "totalGlobalMem": "x", "id": []}]]
)
def test_odd_device_properties(listed):
    assert device_of({"deviceProperties": listed}, [], [], 0).name is None


@pytest.mark.parametrize(
    ("value", "number"), [(3, 3), ("4", 4), (-1, None), (None, None), (1e400, None), ([], None)]
)
def test_natural(value, number):
    assert to_natural(value) == number
