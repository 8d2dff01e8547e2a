"""Tensors that are lent to the CPU's kernels, and kernels that are given to the device: what of it anybody can see."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: nothing of the emulated device is tested here")

import relay.device as device  # noqa: E402
from relay.device import fallback, finding, labels, tables  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::UserWarning")]


def _where(*tensors: Any) -> set[str]:
    return {str(place) for t in tensors for place in (t.device, t.untyped_storage().device)}


def test_this_torch_has_labels_and_tables() -> None:
    """Without them every test of the device would pass, a good deal slower."""
    assert labels.FOUND.labels is not None
    assert tables.find() == tables.find()


ERRORS: dict[str, Callable[[Any, Any], Any]] = {
    "one": lambda x, y: torch.logit(x, eps="a"),
    "two": lambda x, y: x + y,
    "two, in place": lambda x, y: x.add_(y),
    "several": lambda x, y: torch.cat([x, y]),
    "out=": lambda x, y: torch.add(x, y, out=x),
    "copy": lambda x, y: x.copy_(y),
    "clone": lambda x, y: x.clone(memory_format=torch.channels_last),
}


@pytest.mark.parametrize("name", ERRORS)
def test_a_kernel_that_raises_gives_back_what_it_was_lent(name: str) -> None:
    x, y = torch.ones(3, 4, device="spyre"), torch.ones(5, 6, device="spyre")
    for _ in range(2):
        with pytest.raises((RuntimeError, TypeError)):
            ERRORS[name](x, y)
        assert _where(x, y, x[1:], y.t()) == {"spyre:0"}
        assert (x + 1).sum().item() == 24


def test_a_signal_amid_operators_leaves_no_tensor_behind() -> None:
    """The runner ends a test that takes too long by a signal, whose handler raises wherever the test is."""

    class Late(Exception):
        pass

    def late(*_: object) -> None:
        raise Late

    def _without_end(x: Any) -> None:
        while True:
            x = torch.cat([x.neg_() * 1, x[32:] + x[:32]])[:64]

    x = torch.ones(64, device="spyre")
    before = signal.signal(signal.SIGALRM, late)
    try:
        for microseconds in range(200, 4200, 50):
            signal.setitimer(signal.ITIMER_REAL, microseconds / 1e6)
            with pytest.raises(Late):
                _without_end(x)
            assert _where(x, x[1:]) == {"spyre:0"}
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_another_thread_sees_tensors_of_the_device_alone() -> None:
    x = torch.ones(1 << 16, device="spyre")
    seen: set[str] = set()
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            seen.update(_where(x, x[1:]))
            assert (x[:4] + 1).tolist() == [2, 2, 2, 2]

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        for _ in range(300):
            torch.sin(x)
            torch.add(x, x)
    finally:
        over.set()
        watcher.join(30)
    assert seen == {"spyre:0"}


def test_threads_that_nobody_counts_are_waited_out_by_lending_nothing() -> None:
    """A thread of `_thread`'s counts when it begins to run, and autograd's never do."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(THREADS)], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


THREADS = """
    import _thread, time
    import torch
    import relay.device as device
    device.install()
    from relay.device import labels
    x = torch.ones(700, 700, device="spyre")
    seen = set()
    torch.autograd.set_multithreading_enabled(True)
    assert labels.FOUND.bystanders < 0
    torch.autograd.set_multithreading_enabled(False)
    with torch.autograd.set_multithreading_enabled(True):
        assert labels.FOUND.bystanders < 0
    assert labels.FOUND.bystanders == 0
    left = []
    for _ in range(40):
        def look():
            seen.update((str(x.device), str(x[1:].device)))
            left.append(1)
        _thread.start_new_thread(look, ())
        x + x
        x.clone()
    while len(left) < 40:
        time.sleep(0.01)
    assert seen == {"spyre:0"}, seen
    torch.autograd.set_multithreading_enabled(False)
    assert labels.FOUND.bystanders < 0
"""


def test_a_fork_leaves_the_threads_of_its_parent_behind() -> None:
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(FORKED)], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


FORKED = """
    import os, threading
    import torch
    import relay.device as device
    device.install()
    from relay.device import labels
    over = threading.Event()
    other = threading.Thread(target=over.wait)
    other.start()
    assert labels.others() > labels.FOUND.bystanders
    pid = os.fork()
    if not pid:
        os._exit(labels.others() > labels.FOUND.bystanders)
    over.set()
    other.join()
    assert os.waitpid(pid, 0)[1] == 0
"""


def test_an_operator_of_somebodys_is_not_lent_to() -> None:
    """Its kernel for the CPU may be one of Python, which would see the device's tensor as one of the CPU's."""
    with torch.library._scoped_library("relay_device_somebodys", "DEF") as library:
        library.define("second(Tensor x, Tensor y) -> Tensor")
        seen: list[Any] = []

        def kernel(x: Any, y: Any) -> Any:
            seen.append(x[1:])
            return y

        library.impl("second", kernel, "CPU")
        x, number = torch.ones(3, device="spyre"), torch.tensor(2.0)
        for _ in range(3):
            torch.ops.relay_device_somebodys.second(x, number)
        assert _where(number, *seen) == {"cpu"}
        assert _where(x) == {"spyre:0"}


