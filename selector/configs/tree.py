"""The parsed file: suites, file entries, test entries, items. Built by ``schema``, asked by ``rules``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from selector.configs.model import Place, Precision
from selector.configs.patterns import NamePattern, PathPattern
from selector.model import Mode


@dataclass(frozen=True, slots=True)
class Why:
    """The reason an entry or an item carries with it."""

    reason: str = ""
    issue: str = ""
    evidence: str = ""
    until: str = ""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Arguments of one call, as specs of the format: maps, lists and scalars. Nothing is built from them here."""

    place: Place
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Item:
    """A named thing: an op, a dtype, a module. ``dtypes`` None: not limited."""

    name: str
    place: Place
    why: Why = Why()
    force_xfail: bool = False
    precision: Precision | None = None
    dtypes: tuple[Item, ...] | None = None
    inputs: tuple[Inputs, ...] = ()
    """of an op, or of a module's ``forward``: each one call"""
    constructor: Inputs | None = None
    module_path: str = ""
    """where a module's class lies, when it is in no database"""


@dataclass(frozen=True, slots=True)
class Edits:
    include: tuple[Item, ...] = ()
    exclude: tuple[Item, ...] = ()


@dataclass(frozen=True, slots=True)
class Selector:
    """One item of ``selectors.include`` or ``.exclude``: everything that it names must hold (RFC 1287, 5.4).

    ``name_patterns`` and ``module_patterns`` are globs over the method's base name and the file's path.
    """

    place: Place
    has_ops: bool | None = None
    ops_in_supported: bool | None = None
    markers: tuple[str, ...] = ()
    decorators: tuple[str, ...] = ()
    name_patterns: tuple[str, ...] = ()
    module_patterns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Selectors:
    """Which of an entry's tests run: one of ``include`` holds (or there is none), and none of ``exclude`` does."""

    include: tuple[Selector, ...] = ()
    exclude: tuple[Selector, ...] = ()


@dataclass(frozen=True, slots=True)
class TestEntry:
    """One item of ``tests``."""

    __test__ = False

    place: Place
    names: tuple[NamePattern, ...]
    mode: Mode = Mode.MANDATORY_SUCCESS
    why: Why = Why()
    tags: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    no_grad: bool = False
    ops: Edits = Edits()
    dtypes: Edits = Edits()
    modules: Edits = Edits()
    cpu_move: tuple[str, ...] = ()
    selectors: Selectors = Selectors()
    bypass: tuple[str, ...] = ()
    """device types whose restrictions (``@onlyCUDA``, ``only_for``) do not keep this device out"""
    inputs: tuple[Inputs, ...] = ()
    """``edits.inputs``: what the tests' ops or modules are called with"""
    platforms: tuple[str, ...] = ()
    """machine architectures that the entry is about; none: every one"""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One item of ``files``."""

    place: Place
    path: PathPattern
    unlisted: Mode = Mode.SKIP
    tests: tuple[TestEntry, ...] = ()
    labels: tuple[str, ...] = ()
    allow_empty: bool = False
    why: Why = Why()
    bypass: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Globals:
    """The ``global`` block. None: no filter."""

    dtypes: tuple[Item, ...] | None = None
    ops: tuple[Item, ...] | None = None
    modules: tuple[Item, ...] | None = None
    seed: int | None = None
    seed_place: Place | None = None
    devices: tuple[str, ...] = ()
    """device types that tests are generated for beside this one"""
    op_precision: tuple[Item, ...] = ()
    """tolerances of the dtypes of ops, which filter nothing"""


@dataclass(frozen=True, slots=True)
class Suite:
    """One config, with what it extends merged in."""

    source: str
    files: tuple[FileEntry, ...]
    globals: Globals = field(default_factory=Globals)
    labels: tuple[str, ...] = ()
    allow_empty: bool = False
