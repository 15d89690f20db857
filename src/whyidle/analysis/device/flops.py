"""FLOPs and bytes of operators, from recorded shapes and types.

Counts follow ``torch.utils.flop_counter``: two per multiply-add, attention in full (a causal mask
is not recorded), convolutions by their output. Bytes are the least that an operator must move: its
inputs once and its output once. Operators with insufficient shapes are nan, never 0.
"""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import Any, Final

import numpy as np
from msgspec import Struct

from whyidle.analysis.arrays import F64, I64
from whyidle.analysis.integer_codes import used_codes
from whyidle.analysis.partition.idle_gaps import pick_rows
from whyidle.model.operators import Operator
from whyidle.model.roles import Role
from whyidle.model.timeline import Timeline

Shape = tuple[int, ...]
Shapes = list[Any]

_SIZES: Final = {
    "double": 8, "long int": 8, "long": 8, "float": 4, "int": 4, "c10::half": 2, "half": 2,
    "c10::bfloat16": 2, "bfloat16": 2, "short": 2, "bool": 1, "unsigned char": 1, "char": 1,
    "signed char": 1, "c10::float8_e4m3fn": 1, "c10::float8_e5m2": 1,
}  # fmt: skip
_BACKWARD_ATTENTION: Final = 2.5
"""five matrix products of the forward's size, where the forward has two"""


class OpWork(Struct, frozen=True):
    """Work of one operator call; None: unknown, or no matrix work."""

    flops: float | None
    bytes: float | None


NOTHING: Final = OpWork(None, None)


class Work(Struct, frozen=True, eq=False):
    """Per device event, its part of its operator's ``flops`` and ``bytes``; nan where unknown."""

    flops: F64
    bytes: F64


def work_of_events(timeline: Timeline, operator: I64, seconds: F64) -> Work:
    """Spread the work of each operator (a host row per device event; -1: unknown) over the device
    events that it launched, by their ``seconds``."""
    host = timeline.host
    flops, moved = np.full(len(operator), np.nan), np.full(len(operator), np.nan)
    known = np.flatnonzero((operator >= 0) & (pick_rows(host.detail, operator, -1) >= 0))
    if not len(known):
        return Work(flops, moved)
    convolutions = _ConvolutionShapes.learn_shapes(timeline)
    kinds = host.name[operator[known]].astype(np.int64) << 32 | host.detail[operator[known]]
    unique, index = np.unique(kinds, return_inverse=True)
    works = [
        _operator_work(timeline, int(kind) >> 32, int(kind) & 0xFFFFFFFF, convolutions)
        for kind in unique
    ]
    calls, call_index = np.unique(operator[known], return_inverse=True)
    total = np.bincount(call_index, weights=seconds[known], minlength=len(calls))
    share = seconds[known] / np.maximum(total[call_index], 1e-12)
    flops[known] = np.array([_nan_if_none(w.flops) for w in works])[index] * share
    moved[known] = np.array([_nan_if_none(w.bytes) for w in works])[index] * share
    return Work(flops, moved)


def shapes_of(timeline: Timeline, detail: int) -> Shapes:
    """Return the input shapes of a call by its detail's row; empty if not recorded."""
    return _parse_shapes(timeline.details[detail].dims) if detail >= 0 else []


def op_work(operator: Operator, dims: Shapes, types: list[str]) -> OpWork:
    """Return the work of one operator call from its input shapes and types."""
    try:
        flops = _count_flops(operator, dims)
    except (IndexError, TypeError):  # a foreign operator of the same name
        flops = None
    return OpWork(flops, _moved_bytes(operator, dims, types))


def _nan_if_none(value: float | None) -> float:
    return math.nan if value is None else value


def _operator_work(
    timeline: Timeline, name: int, detail: int, convolutions: _ConvolutionShapes
) -> OpWork:
    found = timeline.details[detail]
    dims, types = _parse_shapes(found.dims), _parse_shapes(found.types)
    if not dims:
        return NOTHING
    operator = timeline.operator(name)
    if operator.work in _CONVOLUTIONS:
        return convolutions.convolution_work(operator, dims, types) if len(dims) > 2 else NOTHING
    return op_work(operator, dims, types)


@lru_cache(maxsize=8192)
def _parse_shapes(text: str) -> Shapes:
    if not text:
        return []
    shapes = json.loads(text)
    return shapes if isinstance(shapes, list) else []


def _is_tensor(shape: Any) -> bool:
    return (
        isinstance(shape, (list, tuple))
        and len(shape) > 0
        and all(isinstance(n, int) and n >= 0 for n in shape)
    )


def _count_flops(operator: Operator, dims: Shapes) -> float | None:
    inputs = dims[operator.first :]
    if operator.work == "product":
        return _product_flops(inputs[0], inputs[1])
    if operator.work == "linear":
        return _linear_flops(inputs)
    if operator.work == "convolution_gradients":
        return _convolution_backward(inputs)
    if operator.work not in ("attention", "attention_gradients"):
        return None
    flops = _attention_flops(*inputs[:3], heads_first=operator.heads_first)
    backward = operator.work == "attention_gradients"
    return flops if flops is None or not backward else _BACKWARD_ATTENTION * flops


def _product_flops(a: Shape, b: Shape) -> float | None:
    if not (_is_tensor(a) and _is_tensor(b)) or len(a) < 2 or len(b) != len(a) or a[-1] != b[-2]:
        return None
    return 2.0 * math.prod(a) * b[-1]


