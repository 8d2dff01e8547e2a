"""What a replay runs on: the installed torch's Python, the tests and native sources of an upstream tree."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from relay.errors import SettingsError
from relay.services.device_configs import DeviceConfigs, load_device
from selector.agents import RulesAgent
from selector.discover import DirectoryCache, Impact, Inventory, Shelf, has_tests, take
from selector.model import OpDatabase, TestId, Tree
from selector.opdb import from_json
from selector.pipeline import lifts_of
from selector.trees import DirTree, LaidTree
from selector.triage import triage
from selector.triage.engagement import Uses

OPDB_S = 300.0
POOL_FILES = (
    "test/test_autocast.py",
    "test/test_autograd.py",
    "test/test_binary_ufuncs.py",
    "test/test_complex.py",
    "test/test_decomp.py",
    "test/test_expanded_weights.py",
    "test/test_fake_tensor.py",
    "test/test_foreach.py",
    "test/test_indexing.py",
    "test/test_masked.py",
    "test/test_meta.py",
    "test/test_modules.py",
    "test/test_native_mha.py",
    "test/test_nn.py",
    "test/test_numpy_interop.py",
    "test/test_ops.py",
    "test/test_ops_fwd_gradients.py",
    "test/test_ops_gradients.py",
    "test/test_optim.py",
    "test/test_prims.py",
    "test/test_proxy_tensor.py",
    "test/test_reductions.py",
    "test/test_scatter_gather_ops.py",
    "test/test_segment_reductions.py",
    "test/test_shape_ops.py",
    "test/test_sort_and_select.py",
    "test/test_spectral_ops.py",
    "test/test_tensor_creation_ops.py",
    "test/test_testing.py",
    "test/test_torch.py",
    "test/test_type_promotion.py",
    "test/test_unary_ufuncs.py",
    "test/test_view_ops.py",
    "test/nn/test_convolution.py",
    "test/nn/test_dropout.py",
    "test/nn/test_embedding.py",
    "test/nn/test_multihead_attention.py",
    "test/nn/test_pooling.py",
)
"""Files whose tests run in one process within seconds each, on a torch newer than they are."""


def installed_torch() -> Path:
    """The folder that holds the installed torch package. Torch is not imported. SettingsError where there is none."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise SettingsError(
            "no torch is installed, so there is nothing to put faults in", "install the extra `emulator`"
        )
    return Path(spec.origin).parents[1]


def laid_tree(upstream: Path, site: Path) -> LaidTree:
    """The tree that the selector sees: upstream's tests and native sources, and the Python of the torch that runs."""
    under = DirTree(
        upstream, only=lambda path: path.startswith(("test/", "torch/", "aten/", "c10/", "tools/", "torchgen/"))
    )
    if not has_tests(under):
        raise SettingsError(f"{upstream} is not an upstream tree: it has no tests", "give the root of a checkout")
    files: dict[str, bytes | None] = {
        path: None for path in under.paths() if path.startswith("torch/") and path.endswith(".py")
    }
    files |= {path.relative_to(site).as_posix(): path.read_bytes() for path in sorted((site / "torch").rglob("*.py"))}
    return LaidTree(under, files)


@dataclass
class Ground:
    """The tree, the device and the op database; ``work`` keeps what is expensive to make again."""

    upstream: Path
    configs: Path
    work: Path
    files: tuple[str, ...] = POOL_FILES
    """test files that count; empty: all that the configs cover"""

    def __post_init__(self) -> None:
        self.work.mkdir(parents=True, exist_ok=True)
        self.cache = DirectoryCache(self.work / "cache")
        self.shelf = Shelf()
        self.site = installed_torch()

    @cached_property
    def device(self) -> DeviceConfigs:
        return load_device(self.configs)

    @cached_property
    def tree(self) -> Tree:
        return laid_tree(self.upstream, self.site)

    @cached_property
    def inventory(self) -> Inventory:
        found = take(self.tree, self.cache)
        self.shelf.latest = found
        return found

    @cached_property
    def opdb(self) -> OpDatabase:
        """Of the installed torch, exported once. SettingsError when torch cannot be used."""
        path = self.work / "opdb.json"
        if not path.exists():
            command = [sys.executable, "-m", "relay.worker.opdb", "--out", str(path)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=OPDB_S, check=False)
            if done.returncode:
                raise SettingsError(f"the op database cannot be exported: {done.stderr.strip()[-500:]}")
        return from_json(path.read_bytes())

    @cached_property
    def tests(self) -> tuple[TestId, ...]:
        """Every test that is for the device: what would run if a change reached everything."""
        configs = self.device.configs
        wanted = set(self.files)
        impacts = [
            Impact(test, (), (), 1.0)
            for test, _, _ in self.inventory.tests()
            if configs.runs(test) and (not wanted or test.file in wanted)
        ]
        sorted_out = triage(
            impacts, self.inventory, self.device.capability, self.opdb, agent=RulesAgent(),
            lifts=lambda test: lifts_of(test, configs), uses=Uses(self.tree.read, self.tree.paths(), self.cache),
        )  # fmt: skip
        return tuple(relevant.test for relevant in sorted_out.relevant)
