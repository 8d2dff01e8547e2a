"""The device across processes: forks, crashes, a second backend. Each runs in an interpreter of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: nothing of the emulated device is tested here")

pytestmark = pytest.mark.torch


def run(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )


def test_children_of_one_install_run_and_the_parent_reads_their_meter() -> None:
    done = run("""
        import os, signal
        import relay.device as device
        shared = device.new_meter_map()
        device.install(meter_map=shared)
        import torch
        def child(body):
            before = device.read_snapshot(shared)
            pid = os.fork()
            if pid == 0:
                try:
                    body()
                finally:
                    os._exit(0)
            _, status = os.waitpid(pid, 0)
            return status, device.read_snapshot(shared) - before
        def works():
            x = torch.ones(3, 3, device="spyre", requires_grad=True)
            (x @ x).sum().backward()          # autograd starts its device thread in the child
            torch.ones(2).pin_memory()
        def touches_nothing():
            torch.ones(3) + 1
        def dies():
            torch.ones(3, device="spyre") + 1
            os.kill(os.getpid(), signal.SIGKILL)
        status, spent = child(works)
        assert (status, spent.engaged) == (0, True), (status, spent)
        status, spent = child(touches_nothing)
        assert (status, spent.kernels) == (0, 0), (status, spent)
        status, spent = child(dies)
        assert (status, spent.kernels) == (signal.SIGKILL, 2), (status, spent)
        assert "spyre" in str(torch.device("spyre"))
    """)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_meter_can_be_read_without_torch() -> None:
    done = run("""
        import sys
        import relay.device as device
        device.read_snapshot(device.new_meter_map())
        assert not device.installed()
        assert "torch" not in sys.modules
    """)
    assert done.returncode == 0, done.stderr


def test_another_backend_under_the_name_is_an_error_that_says_so() -> None:
    done = run("""
        import torch
        torch.utils.rename_privateuse1_backend("other")
        import relay.device as device
        try:
            device.install()
        except device.DeviceError as error:
            assert "'other'" in str(error), error
        else:
            raise SystemExit("installed over another backend")
        assert not device.installed()
    """)
    assert done.returncode == 0, done.stderr


def test_a_late_install_warns_and_an_early_comparing_is_refused() -> None:
    done = run("""
        import warnings
        import relay.device as device
        try:
            device.comparing()
        except device.DeviceError:
            pass
        else:
            raise SystemExit("comparing() without install()")
        import torch.testing._internal.common_utils
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            device.install()
        assert any("common_utils was imported before" in str(w.message) for w in heard), heard
    """)
    assert done.returncode == 0, done.stderr


def test_what_is_prepared_is_known_before_its_first_call_and_gives_the_same() -> None:
    done = run("""
        import relay.device as device
        try:
            device.prepare()
        except device.DeviceError as error:
            assert "came before" in str(error), error
        else:
            raise SystemExit("prepare() without install()")
        device.install()
        import torch
        from relay.device import plan
        before = len(plan._plans)
        device.prepare()
        known = len(plan._plans)
        assert known > before + 300, (before, known)
        x = torch.tensor([3.0, 1.0], device="spyre")
        assert x.sort().values.tolist() == [1.0, 3.0]
        assert torch.unique(x).tolist() == [1.0, 3.0]
        assert x.uniform_(2, 3).min().item() >= 2
        assert len(plan._plans) == known
        device.prepare()
        assert len(plan._plans) == known
    """)
    assert done.returncode == 0, done.stderr


def test_tensors_alive_at_exit_and_in_flight_do_not_crash_the_interpreter() -> None:
    done = run("""
        import relay.device as device
        device.install()
        import torch
        keep = [torch.ones(100, device="spyre").t() for _ in range(100)]
        keep.append(keep[0].untyped_storage())
        class Holder:
            pass
        Holder.tensor = torch.ones(3, device="spyre", requires_grad=True)
        for _ in range(200):
            try:
                torch.ones(3, device="spyre") @ torch.ones(4, device="spyre")
            except RuntimeError:
                pass
    """)
    assert (done.returncode, done.stderr) == (0, "")


def test_memory_is_given_back() -> None:
    done = run("""
        import resource
        import relay.device as device
        device.install()
        import torch
        def churn(n):
            for _ in range(n):
                x = torch.empty(1 << 18, device="spyre")       # 1 MB each
                y = (x + 1).cpu()
                z = y.to("spyre").view(512, 512).t().contiguous()
                try:
                    z + torch.empty(3, device="spyre")
                except RuntimeError:
                    pass
        churn(20)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        churn(300)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < 50_000, f"{grown} KiB"
    """)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor's C++ code generator needs g++, which is not on PATH")
def test_inductor_compiles_for_the_device(tmp_path: Path) -> None:
    script = tmp_path / "compiled.py"
    script.write_text(
        textwrap.dedent("""
        import relay.device as device
        device.install()
        import torch
        from relay.device.inductor import enable_inductor
        enable_inductor()
        enable_inductor()
        x = torch.randn(8, device="spyre", requires_grad=True)
        y = torch.compile(lambda t: (t * 2).sin() + 1)(x)
        torch.testing.assert_close(y.cpu(), (x.cpu() * 2).sin() + 1)
        y.sum().backward()
        torch.testing.assert_close(x.grad.cpu(), 2 * (x.detach().cpu() * 2).cos())
    """)
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    environment["PYTHONPATH"] = str(Path(__file__).parents[3])
    command = [sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert done.returncode == 0, done.stderr
