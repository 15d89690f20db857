"""Excludes the probe's hooks from ``torch.compile``."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType, ModuleType

from ...core.own_files import FOLDER

HIDING = "hiding from torch.compile"
"""the name under which a fault is noted"""


def tracing_query() -> Callable[[], bool]:
    """Return PyTorch's query of whether ``torch.compile`` is tracing; it may be traced itself."""
    import torch

    compiler = torch.compiler
    for name in ("is_dynamo_compiling", "is_compiling"):  # the first is cheaper
        asks: Callable[[], bool] | None = getattr(compiler, name, None)
        if asks is not None:
            return asks
    return torch._utils.is_compiling  # until PyTorch 2.2


def skip_code(code: CodeType) -> None:
    """Exclude a code object from ``torch.compile``."""
    from torch._C._dynamo import eval_frame

    if hasattr(eval_frame, "skip_code"):  # until PyTorch 2.6 or so
        eval_frame.skip_code(code)
    else:
        action = eval_frame._FrameAction
        strategy = eval_frame._FrameExecStrategy(action.SKIP, action.DEFAULT)
        eval_frame.set_code_exec_strategy(code, strategy)


def hide_modules(*modules: ModuleType) -> None:
    """Exclude the functions of these modules from ``torch.compile``."""
    waiting = [
        member.__code__
        for module in modules
        for owner in (module, *(one for one in vars(module).values() if isinstance(one, type)))
        for member in vars(owner).values()
        if isinstance(member, FunctionType)
    ]
    while waiting:
        code = waiting.pop()
        if code.co_filename.startswith(FOLDER):
            skip_code(code)
        waiting += [inner for inner in code.co_consts if isinstance(inner, type(code))]
