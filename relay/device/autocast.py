"""Autocast for the device: which operators run in the lower precision, which in float32, which in the widest given.

Everything else must fall through: without a kernel for AutocastPrivateUse1, *any* operator under autocast would be
"not implemented". The lists follow torch's documentation of what the other accelerators do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from relay.device.memory import NAME
from relay.device.plan import Kernel, overload

KEY = "AutocastPrivateUse1"


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


LOWER = _names(
    "matmul mm bmm mv addmm addmv addbmm baddbmm addr linear conv1d conv2d conv3d conv_transpose1d "
    "conv_transpose2d.input conv_transpose3d.input convolution _convolution prelu chain_matmul linalg_multi_dot "
    "scaled_dot_product_attention lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell"
)

FLOAT32 = _names(
    "acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar "
    "pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm group_norm nuclear_norm cosine_similarity "
    "poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss kl_div l1_loss smooth_l1_loss "
    "huber_loss mse_loss margin_ranking_loss multilabel_margin_loss soft_margin_loss triplet_margin_loss "
    "multi_margin_loss binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp softmax.int "
    "log_softmax.int cumprod cumsum prod prod.dim_int sum sum.dim_IntList norm.Scalar norm.ScalarOpt_dim"
)

PROMOTE = _names("addcdiv addcmul atan2 bilinear cross dot grid_sampler index_put tensordot scatter_add cat stack vdot")


def _eligible(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == NAME and value.dtype.is_floating_point


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, torch.Tensor):
        # float64 is left alone, as on the other accelerators: a test in double precision asked for it.
        return value.to(dtype) if _eligible(value) and value.dtype is not torch.float64 else value
    if isinstance(value, list | tuple) and any(isinstance(v, torch.Tensor) for v in value):
        return type(value)([_cast(v, dtype) for v in value])
    return value


def _dtypes(values: Any) -> list[torch.dtype]:
    found: list[torch.dtype] = []
    for value in values:
        if isinstance(value, list | tuple):
            found += _dtypes(value)
        elif _eligible(value):
            found.append(value.dtype)
    return found


def _kernel(name: str, choose: Callable[[list[torch.dtype]], torch.dtype | None]) -> Kernel:
    op = overload(name)
    off = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(off):
            to = choose(_dtypes((*args, *kwargs.values())))
            if to is None:
                return op(*args, **kwargs)
            return op(*(_cast(a, to) for a in args), **{k: _cast(v, to) for k, v in kwargs.items()})

    return kernel


def _lower(found: list[torch.dtype]) -> torch.dtype | None:
    return torch.get_autocast_dtype(NAME) if found else None


def _float32(found: list[torch.dtype]) -> torch.dtype | None:
    return torch.float32 if any(d in (torch.float16, torch.bfloat16) for d in found) else None


def _widest(found: list[torch.dtype]) -> torch.dtype | None:
    if len(set(found)) < 2:
        return None
    widest = found[0]
    for dtype in found[1:]:
        widest = torch.promote_types(widest, dtype)
    return widest


def register(lib: torch.library.Library, everything: torch.library.Library) -> None:
    """``lib``: aten's; ``everything``: the library of fallbacks."""
    everything.fallback(torch.library.fallthrough_kernel, KEY)
    for names, choose in ((LOWER, _lower), (FLOAT32, _float32), (PROMOTE, _widest)):
        for name in names:
            lib.impl(name, _kernel(name, choose), KEY)
