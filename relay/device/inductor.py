"""``torch.compile(backend="inductor")`` on the device, through inductor's C++ code generator. Needs g++ at run time."""

from __future__ import annotations

from typing import Any

from relay.device.memory import NAME
from relay.device.words import CPU

_enabled = False


def enable_inductor() -> None:
    """Register the device with inductor. Idempotent; imports dynamo and inductor (about a second)."""
    global _enabled
    if _enabled:
        return
    import torch._inductor.config as config
    from torch._dynamo.device_interface import CpuInterface, register_interface_for_device
    from torch._inductor.codegen.common import register_backend_for_device, register_device_op_overrides
    from torch._inductor.codegen.cpp import CppScheduling
    from torch._inductor.codegen.cpu_device_op_overrides import CpuDeviceOpOverrides
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen

    class Wrapper(PythonWrapperCodegen):  # type: ignore[misc]
        """Calls kernels as CPU kernels: the memory is the host's."""

        def _generate_kernel_call_helper(self, name: Any, call_args: Any, *, device: Any = None, **rest: Any) -> Any:
            return super()._generate_kernel_call_helper(name, call_args, device=CPU, **rest)

        @staticmethod
        def create(is_subgraph: bool, subgraph_name: Any, parent_wrapper: Any, partition_signatures: Any = None) -> Any:
            if is_subgraph:
                return PythonWrapperCodegen.create(is_subgraph, subgraph_name, parent_wrapper, partition_signatures)
            return Wrapper()

    class Interface(CpuInterface):  # type: ignore[misc]
        """One device, always there."""

        is_available = staticmethod(lambda: True)
        current_device = staticmethod(lambda: 0)
        set_device = staticmethod(lambda device: None)
        device_count = staticmethod(lambda: 1)

    register_backend_for_device(NAME, CppScheduling, Wrapper)
    register_device_op_overrides(NAME, CpuDeviceOpOverrides())
    for name in (NAME, f"{NAME}:0"):
        register_interface_for_device(name, Interface)
    # The C++ scheduler asks for the device type "cpu" when it reorders loops.
    config.loop_reindexing_after_fusion = config.loop_ordering_after_fusion = False
    _enabled = True
