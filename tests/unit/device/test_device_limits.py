"""The device under a capability: what it refuses, what falls back, and what the meter makes of it."""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: nothing of the emulated device is tested here")

import relay.device as device  # noqa: E402
from relay.device.plan import plan_of  # noqa: E402

pytestmark = pytest.mark.torch


@pytest.fixture
def limited() -> Iterator[device.Policy]:
    policy = device.Policy(
        name="narrow",
        ops=frozenset({"add", "mul", "mm", "zero", "fill", "ones"}),
        dtypes=frozenset({"float16", "float32", "int64", "bool"}),
        fallback_ops=frozenset({"cumsum"}),
    )
    with device.use_policy(policy):
        yield policy


def test_a_missing_operator_is_refused_in_the_dispatchers_words(limited: device.Policy) -> None:
    x = torch.ones(3, device="spyre")
    before = device.METER.snapshot()
    with pytest.raises(device.UnsupportedOp) as refusal:
        torch.lgamma(x)
    assert refusal.value.op == "aten::lgamma.out"
    assert "Could not run 'aten::lgamma.out' with arguments from the 'spyre' backend" in str(refusal.value)
    with pytest.raises(device.UnsupportedOp, match=r"'aten::lgamma\.out'"):
        x.lgamma_()
    with pytest.raises(device.UnsupportedOp, match=r"'aten::sort(\.stable)?'"):
        x.sort()
    spent = device.METER.snapshot() - before
    assert (spent.refused_ops, spent.kernels) == (3, 0)


def test_a_refusal_inside_backward_keeps_its_type(limited: device.Policy) -> None:
    with device.use_policy(device.UNLIMITED):
        x = torch.ones(3, device="spyre", requires_grad=True)
        y = torch.sigmoid(x)
    with pytest.raises(device.UnsupportedOp, match="sigmoid_backward"):
        y.backward(torch.ones(3, device="spyre"))


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.empty(3, device="spyre", dtype=torch.float64),
        lambda: torch.ones(3, dtype=torch.float64).to("spyre"),
        lambda: torch.ones(3, device="spyre").double(),
        lambda: torch.ones(3, device="spyre").to(torch.int8),
        lambda: torch.ones(4, device="spyre").view(torch.float64),
    ],
)
def test_a_missing_dtype_is_refused_in_the_plugins_words(limited: device.Policy, make: object) -> None:
    with pytest.raises(device.UnsupportedDtype, match=r"Spyre backend does not support dtype (Double|Char)"):
        make()  # type: ignore[operator]


