"""The proof of whyidle on a GPU: ``python -m bench.gpu``. See docs/gpu.md."""