def _linear_flops(dims: Shapes) -> float | None:
    x, weight = dims[0], dims[1]
    if not (_is_tensor(x) and _is_tensor(weight)) or x[-1] != weight[-1]:
        return None
    return 2.0 * math.prod(x) * int(weight[0])


_CONVOLUTIONS: Final = frozenset(
    {"convolution", "convolution_input_gradient", "convolution_weight_gradient"}
)
"""their own shapes hold only a part of the work"""


def _convolution_flops(output: Shape, weight: Shape) -> float:
    """``weight`` is (out, in / groups, *kernel), ``output`` is (batch, out, *space)."""
    return 2.0 * math.prod(output) * math.prod(weight[1:])


def _convolution_backward(dims: Shapes) -> float | None:
    """Gradients of input and weight; an input of at most four channels (an image) needs none."""
    roles = _argument_roles(dims)
    if roles is None:
        return None
    inputs, grad, weight = roles
    return _convolution_flops(grad, weight) * (1.0 if inputs[1] <= 4 else 2.0)


class _ConvolutionShapes(Struct, frozen=True):
    """Convolution shapes from backward calls: outputs by (input, weight), weights by (output
    gradient, input). Ambiguous keys are left out."""

    outputs: dict[str, Shape]
    weights: dict[str, Shape]

    @classmethod
    def learn_shapes(cls, timeline: Timeline) -> _ConvolutionShapes:
        host = timeline.host
        rows = timeline.rows_of(Role.CONVOLUTION_GRADIENTS)
        rows = rows[host.detail[rows] >= 0]
        outputs: dict[str, Shape | None] = {}
        weights: dict[str, Shape | None] = {}
        for detail in used_codes(host.detail[rows]):
            roles = _argument_roles(shapes_of(timeline, int(detail)))
            if roles:
                inputs, grad, weight = roles
                _learn_shape(outputs, str([inputs, weight]), grad)
                _learn_shape(weights, str([grad, inputs]), weight)
        return cls(
            {key: shape for key, shape in outputs.items() if shape},
            {key: shape for key, shape in weights.items() if shape},
        )

    def convolution_work(self, operator: Operator, dims: Shapes, types: list[str]) -> OpWork:
        if operator.work == "convolution":
            output, weight = self.outputs.get(str(dims[:2])), dims[1]
            tensors = [*dims[:2], output]
        elif operator.work == "convolution_input_gradient":
            output, weight = dims[1], dims[2]
            tensors = [output, weight, output]
        else:
            output, weight = dims[1], self.weights.get(str(dims[1:3]))
            tensors = [output, dims[2], output]
        if output is None or weight is None or not all(_is_tensor(shape) for shape in tensors):
            return NOTHING
        kind = next((kind for kind in types if kind.lower() in _SIZES), "float")
        size = _SIZES[kind.lower()]
        return OpWork(
            _convolution_flops(output, weight),
            float(sum(math.prod(shape) * size for shape in tensors)),
        )


def _argument_roles(dims: Shapes) -> tuple[Shape, Shape, Shape] | None:
    """(input, output gradient, weight); the first two arguments come in either order."""
    tensors = dims[:3]
    if len(tensors) < 3 or not all(_is_tensor(shape) and len(shape) > 2 for shape in tensors):
        return None
    first, second, weight = tensors
    if first[1] == second[1]:  # as many channels in as out: a stride makes the output smaller
        grad, inputs = sorted((first, second), key=math.prod)
    else:
        grad, inputs = (first, second) if first[1] == weight[0] else (second, first)
    return (inputs, grad, weight) if grad[1] == weight[0] and grad[0] == inputs[0] else None


def _learn_shape(shapes: dict[str, Shape | None], key: str, shape: Shape) -> None:
    shapes[key] = shape if shapes.get(key, shape) == shape else None


def _attention_flops(q: Shape, k: Shape, v: Shape, *, heads_first: bool) -> float | None:
    if not all(_is_tensor(x) and len(x) == 4 for x in (q, k, v)):
        return None
    batch, heads, queries = (q[0], q[1], q[2]) if heads_first else (q[0], q[2], q[1])
    keys = k[2] if heads_first else k[1]
    return 2.0 * batch * heads * queries * keys * (q[3] + v[3])


def _moved_bytes(operator: Operator, dims: Shapes, types: list[str]) -> float | None:
    """Inputs and output once; an unknown output is as large as the largest input."""
    if not operator.sized:
        return None
    sized = [
        (shape, _SIZES.get(str(kind).lower()))
        for shape, kind in zip(dims, types, strict=False)
        if _is_tensor(shape)
    ]
    if not sized or any(size is None for _, size in sized):
        return None
    inputs = [math.prod(shape) * float(size or 0) for shape, size in sized]
    if operator.writes == "in_place":
        return inputs[0]
    if operator.writes == "copy":
        return sum(inputs[:2])
    return sum(inputs) + _written_bytes(operator, dims, sized, inputs)


def _written_bytes(
    operator: Operator, dims: Shapes, sized: list[Any], inputs: list[float]
) -> float:
    if operator.writes == "nothing":
        return 0.0
    size = float(sized[-1][1])
    if operator.writes == "product" and len(dims) > operator.first + 1:
        left, right = dims[operator.first : operator.first + 2]
        if _product_flops(left, right) is not None:
            return float(math.prod(left[:-1]) * right[-1]) * size
    return max(inputs)
