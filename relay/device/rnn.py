"""Fused cells of LSTM and GRU. torch sends recurrent layers on devices to fused kernels that the CPU does not have.

The workspace that forward leaves for backward is ours alone, so its layout is too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from relay.device.memory import adopt, cpu_alias, is_device
from relay.device.meter import METER
from relay.device.plan import Kernel, plan_of
from relay.device.policy import CURRENT, Verdict


def _fused(name: str) -> Callable[[Callable[..., tuple[Tensor | None, ...]]], Kernel]:
    """Give a function over CPU tensors the manners of a kernel: policy, aliases, meter."""

    def wrap(function: Callable[..., tuple[Tensor | None, ...]]) -> Kernel:
        def kernel(*args: Any) -> tuple[Tensor | None, ...]:
            verdict = plan_of(getattr(torch.ops.aten, name).default).admit(CURRENT.policy)
            inputs = [a for a in args if isinstance(a, Tensor) and is_device(a)]
            results = function(*(cpu_alias(a) if isinstance(a, Tensor) and is_device(a) else a for a in args))
            outputs = tuple(None if r is None else adopt(r) for r in results)
            if verdict is Verdict.FALLBACK:
                METER.fallback()
            else:
                METER.kernel(inputs, [o for o in outputs if o is not None])
            return outputs

        return kernel

    return wrap


@_fused("_thnn_fused_lstm_cell")
def lstm_cell(
    from_input: Tensor,
    from_hidden: Tensor,
    cell: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor | None, ...]:
    """``(N, 4H)`` gates and an ``(N, H)`` cell to hidden, cell and the workspace ``(N, 4H)``: i, f, g, o after their
    activations."""
    gates = from_input + from_hidden
    if input_bias is not None and hidden_bias is not None:
        gates = gates + input_bias + hidden_bias
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    new_cell = f * cell + i * g
    return o * new_cell.tanh(), new_cell, torch.cat([i, f, g, o], 1)


@_fused("_thnn_fused_lstm_cell_backward_impl")
def lstm_cell_backward(
    grad_hidden: Tensor | None,
    grad_cell: Tensor | None,
    cell: Tensor,
    new_cell: Tensor,
    workspace: Tensor,
    has_bias: bool,
) -> tuple[Tensor | None, ...]:
    """Gradients of the gates ``(N, 4H)``, the cell ``(N, H)`` and the bias ``(4H,)``."""
    if grad_hidden is None and grad_cell is None:
        return None, None, None
    i, f, g, o = workspace.chunk(4, 1)
    squashed = new_cell.tanh()
    hidden = torch.zeros_like(new_cell) if grad_hidden is None else grad_hidden
    through = hidden * o * (1 - squashed * squashed)
    if grad_cell is not None:
        through = through + grad_cell
    gates = torch.cat(
        [
            through * g * i * (1 - i),
            through * cell * f * (1 - f),
            through * i * (1 - g * g),
            hidden * squashed * o * (1 - o),
        ],
        1,
    )
    return gates, through * f, gates.sum(0) if has_bias else torch.empty(0, dtype=new_cell.dtype)


@_fused("_thnn_fused_gru_cell")
def gru_cell(
    from_input: Tensor,
    from_hidden: Tensor,
    hidden: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor | None, ...]:
    """``(N, 3H)`` gates (reset, update, new) and ``(N, H)`` hidden to the new hidden and the workspace ``(N, 5H)``:
    r, z, n, the hidden state, and the hidden part of the new gate."""
    if input_bias is not None:
        from_input = from_input + input_bias
    if hidden_bias is not None:
        from_hidden = from_hidden + hidden_bias
    ir, iz, inew = from_input.chunk(3, 1)
    hr, hz, hnew = from_hidden.chunk(3, 1)
    r, z = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    n = (inew + r * hnew).tanh()
    return n + z * (hidden - n), torch.cat([r, z, n, hidden, hnew], 1)


@_fused("_thnn_fused_gru_cell_backward")
def gru_cell_backward(grad_hidden: Tensor, workspace: Tensor, has_bias: bool) -> tuple[Tensor | None, ...]:
    """Gradients of the input gates, the hidden gates (both ``(N, 3H)``), the hidden state and the two biases."""
    r, z, n, hidden, hnew = workspace.chunk(5, 1)
    new_gate = grad_hidden * (1 - z) * (1 - n * n)
    reset_gate = new_gate * hnew * r * (1 - r)
    update_gate = grad_hidden * (hidden - n) * z * (1 - z)
    of_input = torch.cat([reset_gate, update_gate, new_gate], 1)
    of_hidden = torch.cat([reset_gate, update_gate, new_gate * r], 1)
    if not has_bias:
        return of_input, of_hidden, grad_hidden * z, None, None
    return of_input, of_hidden, grad_hidden * z, of_input.sum(0), of_hidden.sum(0)


CELLS: dict[str, Kernel] = {
    "_thnn_fused_lstm_cell": lstm_cell,
    "_thnn_fused_lstm_cell_backward_impl": lstm_cell_backward,
    "_thnn_fused_gru_cell": gru_cell,
    "_thnn_fused_gru_cell_backward": gru_cell_backward,
}
"""Registered for PrivateUse1 by name."""
