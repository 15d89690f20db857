"""Which line says why a job ended."""

from pathlib import Path

import pytest

from whyidle.fix.arms import error_line

TORCHRUN = """[rank0]: Traceback (most recent call last):
[rank0]:   File "train.py", line 9, in <module>
[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
E1123 22:00:00.000000 7 torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: 1)
Traceback (most recent call last):
  File "torchrun", line 8, in <module>
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""


@pytest.mark.parametrize(
    ("printed", "line"),
    [
        (TORCHRUN, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
        ("RuntimeError: CUDA error\nCompile with TORCH_USE_CUDA_DSA", "RuntimeError: CUDA error"),
        ("[default1]:[rank1]: AssertionError\n", "AssertionError"),
        ("Exception: no\n", "Exception: no"),
        ("no errors\nNo Error: 0\nbye\n", "bye"),
        ("\n", ""),
    ],
)
def test_the_last_error_that_is_not_the_launcher_s_or_else_the_last_line(printed, line):
    assert error_line.last_error_line(printed) == line


FAILED = """Traceback (most recent call last):
  File "/job/train.py", line 9, in <module>
    main()
  File "/job/model.py", line 31, in forward
  File "/job/venv/lib/python3/site-packages/torch/nn/functional.py", line 3, in linear
RuntimeError: shapes
"""


@pytest.mark.parametrize(
    ("printed", "place"),
    [
        (FAILED, "model.py:31"),
        (TORCHRUN, "train.py:9"),
        (FAILED.replace("/job/model.py", "/elsewhere/model.py"), "train.py:9"),
        (FAILED.replace("/job/", "/elsewhere/"), ""),
        (FAILED.replace("RuntimeError: shapes\n", ""), ""),
        ("", ""),
    ],
)
def test_the_last_line_of_the_user_s_own_above_the_error(printed, place):
    assert error_line.error_place(printed, Path("/job")) == place
