"""Names of kernels as recordings hold them."""

import pytest

from whyidle.analysis.device.kernel_classes import classify_kernel

NAMES = [
    ("volta_sgemm_128x64_nt", "matrix_product", "fp32", False),
    ("ampere_sgemm_32x128_nn", "matrix_product", "fp32", False),
    ("volta_gcgemm_32x32_nt", "matrix_product", "fp32", False),
    ("ampere_fp16_sgemm_fp16_128x64_tn", "matrix_product", "fp16", False),
    ("ampere_fp16_s1688gemm_fp16_128x128_ldg8_f2f_stages_32x1_tn", "matrix_product", "fp16", True),
    ("volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn", "matrix_product", "fp16", True),
    ("volta_h884gemm_128x64_ldg8_nn", "matrix_product", "fp16", True),
    ("ampere_bf16_s16816gemm_bf16_64x64_ldg8_f2f_nn", "matrix_product", "bf16", True),
    ("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x64_32x6_nt_align1>(cutlass_80_"
     "tensorop_s1688gemm_128x64_32x6_nt_align1::Params)", "matrix_product", "tf32", True),
    ("void cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>(int)", "matrix_product",
     "fp32", False),
    ("void cutlass::Kernel2<cutlass_75_tensorop_bf16_s1688gemm_bf16_128x128_nn_align1>(int)",
     "matrix_product", "bf16", True),
    ("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize32x32x8_stage3_warpsize1x2x1_ffma_aligna4_"
     "alignc4_execute_kernel__5x_cublas", "matrix_product", "fp32", False),
    ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_"
     "segment_k_off_kernel__5x_cublas", "matrix_product", "bf16", True),
    ("void at::native::multi_tensor_apply_kernel<FusedOptimizerTensorListMetadata<4>, "
     "FusedAdamMathFunctor<float, 4, (ADAM_MODE)1>, float const*, double, double, bool>(int)",
     "optimizer", "fp32", None),
    ("void at::native::vectorized_elementwise_kernel<4, BUnaryFunctor<double, double, double, "
     "MulFunctor<double>>, Array<char*, 2>>(int)", "elementwise", "fp64", None),
    ("void at::native::reduce_kernel<512, 1, ReduceOp<float, MeanOps<float, double, float>>>(int)",
     "reduction", "fp32", None),
    ("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NNT", "matrix_product", "bf16", True),
    ("nvjet_sm100_hsh_256x128_64x4_2x1_v_bz_TNN", "matrix_product", "fp16", True),
    ("void gemv2T_kernel_val<int, int, float, float, float, float, 128, 16, 4, 4, false>(int)",
     "matrix_product", "fp32", False),
    ("void splitKreduce_kernel<float, float, float, float, true, true, false>(int)",
     "matrix_product", "fp32", None),
    ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1_SN_LDSB1",
     "matrix_product", "bf16", True),
    ("Cijk_Ailk_Bjlk_S_B_Bias_HA_S_SAV_UserArgs_MT64x64x64_MI16x16x1_SN.kd", "matrix_product",
     "fp32", True),
    ("Cijk_Alik_Bljk_HHS_BH_MT128x128x32_MI32x32x8x1_SN", "matrix_product", "fp16", True),
    ("void cutlass_cudnn_infer::Kernel<cutlass_tensorop_s1688dgrad_optimized_tf32_64x128_32x3_"
     "nhwc_align4>(int)", "convolution", "tf32", True),
    ("volta_scudnn_128x64_relu_interior_nn_v1", "convolution", "fp32", False),
    ("void implicit_convolve_sgemm<float, float, 1024, 6, 7, 3, 3, 5, 1, false, true, true>(int)",
     "convolution", "fp32", False),
    ("void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(int)", "convolution",
     "fp32", None),
    ("void fft2d_r2c_16x16<float>(float2*, float const*, int)", "convolution", "fp32", None),
    ("igemm_fwd_gtcx3_nhwc_bf16_bx0_ex1_bt128x256x32_wt32x32x8_ws1x2", "convolution", "bf16", True),
    ("_ZN2ck16tensor_operation6device12_GLOBAL__N_149kernel_grouped_conv_fwd_multiple_abd_xdl_"
     "cshuffleINS_34GridwiseGemmMultipleD_xdl_cshuffleItttftNS_5TupleIJEEE", "convolution", "bf16",
     True),
    ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, "
     "cutlass::bfloat16_t>>(Flash_fwd_params)", "attention", "bf16", True),
    ("aiter::fmha_fwd_hd128_bf16_rtz", "attention", "bf16", True),
    ("_ZN7ck_tile6kentryILi2ENS_38FmhaBatchPrefillWithPagedKVCacheKernelIDF16bDF16bNS_44KVCache"
     "LookupTableEnum", "attention", "bf16", True),
    ("triton_poi_fused__to_copy_add_cat_fmha_v3_fwd_mul_neg_stack_13", "elementwise", None, None),
    ("triton_red_fused_add_addmm_mul_native_layer_norm_split_18", "normalisation", None, None),
    ("triton_per_fused__to_copy_addmm_mean_pow_view_8", "reduction", None, None),
    ("triton_tem_fused_mm_3", "matrix_product", None, True),
    ("triton_poi_fused_all_reduce_add_2", "elementwise", None, None),
    ("void fbgemm_gpu::permute_2D_data_kernel<false, int, int>(int)", "indexing", None, None),
    ("void split_embedding_backward_codegen_rowwise_adagrad_unweighted_kernel_cta_per_row_1<float>"
     "(float)", "indexing", "fp32", None),
    ("void rotary_embedding_kernel<c10::BFloat16, true>(long const*)", "elementwise", "bf16", None),
    ("batched_transpose_32x32_half", "layout", None, None),
    ("void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, 2>(float)", "layout",
     "fp32", None),
    ("void cudnn::bn_bw_1C11_kernel_new<float, float, float2, 512, true, 1>(float)",
     "normalisation", "fp32", None),
    ("_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi64ELi8ELb0E", "normalisation", "bf16", None),
    ("void cunn_SoftMaxForward<8, c10::BFloat16, float, c10::BFloat16>(c10::BFloat16*)",
     "reduction", "bf16", None),
    ("void at::native::elementwise_kernel<128, 4, direct_copy_kernel_cuda(at::TensorIteratorBase&)"
     "::{lambda()}>(int)", "copy", None, None),
    ("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)",
     "elementwise", "fp32", None),
    ("void max_pool_backward_nchw<float, float>(float const*)", "reduction", "fp32", None),
    ("multi_tensor_apply_kernel<TensorListMetadata<4>, FusedAdamMathFunctor<float, 4>>",
     "optimizer", "fp32", None),
    ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)", "communication", "fp32", None),
    ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)", "communication",
     "bf16", None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "group", "precision", "tensor"), NAMES, ids=lambda x: str(x)[:40])
def test_a_name_tells(name, group, precision, tensor):
    found = classify_kernel(name)
    assert (found.group, found.precision, found.tensor) == (group, precision, tensor)
