"""FLOPs and bytes from shapes; the numbers are those of torch.utils.flop_counter."""

import numpy as np
import pytest

from whyidle.analysis.device.flops import op_work
from whyidle.analysis.facts import Facts
from whyidle.frameworks.torch.names import describe_operator
from whyidle.testing.builder import Builder, us

HALF = "c10::Half"


def work(name, dims, types):
    return op_work(describe_operator(name), dims, types)


@pytest.mark.parametrize(
    ("name", "dims", "flops"),
    [
        ("aten::mm", [[8, 16], [16, 4]], 2 * 8 * 16 * 4),
        ("aten::addmm", [[4], [8, 16], [16, 4], [], []], 2 * 8 * 16 * 4),
        ("aten::bmm", [[3, 8, 16], [3, 16, 4]], 3 * 2 * 8 * 16 * 4),
        ("aten::baddbmm", [[3, 8, 4], [3, 8, 16], [3, 16, 4], [], []], 3 * 2 * 8 * 16 * 4),
        ("aten::linear", [[2, 8, 16], [4, 16], [4]], 2 * 16 * 16 * 4),
        ("aten::_flash_attention_forward", [[2, 128, 4, 64]] * 3, 4 * 2 * 4 * 128 * 128 * 64),
        (
            "aten::_scaled_dot_product_flash_attention",
            [[2, 4, 128, 64]] * 3,
            4 * 2 * 4 * 128 * 128 * 64,
        ),
        (
            "aten::_flash_attention_backward",
            [[2, 128, 4, 64]] * 4,
            10 * 2 * 4 * 128 * 128 * 64,
        ),
        (
            "aten::convolution_backward",
            [[2, 8, 5, 5], [2, 16, 10, 10], [8, 16, 3, 3], [8]],
            2 * 2 * (2 * 8 * 25) * (16 * 9),
        ),
    ],
)
def test_matrix_work(name, dims, flops):
    assert work(name, dims, ["float"] * len(dims)).flops == flops


@pytest.mark.parametrize(
    ("name", "dims"),
    [
        ("aten::mm", [[8, 16], [15, 4]]),
        ("aten::mm", []),
        ("aten::mm", [[], []]),
        ("aten::mm", [[8, 16]]),
        ("aten::_flash_attention_forward", [[300, 4, 64]] * 3),  # packed: lengths are not told
        ("aten::gelu", [[8, 8]]),
    ],
)
def test_what_shapes_do_not_tell_is_none(name, dims):
    assert work(name, dims, ["float"] * len(dims)).flops is None


def test_bytes_are_inputs_and_output_once():
    assert (
        op_work(
            describe_operator("aten::add"), [[8, 16], [8, 16], []], [HALF, HALF, "Scalar"]
        ).bytes
        == 3 * 256
    )
    assert work("aten::copy_", [[8, 16], [8, 16], []], ["float", HALF, ""]).bytes == 128 * 6
    assert work("aten::fill_", [[8, 16], []], ["float", "Scalar"]).bytes == 128 * 4
    assert work("aten::sum", [[8, 16], []], ["float", ""]).bytes == 128 * 4
    assert work("aten::mm", [[8, 16], [16, 4]], ["float"] * 2).bytes == 4 * (128 + 64 + 32)
    assert work("aten::add", [[8, 16]], ["StrangeType"]).bytes is None
    assert work("mylib::add", [[8, 16]], ["float"]).bytes is None


def convolutions(*strides):
    job = Builder()
    for stride in strides:
        size = 16 // stride
        given, weight, grad = [2, 8, 16, 16], [4, 8, 3, 3], [2, 4, size, size]
        job.op(
            "aten::cudnn_convolution",
            kernels=[("volta_scudnn_1", us(50))],
            dims=[given, weight, []],
        )
        job.op(
            "aten::convolution_backward",
            kernels=[("cudnn_dgrad", us(50)), ("cudnn_wgrad", us(150))],
            dims=[grad, given, weight],
        )
    return Facts(job.timeline())


def test_a_convolution_learns_its_output_from_its_backward():
    facts = convolutions(2)
    forward = 2 * (2 * 4 * 8 * 8) * (8 * 9)
    assert facts.work.flops[0] == forward
    assert np.allclose(facts.work.flops[1:], [forward * 2 * 0.25, forward * 2 * 0.75])


def test_two_strides_of_the_same_shapes_are_not_guessed():
    assert np.isnan(convolutions(1, 2).work.flops[0])


def test_events_without_shapes_stay_unknown():
    job = Builder()
    job.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", us(10))])
    facts = Facts(job.timeline())
    assert np.isnan(facts.work.flops).all()
    assert np.isnan(facts.work.bytes).all()
