"""Every rule of the table of kernel names, by the names that it gives itself."""

import re

import pytest

from whyidle.analysis.device.kernel_classes import GROUPS, classify_kernel, read_kernel_rules
from whyidle.reports._palette import KERNELS

RULES = read_kernel_rules()


@pytest.mark.parametrize("rule", RULES, ids=[f"{i}-{rule.group}" for i, rule in enumerate(RULES)])
def test_a_rule_matches_its_example_and_not_the_other(rule):
    assert re.search(rule.pattern, rule.matches, re.IGNORECASE)
    assert not re.search(rule.pattern, rule.avoids, re.IGNORECASE)
    assert classify_kernel(rule.matches).group == rule.group
    assert classify_kernel(rule.avoids).group != rule.group


def test_reports_have_a_title_and_colour_for_every_group():
    assert set(GROUPS) <= set(KERNELS)


SERVING = [
    ("void dpsk::ep::internode::combine_ll<__nv_bfloat16, 3>(void*)", "communication"),
    ("void deep_ep::intranode::notify_dispatch<8>(int const*)", "communication"),
    ("void mori::moe::EpCombineInterNodeV1Kernel<hip_bfloat16>(int)", "communication"),
    ("void pplx::combineKernel<16u, true>(float*)", "communication"),
    ("void marlin_moe_wna16::Marlin<__half, 1125899906843648l, 256>(int)", "matrix_product"),
    ("void vllm::moe::moe_wna16_gemm_kernel<__half, 4>(int)", "matrix_product"),
    ("bmm_E4m3_E2m1E4m3_Fp32_t128x8x512u2_et128x8_m128x8x64", "matrix_product"),
    ("void deep_gemm::sm100_fp8_gemm_1d1d_impl<(cute::UMMA::Major)0>", "matrix_product"),
    ("_w8a8_block_fp8_matmul", "matrix_product"),
    ("_matmul_ogs_NNT_bf16xbf16xmxfp4_128x256x64x1", "matrix_product"),
    ("_fwd_grouped_kernel_stage1", "attention"),
    ("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x64", "attention"),
    ("void qk_int_sv_f16_attn_kernel<128u, 64u, 32u, 64u, 128u>(signed char*)", "attention"),
    ("_ZN5aiter24mla_a8w8_qh16_qseqlen1_gqaratio16E", "attention"),
    ("kernel_unified_attention_2d", "attention"),
    ("void flashinfer::sampling::OnlineSoftmaxMapKernel<1024u>(float*)", "sampling"),
    ("void vllm::apply_repetition_penalties_kernel<float>(float*)", "sampling"),
    ("_per_token_group_quant_8bit", "copy"),
    ("void concat_and_cache_mla_kernel<__nv_bfloat16>(int)", "copy"),
    ("_fwd_kernel_ep_gather", "expert_routing"),
    ("void vllm::moe::grouped_topk_fused_kernel<float>(float*)", "expert_routing"),
    ("_rotary_embedding_kernel", "elementwise"),
]


@pytest.mark.parametrize(("name", "group"), SERVING, ids=[name[:40] for name, _ in SERVING])
def test_kernels_of_serving_engines(name, group):
    assert classify_kernel(name).group == group