def test_a_fallback_warns_once_runs_on_the_cpu_and_is_no_engagement(limited: device.Policy) -> None:
    x = torch.ones(4, device="spyre")
    plan_of(torch.ops.aten.cumsum.default).warned = False  # once a process: another test may have had it
    before = device.METER.snapshot()
    with pytest.warns(device.FallbackWarning, match="aten::cumsum"):
        first = x.cumsum(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = x.cumsum(0)
    spent = device.METER.snapshot() - before
    assert first.device.type == "spyre"
    assert second.cpu().tolist() == [1, 2, 3, 4]
    assert (spent.fallbacks, spent.kernels) == (2, 0)
    assert spent.h2d_bytes == 2 * 16
    assert not spent.engaged


def test_comparisons_run_without_limits_and_count_for_nothing(limited: device.Policy) -> None:
    device.comparing()
    device.comparing()
    a, b = torch.ones(3, device="spyre"), torch.ones(3, device="spyre")
    before = device.METER.snapshot()
    torch.testing.assert_close(a, b)
    with pytest.raises(AssertionError, match="not close"):
        torch.testing.assert_close(a, torch.zeros(3).to("spyre"))

    from torch.testing._internal.common_utils import TestCase

    case = TestCase()
    case.assertEqual(a, b)  # noqa: PT009 - upstream's own is what is tested
    with pytest.raises(AssertionError, match="not close"):
        case.assertEqual(a, torch.zeros(3).to("spyre"))  # noqa: PT009
    with device.comparison():
        assert torch.isclose(a, b).all()
    spent = device.METER.snapshot() - before
    assert spent.kernels == 0
    assert spent.comparison_kernels > 0
    assert device.current_policy() is limited


def test_values_are_compared_by_the_cpu_and_everything_else_as_it_is() -> None:
    device.comparing()
    x = torch.randn(3, 4, device="spyre")
    before = device.METER.snapshot()
    torch.testing.assert_close(x, x.clone())
    assert (device.METER.snapshot() - before).comparison_kernels == 0
    for other, told in (
        (x + 1, "Mismatched elements: 12 / 12"),
        (x.double(), "dtype"),
        (x.cpu(), "device"),
        (x.t().contiguous().t(), "stride"),
    ):
        with pytest.raises(AssertionError, match=told):
            torch.testing.assert_close(x, other, check_stride=True)
    conj = torch.randn(3, dtype=torch.complex64, device="spyre").conj()
    torch.testing.assert_close(conj, conj.clone())
    torch.testing.assert_close(x.to(torch.float8_e4m3fn).float(), x, rtol=0.2, atol=0.1)
    with pytest.raises(AssertionError, match="not close"):
        torch.testing.assert_close(conj, conj.resolve_conj().conj())


@pytest.mark.parametrize(
    "run",
    [
        lambda x: x + x,
        lambda x: x.mul_(2),
        lambda x: x @ x,
        lambda x: x.clone(),
        lambda x: x.half(),
        lambda x: torch.zeros(2, device="spyre"),
        lambda x: torch.nn.functional.conv1d(x, x[None]),
        lambda x: torch.nn.GRUCell(4, 4, device="spyre")(x),
    ],
    ids=["add", "in-place", "mm", "clone", "cast", "factory", "convolution", "fused cell"],
)
def test_a_kernel_engages_the_device(run: object) -> None:
    x = torch.ones(4, 4, device="spyre")
    before = device.METER.snapshot()
    run(x)  # type: ignore[operator]
    assert (device.METER.snapshot() - before).engaged


@pytest.mark.parametrize(
    "run",
    [lambda x: x.t()[1:].unsqueeze(0), lambda x: torch.empty(3, device="spyre"), lambda x: x.shape, lambda x: x.cpu()],
    ids=["views", "empty", "sizes", "to the host"],
)
def test_what_runs_no_kernel_does_not_engage_it(run: object) -> None:
    x = torch.ones(4, 4, device="spyre")
    before = device.METER.snapshot()
    run(x)  # type: ignore[operator]
    assert not (device.METER.snapshot() - before).engaged


def test_transfers_are_counted_by_direction() -> None:
    before = device.METER.snapshot()
    x = torch.ones(8).to("spyre")
    x.cpu()
    x[0].item()
    x.clone()
    spent = device.METER.snapshot() - before
    assert (spent.h2d_bytes, spent.d2h_bytes, spent.d2d_bytes) == (32, 36, 32)


@pytest.mark.parametrize(
    ("make", "key"),
    [
        (lambda: torch.eye(3, device="spyre").to_sparse(), "Sparse"),
        (lambda: torch.eye(3, device="spyre").to_sparse_csr(), "SparseCsr"),
        (lambda: torch.eye(3).to_sparse().to("spyre"), "Sparse"),
        (lambda: torch.quantize_per_tensor(torch.ones(3, device="spyre"), 0.1, 0, torch.qint8), "Quantized"),
        (lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8).to("spyre"), "Quantized"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_layouts_it_cannot_hold_are_refused_by_key(make: object, key: str) -> None:
    with pytest.raises(NotImplementedError, match=f"'{key}spyre' backend") as refusal:
        make()  # type: ignore[operator]
    assert device.kind_of(refusal.value) == "unsupported-layout"


SMALL_CARD = """
capability:
  name: small-card
  device: spyre
  dtypes: [float32, int64, bool]
  ops: [add, lgamma, ones, zero, fill]
  fallback_ops: [mul]
  machine: {memory_bytes: 1048576, cores: 2, stick_bytes: 64}
"""


def _outcome(work: Callable[[], object]) -> str:
    try:
        work()
    except (RuntimeError, NotImplementedError) as error:
        return device.kind_of(error) or repr(error)
    return "runs"


WORKS: dict[str, tuple[Callable[[], object], str, str]] = {
    # what is done, what comes of it on the sheet of the repository, what on a small card's
    "lgamma": (lambda: torch.lgamma(torch.ones(3, device="spyre")), "unsupported-op", "runs"),
    "sigmoid": (lambda: torch.sigmoid(torch.ones(3, device="spyre")), "runs", "unsupported-op"),
    "float16": (lambda: torch.ones(3, device="spyre", dtype=torch.float16), "runs", "unsupported-dtype"),
    "float64": (lambda: torch.ones(3).double().to("spyre"), "unsupported-dtype", "unsupported-dtype"),
    "2 MB": (lambda: torch.empty(2**19, device="spyre"), "runs", "resource-limit"),
    "2 MB result": (lambda: torch.ones(1, device="spyre").expand(2**19) + 1, "runs", "resource-limit"),
    "sparse": (lambda: torch.ones(3, 3).to_sparse().to("spyre"), "unsupported-layout", "unsupported-layout"),
}


@pytest.mark.parametrize("name", WORKS)
def test_another_device_is_another_sheet(name: str) -> None:
    from selector.configs import load_capability

    work, on_spyre, on_small = WORKS[name]
    sheet = Path(__file__).parents[3] / "test_configs" / "spyre" / "capability.yaml"
    for text, expected in ((sheet.read_text(), on_spyre), (SMALL_CARD, on_small)):
        with device.use_policy(device.Policy.from_capability(load_capability(text, "capability.yaml"))):
            assert _outcome(work) == expected


@pytest.mark.filterwarnings("ignore::relay.device.FallbackWarning")
def test_the_machine_and_what_falls_back_come_from_the_sheet_too() -> None:
    from selector.configs import load_capability

    before = device.current_policy()
    try:
        device.install(device.Policy.from_capability(load_capability(SMALL_CARD, "capability.yaml")))
        properties = torch.spyre.get_device_properties()
        assert (properties.cores, properties.stick_bytes, properties.total_memory) == (2, 64, 1 << 20)
        x = torch.ones(20, device="spyre")
        start = device.METER.snapshot()
        _ = x + x
        _ = x * x
        spent = device.METER.snapshot() - start
        assert (spent.kernels, spent.fallbacks, spent.sticks) == (1, 1, 6)  # 80 bytes are 2 sticks of 64
    finally:
        device.install(before)


def test_too_large_a_tensor_is_refused_as_out_of_memory() -> None:
    with device.use_policy(device.Policy(memory_bytes=3 << 29)):
        with pytest.raises(torch.OutOfMemoryError) as refusal:
            torch.empty(2**29, device="spyre")
        assert str(refusal.value) == (
            "Spyre out of memory. Tried to allocate 2.00 GiB. Spyre 0 has a total capacity of 1.50 GiB."
        )
        assert isinstance(refusal.value, device.OutOfMemory)
        again = pickle.loads(pickle.dumps(refusal.value))
        assert (str(again), again.nbytes, device.kind_of(again)) == (str(refusal.value), 2 << 30, "resource-limit")


def test_a_host_without_the_memory_is_a_device_without_it() -> None:
    for work in (
        lambda: torch.empty(2**60, device="spyre"),
        lambda: torch.ones(1, device="spyre").expand(2**58) + 1,
        lambda: torch.cat([torch.ones(1, device="spyre").expand(2**57)] * 4),
    ):
        with pytest.raises(device.OutOfMemory, match=r"Spyre out of memory\. Tried to allocate"):
            work()


def test_half_results_are_rounded_to_the_devices_format_when_asked() -> None:
    exact = torch.tensor([1.0, 1 + 2**-10, 1 + 3 * 2**-10, float("inf"), float("nan")], dtype=torch.float16)
    with device.use_policy(device.Policy(round_float16=True)):
        got = (exact.to("spyre") + 0).cpu()
    torch.testing.assert_close(got[:4], torch.tensor([1.0, 1.0, 1 + 4 * 2**-10, float("inf")], dtype=torch.float16))
    assert got[4].isnan()


def test_wide_integers_wrap_when_asked() -> None:
    with device.use_policy(device.Policy(int64_as_int32=True)):
        got = torch.tensor([1, 2**31], device="spyre") * 1
    assert got.cpu().tolist() == [1, -(2**31)]


def test_a_second_install_keeps_the_device_and_takes_the_policy() -> None:
    before = device.current_policy()
    shared = device.new_meter_map()
    old = device.METER.map
    try:
        device.install(device.Policy(name="second"), shared)
        torch.zeros(2, device="spyre")
        assert device.current_policy().name == "second"
        assert device.read_snapshot(shared).kernels == 1
    finally:
        device.install(before, old)
    assert device.installed()


def test_printing_moves_the_values_to_the_host_and_runs_nothing_there() -> None:
    shown = {
        "whole": torch.tensor([[1.5, -2.0], [float("nan"), 3e9]], device="spyre"),
        "complex and conj": torch.tensor([1 + 2j, -3j], device="spyre").conj(),
        "neg": torch.tensor([1 + 2j, -3j], device="spyre").conj().imag,
        "half": torch.tensor([1.0, 2.0], device="spyre", dtype=torch.float16),
        "float8": torch.ones(2, device="spyre").to(torch.float8_e5m2),
        "summarised": torch.arange(3000, device="spyre").view(50, 60).t(),
        "view": torch.arange(12.0, device="spyre").view(3, 4)[1:, ::2],
        "empty": torch.empty(0, 3, device="spyre"),
        "leaf": torch.ones(2, device="spyre", requires_grad=True),
        "parameter": torch.nn.Parameter(torch.ones(2, device="spyre")),
    }
    narrow = device.Policy(ops=frozenset({"add"}), dtypes=frozenset({"float32"}))
    for name, x in shown.items():
        want = repr(x.cpu()).replace(" ", "")
        before = device.METER.snapshot()
        with device.use_policy(narrow):
            said = repr(x)
        spent = device.METER.snapshot() - before
        bare = re.sub(r",\s*device='spyre:0'", "", said).replace(" ", "")
        assert bare == want or name in ("leaf", "parameter"), (said, want)  # a copy on the host is no leaf
        assert "device='spyre:0'" in said, name
        assert (spent.kernels, spent.refused_ops, spent.d2h_bytes) == (0, 0, x.nbytes), name


def test_a_subclass_is_compared_with_a_plain_tensor() -> None:
    class Sub(torch.Tensor):
        pass

    device.comparing()
    x = torch.arange(4.0).to("spyre")
    for one, other in ((x.as_subclass(Sub), x.clone()), (x.clone(), x.as_subclass(Sub))):
        torch.testing.assert_close(one, other)
        with pytest.raises(AssertionError, match="not close"):
            torch.testing.assert_close(one, other + 1)


def test_copies_that_find_no_memory_say_so_in_the_devices_words() -> None:
    wide = torch.zeros(1).expand(2**46)
    x = torch.zeros(1, device="spyre").expand(2**46)
    calls = (
        lambda: wide.to("spyre", copy=True),
        lambda: wide.to("spyre", torch.float64),
        x.clone,
        lambda: x.to(torch.float64),
        lambda: x.to("cpu", copy=True),
    )
    for call in calls:
        with pytest.raises(torch.OutOfMemoryError):
            call()
    assert x.device.type == x.untyped_storage().device.type == "spyre"