@pytest.mark.parametrize(
    "before", ["with torch.inference_mode():", "torch.set_default_device('meta')\nif True:", "with torch.no_grad():"]
)
def test_installed_under_somebodys_mode(before: str) -> None:
    code = f"import torch, relay.device as device\n{before}\n    device.install()\n" + textwrap.dedent("""
        torch.set_default_device("cpu")
        x = torch.ones(3, device="spyre") + 1
        with torch.inference_mode():
            y = torch.ones(3, device="spyre") + 1
        from relay.device import labels
        assert labels.FOUND.labels is not None
        assert (x + y).tolist() == [4, 4, 4]
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_out_that_may_not_grow_keeps_its_sizes() -> None:
    x = torch.ones(10, device="spyre")
    with device.use_policy(device.Policy(memory_bytes=100)):
        for out in (torch.empty(2, device="spyre"), torch.empty(0, device="spyre")):
            size, held = out.shape, out.untyped_storage().nbytes()
            for _ in range(2):
                with pytest.raises(device.OutOfMemory):
                    torch.cat([x, x, x], out=out)
                assert out.shape == size
                assert torch.cat([x, x], out=torch.empty(0, device="spyre")).numel() == 20
            assert held or not out.untyped_storage().nbytes()


def test_the_profiler_counts_as_much_freed_as_given_out() -> None:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        for _ in range(20):
            torch.empty(1001, device="spyre")
    assert sum(event.self_cpu_memory_usage for event in seen.events()) == 0


def test_tensors_of_the_host_stay_where_they_are() -> None:
    x, number = torch.arange(4.0, device="spyre"), torch.tensor(2.0)
    for _ in range(2):
        for result in (
            x + number,
            torch.where(x > 1, x, number),
            torch.clamp(x, number, number),
            torch.maximum(x, number),
        ):
            assert _where(result) == {"spyre:0"}
        assert _where(number) == {"cpu"}
        assert number.item() == 2


def test_only_what_lies_alone_is_labelled() -> None:
    found = labels.FOUND.labels
    assert found is not None
    memory = torch.ones(4)
    for tensor in (
        memory,  # its view refers to the same storage
        (_view := memory[1:]),
        torch.ones(4).to_sparse(),
        torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.quint8),
        torch.ones(4, device="meta"),
        torch.ones(4, device="spyre"),
    ):
        before = tensor.device
        assert not found.keep(tensor)
        assert tensor.device == before
    assert found.keep(torch.ones(4))


def test_inference_tensors_are_so_on_the_device() -> None:
    with torch.inference_mode():
        for _ in range(2):
            x = torch.ones(3, device="spyre") + 1
            assert (x.is_inference(), _where(x, x[1:])) == (True, {"spyre:0"})
    with pytest.raises(RuntimeError, match=r"[Ii]nference tensor"):
        x.requires_grad_() * 2
    y = torch.ones(3, device="spyre")
    with torch.inference_mode():
        assert not y.add_(1).is_inference()
    assert y._version == 1


def test_versions_count_as_on_the_cpu() -> None:
    def versions(at: str) -> list[int]:
        x = torch.ones(3, device=at)
        seen = []
        for change in (lambda: x.add_(1), lambda: x[1:].mul_(2), lambda: torch.neg(x, out=x), lambda: x.copy_(x + 1)):
            change()
            seen.append(x._version)
        return seen

    assert versions("spyre") == versions("spyre") == versions("cpu")


def test_a_device_with_limits_refuses_before_and_after_it_lends() -> None:
    narrow = device.Policy(dtypes=frozenset({"float32", "bool"}), memory_bytes=64)
    x = torch.ones(16, device="spyre")
    with device.use_policy(narrow):
        for _ in range(2):
            assert (x > 0).all()
            with pytest.raises(device.UnsupportedDtype):
                x.double()
            with pytest.raises(device.UnsupportedDtype):
                torch.argmax(x)
            with pytest.raises(device.OutOfMemory):
                torch.cat([x, x])
            with pytest.raises(device.OutOfMemory):
                torch.cat([x, x], out=torch.empty(0, device="spyre"))
    assert _where(x) == {"spyre:0"}


def test_the_first_call_goes_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    original = fallback.Call.to_cpu
    monkeypatch.setattr(fallback.Call, "to_cpu", lambda self, value: calls.append("") or original(self, value))
    with device.use_policy(device.Policy()):
        x = torch.ones(3, device="spyre")
        torch.erfc(x)
        torch.hypot(x, x)
        torch.hstack([x, x])
        torch.erfinv(x * 0, out=torch.empty(3, device="spyre"))
    assert not calls


WITHOUT = """
    import sys, warnings
    import torch
    import relay.device as device
    from relay.device import finding, kernels, labels, tables
    def none(*_):
        raise {error}("otherwise")
    {module}.find = none
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        device.install()
    assert [str(w.message) for w in said] == ["{says} with this torch: otherwise"], [str(w.message) for w in said]
    x = torch.arange(6.0).to("spyre").view(2, 3)
    for _ in range(2):
        y = torch.cat([x.t() @ x, x[:1] + 1]).sum(0)
        out = torch.add(y, y, out=torch.empty(0, device="spyre"))
        z = x._lazy_clone()
        z[0] = float8 = torch.zeros(3, dtype=torch.float8_e5m2, device="spyre").float()
    assert (out.tolist(), z.tolist()) == ([74, 106, 138], [[0, 0, 0], [3, 4, 5]]), (out, z)
    assert str(x[1:].device) == str(z.untyped_storage().device) == "spyre:0"
    assert device.METER.snapshot().kernels > 10
"""


@pytest.mark.parametrize(
    ("module", "error", "says"),
    [
        ("finding", "finding.NoLabels", "the device is slower"),
        ("tables", "tables.NoTables", "views are slower"),
    ],
)
def test_a_torch_that_keeps_them_otherwise_is_served_more_slowly(module: str, error: str, says: str) -> None:
    code = textwrap.dedent(WITHOUT).format(module=module, error=error, says=says)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_views_run_no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    code = textwrap.dedent("""
        import torch
        import relay.device as device
        from relay.device import kernels, registration
        def never(name):
            def kernel(*args, **kwargs):
                raise AssertionError(name)
            return kernel
        registration.metadata_kernel = never
        device.install()
        x = torch.arange(12.0).to("spyre").view(3, 4).requires_grad_()
        y = x.t()[1:].unsqueeze(0).expand(2, 3, 3).reshape(6, 3).unfold(0, 2, 1)
        y.sum().backward()
        assert (y._base is not None, x.grad.tolist()[0], str(y.device)) == (True, [0, 3, 4, 3], "spyre:0"), x.grad
    """)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_kernel_that_somebody_registers_later_is_theirs() -> None:
    """What the device was given goes when another kernel comes, and comes back as that of Python."""
    x = torch.ones(4, device="spyre")
    mine: list[Any] = []
    with torch.library._scoped_library("aten", "IMPL") as library:

        def kernel(self: Any) -> Any:
            mine.append(self.shape)
            return self.clone()

        library.impl("unfold", lambda self, dimension, size, step: kernel(self), "PrivateUse1", allow_override=True)
        x.unfold(0, 2, 1)
    assert mine == [(4,)]
    assert x.unfold(0, 2, 1).tolist() == [[1, 1]] * 3


def test_where_labels_cannot_be_told_nothing_is_guessed() -> None:
    with pytest.raises(finding.NoLabels):
        finding.find(lambda: torch.ones(2, 3, dtype=torch.complex64).conj())
    with pytest.raises(finding.NoLabels):
        finding.find(lambda: torch.empty(2, 3))


RAISING = """
import signal

import relay.device as device

device.install()
import torch


class Boom(Exception):
    pass


def handler(*args):
    if on:
        raise Boom


on = True
signal.signal(signal.SIGALRM, handler)
x = torch.ones(4, device="spyre")
raised = 0
for turn in range(4000):
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-5 + turn % 60 * 1e-6)
        for _ in range(20):
            (x * 2).sum()
            torch.cat([x, x]).cpu()
    except Boom:
        raised += 1
