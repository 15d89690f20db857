"""Peaks by device name."""

import pytest

from whyidle.analysis.device.device_peaks import peak_of
from whyidle.model.timeline import DeviceInfo

KNOWN = [
    ("Tesla V100-SXM2-32GB", "fp16", 125e12, 900e9),
    ("NVIDIA A100-PCIE-40GB", "bf16", 312e12, 1555e9),
    ("NVIDIA A100 80GB PCIe", "bf16", 312e12, 1935e9),
    ("NVIDIA A100-SXM4-80GB", "tf32", 156e12, 2039e9),
    ("NVIDIA H100 80GB HBM3", "bf16", 989.4e12, 3350e9),
    ("NVIDIA H100 PCIe", "bf16", 756e12, 2000e9),
    ("NVIDIA H100 NVL", "bf16", 835.5e12, 3900e9),
    ("NVIDIA H200", "fp8", 1978.9e12, 4800e9),
    ("NVIDIA GH200 480GB", "bf16", 989.4e12, 4000e9),
    ("NVIDIA H200 NVL", "bf16", 835.5e12, 4800e9),
    ("NVIDIA B200", "bf16", 2250e12, 8000e9),
    ("NVIDIA GeForce RTX 3080", "fp16", 59.5e12, 760e9),
    ("NVIDIA L4", "bf16", 121e12, 300e9),
    ("NVIDIA L40S", "bf16", 362e12, 864e9),
    ("NVIDIA A10G", "bf16", 70e12, 600e9),
    ("NVIDIA A10", "bf16", 125e12, 600e9),
    ("AMD Instinct MI250X", "bf16", 191.5e12, 1638e9),
    ("AMD Instinct MI300X", "bf16", 1307.4e12, 5300e9),
    ("AMD Instinct MI355X", "fp8", 5033.2e12, 8000e9),
]


@pytest.mark.parametrize(("name", "precision", "flops", "bandwidth"), KNOWN)
def test_known_devices(name, precision, flops, bandwidth):
    peak = peak_of(DeviceInfo(kind="cuda", name=name))
    assert peak is not None
    assert peak.peak_flops(precision, tensor=True) == pytest.approx(flops)
    assert peak.bandwidth == pytest.approx(bandwidth)


SLICE = "NVIDIA H100 80GB HBM3 MIG 1g.10gb"


@pytest.mark.parametrize("name", [None, "AMD Radeon Graphics", "Some Accelerator 9000", "", SLICE])
def test_unknown_devices_have_no_peak(name):
    assert peak_of(DeviceInfo(kind="cuda", name=name)) is None


def test_missing_units_are_none():
    volta = peak_of(DeviceInfo(kind="cuda", name="Tesla V100-SXM2-16GB"))
    assert volta is not None
    assert volta.peak_flops("bf16", tensor=True) is None
    assert volta.peak_flops("tf32", tensor=True) is None
    assert volta.peak_flops(None, tensor=True) is None
    assert volta.peak_flops("fp32", tensor=False) == pytest.approx(15.7e12)


def test_matrix_cores_of_amd_have_their_own_fp32():
    peak = peak_of(DeviceInfo(kind="rocm", name="AMD Instinct MI210"))
    assert peak is not None
    assert peak.peak_flops("fp32", tensor=True) == pytest.approx(45.3e12)
    assert peak.peak_flops("fp32", tensor=False) == pytest.approx(22.6e12)
