"""What the emulated device costs beside the CPU: ``python tests/bench/device_time.py [tiny] [bare] [latency]``.

Everything runs on both devices in turn, in one process, on one thread; each figure is the best of several rounds in
seconds of this process's processor time, and the ratio of the sums is what counts. The operators are a seeded sample of
torch's own database.

* ``tiny``: tests of thousands of tiny operators: gradcheck and gradgradcheck of operators and layers in float64.
  Asked for: at most 5 times the CPU's time.
* ``bare``: a test of an operator without upstream's surroundings: sample inputs, the operator on them and on
  non-contiguous copies, comparison, backward. For information; the ratio of whole tests of operators, of which at most
  1.3 is asked for, is printed by ``device_files.py``.
* ``latency``: single operators on 16 x 16 float32, in microseconds. For information.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import relay.device as device

device.install()
device.comparing()

import torch  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.testing._internal.common_utils import noncontiguous_like  # noqa: E402
from torch.utils._pytree import tree_leaves, tree_map  # noqa: E402

PLACES = ("cpu", "spyre")
Work = Callable[[str], None]


def best(work: Work, rounds: int) -> dict[str, float] | None:
    """Seconds a device, the best of the rounds, which take turns; None if the operator does not do this at all."""
    found = dict.fromkeys(PLACES, float("inf"))
    try:
        for _ in range(rounds):
            for at in PLACES:
                torch.manual_seed(0)
                began = time.process_time()
                work(at)
                found[at] = min(found[at], time.process_time() - began)
    except (RuntimeError, NotImplementedError, TypeError, ValueError, AssertionError) as error:
        skipped[type(error).__name__ + ": " + (str(error).strip().splitlines() or [""])[0][:80]] = at
        return None
    return found


skipped: dict[str, str] = {}


def tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def op_test(op: Any) -> Work:
    def work(at: str) -> None:
        for dtype in (torch.float32, torch.int64):
            if dtype not in op.supported_dtypes("cpu"):
                continue
            grads = dtype.is_floating_point and op.supports_autograd
            for sample in op.sample_inputs(at, dtype, requires_grad=grads):
                apart = tree_map(
                    lambda t: noncontiguous_like(t) if isinstance(t, torch.Tensor) else t,
                    (sample.input, sample.args, sample.kwargs),
                )
                want = op(sample.input, *sample.args, **sample.kwargs)
                got = op(apart[0], *apart[1], **apart[2])
                torch.testing.assert_close(got, want, equal_nan=True)
                loss = [t.abs().sum() for t in tensors(got) if t.requires_grad and t.is_floating_point()]
                if loss:
                    torch.autograd.grad(sum(loss), [t for t in tensors(apart) if t.requires_grad], allow_unused=True)

    return work


def op_tiny(op: Any) -> Work:
    def work(at: str) -> None:
        for sample in itertools.islice(op.sample_inputs(at, torch.float64, requires_grad=True), 2):
            inputs = [t for t in tensors((sample.input, sample.args)) if t.requires_grad]
            if not inputs or sum(t.numel() for t in inputs) > 60:
                continue
            torch.autograd.gradcheck(
                lambda *_, s=sample: op(s.input, *s.args, **s.kwargs), inputs, check_batched_grad=False
            )

    return work


def layer_tiny(make: Callable[[], Any], *size: int) -> Work:
    def work(at: str) -> None:
        layer = make().double().to(at)
        x = torch.randn(*size, dtype=torch.float64).to(at).requires_grad_()
        parameters = tuple(layer.parameters())

        def call(x: Any, *_: Any) -> Any:
            out = layer(x)
            return out[0] if isinstance(out, tuple) else out

        torch.autograd.gradcheck(call, (x, *parameters))
        torch.autograd.gradgradcheck(call, (x, *parameters))

    return work


LAYERS: dict[str, Work] = {
    "Linear": layer_tiny(lambda: torch.nn.Linear(3, 2), 2, 3),
    "Conv1d": layer_tiny(lambda: torch.nn.Conv1d(2, 2, 2), 1, 2, 4),
    "Tanh": layer_tiny(torch.nn.Tanh, 2, 3),
    "LayerNorm": layer_tiny(lambda: torch.nn.LayerNorm(3), 2, 3),
    "Softmax": layer_tiny(lambda: torch.nn.Softmax(1), 2, 3),
    "GELU": layer_tiny(torch.nn.GELU, 2, 3),
}


def sample_of_ops(count: int, tiny: bool) -> list[Any]:
    able = [op for op in op_db if torch.float32 in op.supported_dtypes("cpu")]
    if tiny:
        able = [op for op in able if torch.float64 in op.supported_dtypes("cpu") and op.supports_autograd]
    return random.Random(11).sample(able, count)


def compare(what: str, works: Iterable[tuple[str, Work]], rounds: int, wanted: float | None, verbose: bool) -> bool:
    total = dict.fromkeys(PLACES, 0.0)
    ratios = []
    for name, work in works:
        found = best(work, rounds)
        if found is None:
            continue
        gc.collect()
        for at in PLACES:
            total[at] += found[at]
        ratios.append(found["spyre"] / found["cpu"])
        if verbose:
            print(f"  {name}: {1000 * found['cpu']:.1f} / {1000 * found['spyre']:.1f} ms = {ratios[-1]:.2f}x")
    ratio = total["spyre"] / total["cpu"]
    ratios.sort()
    print(
        f"{what}: {len(ratios)} tests, cpu {total['cpu']:.2f} s, spyre {total['spyre']:.2f} s: {ratio:.2f}x "
        f"(median {ratios[len(ratios) // 2]:.2f}x, worst {ratios[-1]:.2f}x"
        f"{f'; asked for: at most {wanted}x' if wanted else ''})",
        flush=True,
    )
    return wanted is None or ratio <= wanted


def latency() -> None:
    rows: dict[str, Callable[[Any, Any], Any]] = {
        "empty": lambda x, y: torch.empty(16, 16, device=x.device),
        "x + y": lambda x, y: x + y,
        "x + 2": lambda x, y: x + 2,
        "out=": lambda x, y: torch.add(x, y, out=x),
        "x.mul_(1)": lambda x, y: x.mul_(1),
        "x[1:]": lambda x, y: x[1:],
        "x @ y": lambda x, y: x @ y,
        "sum": lambda x, y: x.sum(),
        "item": lambda x, y: x[0, 0].item(),
        "sort": lambda x, y: x.sort(),
        "clone": lambda x, y: x.clone(),
        "copy_": lambda x, y: x.copy_(y),
        "cat": lambda x, y: torch.cat([x, y]),
        "zeros": lambda x, y: torch.zeros(16, 16, device=x.device),
        "cpu": lambda x, y: x.cpu(),
    }
    for name, call in rows.items():
        found = []
        for at in PLACES:
            x, y = torch.randn(16, 16).to(at), torch.randn(16, 16).to(at)
            least = float("inf")
            for _ in range(30):
                began = time.process_time()
                for _ in range(100):
                    call(x, y)
                least = min(least, (time.process_time() - began) / 100)
            found.append(1e6 * least)
        print(f"  {name}: {found[0]:.1f} / {found[1]:.1f} us")


def main() -> int:
    parser = argparse.ArgumentParser(description="The emulated device's time beside the CPU's.")
    parser.add_argument("what", nargs="*", default=["tiny", "bare", "latency"])
    parser.add_argument("--ops", type=int, default=80, help="operators in the sample")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--verbose", action="store_true", help="a line a test")
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    good = True
    for what in args.what:
        if what == "bare":
            works = [(op.full_name, op_test(op)) for op in sample_of_ops(args.ops, tiny=False)]
            compare("operators without upstream's surroundings", works, args.rounds, None, args.verbose)
        elif what == "tiny":
            works = [(op.full_name, op_tiny(op)) for op in sample_of_ops(args.ops, tiny=True)]
            good &= compare("tiny operators", [*works, *LAYERS.items()], args.rounds, 5, args.verbose)
        elif what == "latency":
            latency()
        else:
            parser.error(f"{what}: one of tiny, bare, latency")
    for why, at in skipped.items():
        print(f"  left out on {at}: {why}")
    return not good


if __name__ == "__main__":
    sys.exit(main())
