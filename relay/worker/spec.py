"""What a runner is told: one shard, as the lease words it (docs/worker-api.md)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from relay.errors import BadRequest
from selector.model import Runtime, RuntimeKind, TestId

MOST_REPEATS = 100


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds of wall clock, MiB of memory. ``collect_s`` is for importing one test file."""

    variant_s: float = 60.0
    shard_s: float = 900.0
    memory_mb: int = 8192
    collect_s: float = 60.0


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard to run. ``done`` and ``variants`` hold keys ``file::Class::variant``; ``variants`` None: all. ``ops``:
    the op entries to which a test is limited; tests that are not in it run with all of theirs."""

    id: str
    commit: str
    device: str
    runtime: Runtime
    capability: str
    configs: tuple[tuple[str, str], ...]
    tests: tuple[TestId, ...]
    variants: frozenset[str] | None
    done: frozenset[str]
    limits: Limits
    ops: Mapping[TestId, frozenset[str]] = field(default_factory=dict)
    repeat: int = 1
    """How often each variant runs; more than once: alone, every time in a fresh process."""
    trusted: bool = False
    """Whether the relay's rules say that the author's code may run without a complete sandbox."""

    plugin: str = ""
    """Import name of the package that registers this worker's real device; set by the worker, not by the relay."""

    nodes: tuple[str, ...] = ()
    """Names below /dev that this worker's real device needs; set by the worker, not by the relay."""

    module_packages: tuple[str, ...] = ()
    """Packages beside torch.nn whose modules the configs may name; set by the worker, not by the relay."""

    input_files: str = ""
    """Folder of the configs, in which tensors of ``init: file`` lie; set by who runs it here, never by the relay."""

    log: str = ""
    """File that what the tests print is kept in, for the relay; set by the worker. Empty: it is not kept."""

    trace: str = ""
    """File that what each test runs is written to, for the relay; set by the worker, for a lease that asks for it."""

    @property
    def files(self) -> tuple[str, ...]:
        """The test files, in the order of their first test."""
        return tuple(dict.fromkeys(test.file for test in self.tests))


def parse_shard(
    shard: Mapping[str, Any],
    done: Any = (),
    plugin: str = "",
    module_packages: Sequence[str] = (),
    log: str = "",
    trace: str = "",
    nodes: Sequence[str] = (),
) -> Shard:
    """Reads the ``shard`` of a lease. Raises BadRequest that names the key that cannot be used."""
    if not isinstance(shard, Mapping):
        raise BadRequest("the shard is not a JSON object", "docs/worker-api.md shows one")

    def need(key: str, kind: type | tuple[type, ...], default: Any = ...) -> Any:
        value = shard.get(key, default)
        if value is ... or not isinstance(value, kind):
            raise BadRequest(f"shard.{key} is missing or not of the right kind", "docs/worker-api.md shows a shard")
        return value

    def strings(key: str, values: Any) -> tuple[str, ...]:
        if not isinstance(values, (list, tuple)) or not all(isinstance(v, str) for v in values):
            raise BadRequest(f"shard.{key} is not a list of strings", "docs/worker-api.md shows a shard")
        return tuple(values)

    runtime = need("runtime", dict, {"kind": "tests-only"})
    limits = need("limits", dict, {})
    variants = shard.get("variants")
    try:
        kind = RuntimeKind(runtime.get("kind"))
        tests = tuple(TestId.parse(test) for test in strings("tests", shard.get("tests")))
        ops = {TestId.parse(t): frozenset(strings(f"ops.{t}", names)) for t, names in need("ops", dict, {}).items()}
        parsed_limits = Limits(**{k: limits[k] for k in Limits.__slots__ if k in limits})
        configs = tuple((str(c["name"]), str(c["text"])) for c in need("configs", list, []))
    except (ValueError, KeyError, TypeError) as exc:
        raise BadRequest(f"the shard cannot be read: {exc}", "docs/worker-api.md shows a shard") from exc
    repeat = need("repeat", int, 1)
    if not 1 <= repeat <= MOST_REPEATS:
        raise BadRequest(f"shard.repeat is {repeat}", f"1 to {MOST_REPEATS}")
    for test in tests:
        if test.file.startswith("/") or ".." in test.file.split("/"):
            raise BadRequest(f"shard.tests names a file outside the tree: {test.file}")
    return Shard(
        id=str(shard.get("id", "")),
        commit=str(shard.get("commit", "")),
        device=need("device", str, "spyre"),
        runtime=Runtime(kind, str(runtime.get("torch", "")), strings("runtime.files", runtime.get("files", ()))),
        capability=need("capability", str, ""),
        configs=configs,
        tests=tests,
        variants=None if variants is None else frozenset(strings("variants", variants)),
        # attempts have no keys of their own: one that was cut off runs them all again
        done=frozenset(strings("done", done) if repeat == 1 else ()),
        limits=parsed_limits,
        ops=ops,
        repeat=repeat,
        trusted=need("trusted", bool, False),
        plugin=plugin,
        module_packages=tuple(module_packages),
        log=log,
        trace=trace,
        nodes=tuple(nodes),
    )


def read_spec(text: str) -> Shard:
    """Reads a spec file: a whole lease (``{"shard": …, "done": …}``) or the shard alone."""
    try:
        value = json.loads(text)
    except ValueError as exc:
        raise BadRequest(f"the spec is not JSON: {exc}") from exc
    if isinstance(value, dict) and "shard" in value:
        return parse_shard(
            value["shard"],
            value.get("done") or (),
            str(value.get("plugin") or ""),
            [str(name) for name in value.get("module_packages") or ()],
            str(value.get("log") or ""),
            str(value.get("trace") or ""),
            [str(name) for name in value.get("nodes") or ()],
        )
    return parse_shard(value, value.get("done") or () if isinstance(value, dict) else ())
