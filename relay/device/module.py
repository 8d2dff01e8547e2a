"""``torch.spyre``: the device module that torch's own helpers (amp, fork_rng, accelerator, tests) look things up in."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch

from relay.device import streams
from relay.device.memory import NAME
from relay.device.meter import METER
from relay.device.policy import CURRENT


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """``torch.spyre.get_device_properties()``; sizes in bytes."""

    name: str
    cores: int
    scratchpad_bytes_per_core: int
    stick_bytes: int
    total_memory: int


class DeviceContext:
    """``with torch.spyre.device(0)``: there is one device."""

    def __init__(self, device: Any = None) -> None:
        self.idx = _index(device)

    def __enter__(self) -> DeviceContext:
        return self

    def __exit__(self, *exc: object) -> None:
        return None


def _index(device: Any) -> int:
    """The index that ``device`` names; RuntimeError if there is no such device."""
    if device is None:
        return 0
    index = device if isinstance(device, int) else torch.device(device).index
    if index not in (None, 0, -1):
        raise RuntimeError(f"{NAME}: invalid device ordinal {index}; there is one device, {NAME}:0")
    return 0


def _checked(value: Any = None) -> None:
    _index(value)


# Kernels draw from the CPU's default generator, so that one is the device's default too.


def _rng_state(device: Any = NAME) -> torch.Tensor:
    _index(device)
    return torch.default_generator.get_state()


def _set_rng_state(state: torch.Tensor, device: Any = NAME) -> None:
    _index(device)
    torch.default_generator.set_state(state.cpu())


def _seed() -> int:
    return int(torch.default_generator.seed())


def _manual_seed(seed: int) -> None:
    torch.default_generator.manual_seed(int(seed))


def _properties(device: Any = None) -> DeviceProperties:
    _index(device)
    machine = METER.machine
    return DeviceProperties(
        name="Spyre (emulated)",
        cores=int(machine.cores),
        scratchpad_bytes_per_core=int(machine.scratchpad_bytes),
        stick_bytes=int(machine.stick_bytes),
        total_memory=int(machine.memory_bytes),
    )


def _amp_dtypes() -> list[torch.dtype]:
    """Half precisions that the policy in force can hold."""
    policy = CURRENT.policy
    halves = (torch.float16, torch.bfloat16)
    return [d for d in halves if policy.dtypes is None or str(d).removeprefix("torch.") in policy.dtypes]


def make_module() -> ModuleType:
    """The module object, to be registered as ``torch.spyre``."""
    module = ModuleType(f"torch.{NAME}", "The emulated Spyre accelerator.")
    functions: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "_is_compiled": lambda: True,
        # An emulated device lives on in a forked child; real hardware does not.
        "_is_in_bad_fork": lambda: False,
        "init": lambda: None,
        "_lazy_init": lambda: None,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": _checked,
        "_exchange_device": _index,
        "_maybe_exchange_device": _index,
        "exchange_device": _index,
        "maybe_exchange_device": _index,
        "synchronize": _checked,
        "device": DeviceContext,
        "empty_cache": lambda: None,
        "Stream": streams.Stream,
        "Event": streams.Event,
        "StreamContext": streams.StreamContext,
        "stream": streams.StreamContext,
        "current_stream": streams.current_stream,
        "default_stream": streams.default_stream,
        "set_stream": streams.set_stream,
        "default_generators": (torch.default_generator,),
        "manual_seed": _manual_seed,
        "manual_seed_all": _manual_seed,
        "seed": _seed,
        "seed_all": _seed,
        "initial_seed": lambda: torch.default_generator.initial_seed(),
        "get_rng_state": _rng_state,
        "set_rng_state": _set_rng_state,
        "get_rng_state_all": lambda: [_rng_state()],
        "set_rng_state_all": lambda states: _set_rng_state(states[0]),
        "get_amp_supported_dtype": _amp_dtypes,
        "get_device_properties": _properties,
        "get_device_name": lambda device=None: _properties(device).name,
        "get_device_capability": lambda device=None: (1, 0),
        "meter": METER,
    }
    for name, value in functions.items():
        setattr(module, name, value)
    return module
