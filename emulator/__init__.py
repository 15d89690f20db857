"""Stands for hardware that a machine lacks, to test whyidle; not part of the package.

``device`` is an accelerator for PyTorch (docs/emulated.md), ``source`` reads its counters as a
driver would show them, ``fake_nvml`` answers in place of NVIDIA's library.
"""
