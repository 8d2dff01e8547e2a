"""A device that a package registers, as real hardware's plugin does: a wheel of ours, installed by pip.

It keeps tensors on the host, and is as strict as a card: it begins with the first use, even with asking for its
number, and is of no use in a process that was forked after it began.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

PLUGIN = '''
import os
import torch
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend
from torch.utils.weak import WeakIdKeyDictionary

NAME = "card"
held = WeakIdKeyDictionary()  # device tensor -> what it holds, on the host
began = None


def use():
    global began
    if began is None:
        began = os.getpid()
    elif began != os.getpid():
        raise RuntimeError(f"card: it began in process {began}, of which this one was forked")


class Module:
    is_available = staticmethod(lambda: True)
    is_initialized = staticmethod(lambda: began is not None)
    device_count = staticmethod(lambda: 1)
    get_amp_supported_dtype = staticmethod(lambda: [torch.float16])
    _is_in_bad_fork = staticmethod(lambda: began not in (None, os.getpid()))
    manual_seed_all = staticmethod(lambda seed: None)

    @staticmethod
    def current_device():
        use()
        return 0


def to_card(value):
    use()
    out = torch._C._acc.create_empty_tensor(tuple(value.shape), value.dtype)
    held[out] = value
    return out


def on_host(value):
    if isinstance(value, torch.Tensor) and value.device.type == NAME:
        return held[value]
    if isinstance(value, (list, tuple)):
        return type(value)(map(on_host, value))
    return torch.device("cpu") if isinstance(value, torch.device) else value


def every_op(op, *args, **kwargs):
    use()
    given = [a for a in (*args, *kwargs.values()) if isinstance(a, torch.Tensor) and a.device.type == NAME]
    out = op(*map(on_host, args), **{k: on_host(v) for k, v in kwargs.items()})
    if not isinstance(out, torch.Tensor):
        return out
    same = [a for a in given if held[a] is out]
    return same[0] if same else to_card(out)


def copy_from(source, target, non_blocking=False):
    use()
    on_host(target).copy_(on_host(source))
    return target


def empty(size, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return to_card(torch.empty(size, dtype=dtype))


def empty_strided(size, stride, *, dtype=None, layout=None, device=None, pin_memory=None):
    return to_card(torch.empty_strided(size, stride, dtype=dtype))


_setup_privateuseone_for_python_backend(NAME, Module())
aten, everything = torch.library.Library("aten", "IMPL"), torch.library.Library("_", "IMPL")
for name, kernel in {
    "empty.memory_format": empty,
    "empty_strided": empty_strided,
    "_copy_from": copy_from,
    "_local_scalar_dense": lambda value: on_host(value).item(),
}.items():
    aten.impl(name, kernel, "PrivateUse1")
everything.fallback(every_op, "PrivateUse1")


def autoload():
    """torch calls it when it is imported: the entry point torch.backends."""
'''


def installed(tmp: Path, more: str = "") -> Path:
    """A folder of packages that pip has put the plugin into; ``more`` is what else its module does at import."""
    info = "torch_card-1.0.dist-info"
    wheel = tmp / "torch_card-1.0-py3-none-any.whl"
    files = {
        "torch_card.py": PLUGIN + more,
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: torch-card\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: ours\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[torch.backends]\ncard = torch_card:autoload\n",
    }
    with zipfile.ZipFile(wheel, "w") as packed:
        for name, text in files.items():
            packed.writestr(name, text)
        packed.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD")))
    there = tmp / "site-packages"
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", there, wheel]
    subprocess.run([*map(str, command)], check=True, timeout=120)
    return there
