"""Which faults a replay puts in: drawn by a seed from all that an upstream tree has room for.

A function first, then the kind that it has room for and that was drawn least, then a place: neither long functions nor
frequent kinds get more than their share.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from selector.errors import TreeError
from selector.model import Tree
from selector.replay import entries, mutate, native
from selector.replay.model import NATIVE_KINDS, Fault
from selector.replay.mutate import Place

AREAS: Mapping[str, tuple[str, ...]] = {
    "decompositions": ("torch/_decomp/decompositions.py", "torch/_decomp/decompositions_for_jvp.py"),
    "references": (
        "torch/_refs/__init__.py",
        "torch/_refs/fft.py",
        "torch/_refs/linalg/__init__.py",
        "torch/_refs/nn/functional/__init__.py",
        "torch/_refs/special/__init__.py",
    ),
    "primitives": (
        "torch/_prims/__init__.py",
        "torch/_prims_common/__init__.py",
        "torch/_prims_common/wrappers.py",
        "torch/_meta_registrations.py",
    ),
    "functional": ("torch/functional.py", "torch/nn/functional.py"),
    "modules": ("torch/nn/modules/", "torch/nn/utils/", "torch/nn/init.py", "torch/nn/parameter.py"),
    "opinfo": ("torch/testing/_internal/common_methods_invocations.py", "torch/testing/_internal/opinfo/"),
    "tensor": ("torch/_tensor.py", "torch/_linalg_utils.py", "torch/_lowrank.py", "torch/autograd/", "torch/optim/"),
}
"""Area -> files and folders of it."""
QUOTAS: Mapping[str, int] = {
    "decompositions": 60,
    "references": 70,
    "primitives": 40,
    "functional": 60,
    "modules": 70,
    "opinfo": 40,
    "tensor": 30,
    "entries": 30,
    "native": 100,
}
"""Faults an area: of all that are drawn many are in code that no test of a pool reaches."""


def draw(tree: Tree, seed: str, quotas: Mapping[str, int] = QUOTAS) -> list[Fault]:
    """The faults, in an order that mixes areas: any prefix of it is a fair sample.

    The same tree, seed and quotas give the same faults. TreeError when an area that is asked for has no place.
    """
    found: list[Fault] = []
    for area, count in quotas.items():
        drawn = _of(tree, area, random.Random(f"{seed} {area}"), count) if count else []
        if count and not drawn:
            raise TreeError(
                f"the tree has no place for a fault of the area {area!r}", "give the root of an upstream tree"
            )
        found += drawn
    found.sort(key=lambda fault: fault.id)
    random.Random(f"{seed} order").shuffle(found)
    return found


def _of(tree: Tree, area: str, rng: random.Random, count: int) -> list[Fault]:
    if area == "native":
        return _native(tree, rng, count)
    if area == "entries":
        return _entries(tree, rng, count)
    return _python(tree, area, rng, count)


def _files(tree: Tree, area: str) -> list[str]:
    wanted = AREAS[area]
    folders = tuple(path for path in wanted if path.endswith("/"))
    paths = sorted(path for path in tree.paths() if path.endswith(".py"))
    return [path for path in paths if path in wanted or path.startswith(folders)]


def _python(tree: Tree, area: str, rng: random.Random, count: int) -> list[Fault]:
    by_function: dict[tuple[str, str], dict[str, list[Place]]] = defaultdict(lambda: defaultdict(list))
    for path in _files(tree, area):
        for place in mutate.places(tree.read(path)):
            by_function[path, place.symbol][place.kind].append(place)
    functions = sorted(by_function)
    rng.shuffle(functions)
    found: list[Fault] = []
    drawn: Counter[str] = Counter()
    for path, symbol in functions:
        if len(found) == count:
            break
        kinds = by_function[path, symbol]
        kind = min(sorted(kinds), key=lambda k: (drawn[k], rng.random()))
        drawn[kind] += 1
        place = rng.choice(kinds[kind])
        found.append(Fault(place.kind, area, path, symbol, place.line, place.edit))
    return found


def _entries(tree: Tree, rng: random.Random, count: int) -> list[Fault]:
    found = [(path, place) for path in _files(tree, "opinfo") for place in entries.places(tree.read(path))]
    drawn = rng.sample(found, min(count, len(found)))
    return [Fault("entry-flag", "entries", p, at.symbol, at.line, at.edit, flag=at.kind) for p, at in drawn]


def _native(tree: Tree, rng: random.Random, count: int) -> list[Fault]:
    sites = native.sites(tree)
    by_op: dict[str, list[native.Site]] = defaultdict(list)
    for site in sites:
        by_op[site.op].append(site)
    ops = sorted(by_op)
    rng.shuffle(ops)
    chosen = [rng.choice(by_op[op]) for op in ops[:count]]
    return native.faults(chosen, {site.op: rng.choice(NATIVE_KINDS) for site in chosen})


def by_id(faults: Sequence[Fault]) -> dict[str, Fault]:
    return {fault.id: fault for fault in faults}