on = False
signal.setitimer(signal.ITIMER_REAL, 0)
assert raised > 1000, raised
assert {t.device.type for t in (x, x[1:], x * 2)} == {"spyre"}
sizes = range(1, 40)
many = {n: torch.ones(n, device="spyre") for n in sizes}
on = True
for turn in range(4000):  # each kind of kernel is counted anew now and then, which is where a count could be lost
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-5 + turn % 60 * 1e-6)
        for y in many.values():
            y.neg()
    except Boom:
        pass
on = False
signal.setitimer(signal.ITIMER_REAL, 0)
before = device.METER.snapshot()
for y in many.values():
    y.neg()
after = device.METER.snapshot() - before
sticks = sum(-(-4 * n // 128) for n in sizes)
assert (after.kernels, after.sticks, after.bytes_read) == (39, 2 * sticks, 128 * sticks), (after, sticks)
"""


def test_handlers_of_signals_that_raise_lose_no_label_and_no_count_for_good() -> None:
    done = subprocess.run([sys.executable, "-c", RAISING], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]


def test_what_is_remembered_of_lists_is_bounded() -> None:
    assert labels.FOUND.labels is not None
    loans = labels.Loans(labels.FOUND.labels)
    x = torch.ones(2, device="spyre")
    for count in range(1, 200):
        found = loans.find([[x] * count])
        assert found is not None
        tensors, sizes, _, _ = found
        assert (len(tensors), len(sizes)) == (count, 2 * count)
    assert len(loans._rows) == loans.TENSORS
    with torch.inference_mode():
        either = x, torch.ones(2, device="spyre")
    for number in range(200):
        loans.find([either[number >> shift & 1] for shift in range(8)])
    assert len(loans._rows) == loans.KINDS
    assert loans.find([]) is loans.find([torch.ones(2)]) is loans.find([torch.ones(()), x]) is None
    assert loans.find([x, torch.ones(())]) is not None
