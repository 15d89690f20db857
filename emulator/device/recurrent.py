"""Cells of LSTM and GRU: PyTorch fuses them on every device but the CPU, so they are made here.

Gates and their gradients are computed in plain operators of the host; the device takes one kernel
for each. What is kept for the backward pass is laid out as PyTorch expects it back from us only.
"""

from __future__ import annotations

from typing import Any

import torch

T = torch.Tensor


def lstm(inputs: T, hidden: T, cell: T, bias: T | None, more: T | None) -> tuple[T, T, T]:
    """Output, cell state, and what the backward pass needs: the activated gates."""
    gates = inputs + hidden
    for each in (bias, more):
        gates = gates if each is None else gates + each
    enter, forget, new, leave = gates.chunk(4, dim=-1)
    kept = torch.cat([enter.sigmoid(), forget.sigmoid(), new.tanh(), leave.sigmoid()], dim=-1)
    enter, forget, new, leave = kept.chunk(4, dim=-1)
    after = forget * cell + enter * new
    return leave * after.tanh(), after, kept


def lstm_backward(  # noqa: PLR0917  # the operator's
    grad: T | None, grad_cell: T | None, before: T, after: T, kept: T, has_bias: bool
) -> tuple[T | None, T | None, T | None]:
    """Gradients of the gates, of the cell state, and of the biases."""
    if grad is None and grad_cell is None:
        return None, None, None
    enter, forget, new, leave = kept.chunk(4, dim=-1)
    grad = torch.zeros_like(after) if grad is None else grad
    grad_cell = torch.zeros_like(after) if grad_cell is None else grad_cell
    squashed = after.tanh()
    flowing = grad * leave * (1 - squashed * squashed) + grad_cell
    gates = torch.cat(
        [
            flowing * new * enter * (1 - enter),
            flowing * before * forget * (1 - forget),
            flowing * enter * (1 - new * new),
            grad * squashed * leave * (1 - leave),
        ],
        dim=-1,
    )
    return gates, flowing * forget, gates.sum(0) if has_bias else None


def gru(inputs: T, hidden: T, before: T, bias: T | None, more: T | None) -> tuple[T, T]:
    """Output, and what the backward pass needs: gates, state before, hidden part of the new."""
    inputs = inputs if bias is None else inputs + bias
    hidden = hidden if more is None else hidden + more
    reset_i, update_i, new_i = inputs.chunk(3, dim=-1)
    reset_h, update_h, new_h = hidden.chunk(3, dim=-1)
    reset, update = (reset_i + reset_h).sigmoid(), (update_i + update_h).sigmoid()
    new = (new_i + reset * new_h).tanh()
    kept = torch.cat([reset, update, new, before, new_h], dim=-1)
    return (before - new) * update + new, kept


def gru_backward(grad: T, kept: T, has_bias: bool) -> tuple[T, T, T, T | None, T | None]:
    """Gradients of the gates from the input, from the hidden state, of that, and of the biases."""
    reset, update, new, before, new_h = kept.chunk(5, dim=-1)
    of_update = grad * (before - new) * update * (1 - update)
    of_new = grad * (1 - update) * (1 - new * new)
    of_reset = of_new * new_h * reset * (1 - reset)
    inputs = torch.cat([of_reset, of_update, of_new], dim=-1)
    hidden = torch.cat([of_reset, of_update, of_new * reset], dim=-1)
    sums = (inputs.sum(0), hidden.sum(0)) if has_bias else (None, None)
    return inputs, hidden, grad * update, *sums


aten = torch.ops.aten
CELLS: dict[Any, Any] = {
    aten._thnn_fused_lstm_cell: lstm,
    aten._thnn_fused_lstm_cell_backward_impl: lstm_backward,
    aten._thnn_fused_gru_cell: gru,
    aten._thnn_fused_gru_cell_backward: gru_backward,
}
