"""The words that all four stages share: ids, changes, decisions, plans, results, verdicts.

Everything here is an immutable value without behaviour of its own beyond parsing and printing. A *test* is a method
of a class in a source file and is known without importing anything; a *variant* is one generated test method (test x
op x dtype x parametrisation) and exists only after import.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from selector.words import FAILED as FAILED
from selector.words import Conclusion as Conclusion
from selector.words import Mode as Mode
from selector.words import Outcome as Outcome
from selector.words import RuntimeKind as RuntimeKind
from selector.words import Side as Side
from selector.words import Stage as Stage


@dataclass(frozen=True, slots=True, order=True)
class TestId:
    """``test/test_x.py::TestFoo::test_bar``: a test method of a source file, upstream's own name for it."""

    __test__ = False  # pytest: not a test class

    file: str
    cls: str
    method: str

    def __str__(self) -> str:
        return f"{self.file}::{self.cls}::{self.method}"

    @classmethod
    def parse(cls, text: str) -> TestId:
        """Reads ``file::Class::method``. Raises ValueError that names the text when a part is missing."""
        parts = text.split("::")
        if len(parts) != 3 or not all(parts):
            raise ValueError(f"not a test id (file::Class::method): {text!r}")
        return cls(*parts)


# ------------------------------------------------------------------------------------------------- trees and changes


class Tree(Protocol):
    """One commit's files. Paths are relative, with forward slashes. Reading a path that is not there: KeyError."""

    def paths(self) -> dict[str, str]:
        """path -> content id (any string equal only for equal content, for example git's blob id)."""
        ...

    def read(self, path: str) -> bytes: ...


ChangeStatus = Literal["added", "modified", "removed", "renamed"]


@dataclass(frozen=True, slots=True)
class FileChange:
    """One path that differs between base and head. ``old``/``new`` are None where the side does not exist.

    ``binary`` is set when either side holds a NUL byte; ``submodule`` when the path is a gitlink (then both contents
    are the commit ids as text).
    """

    path: str
    status: ChangeStatus
    old_path: str | None = None
    old: bytes | None = None
    new: bytes | None = None
    binary: bool = False
    submodule: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """A pull request (or any base..head) as the selector sees it. Title and body are upstream text: data only."""

    base: str
    head: str
    files: tuple[FileChange, ...]
    title: str = ""
    body: str = ""


# --------------------------------------------------------------------------------------------------------- decisions


@dataclass(frozen=True, slots=True)
class Evidence:
    """One checkable fact behind a decision.

    ``kind`` is a stable word (``edited-test``, ``helper``, ``op``, ``import``, ``capability``, ``config``, ...);
    ``detail`` a sentence; ``path``/``line``/``symbol`` point at the place where there is one (1-based line, in head).
    """

    kind: str
    detail: str
    path: str | None = None
    line: int | None = None
    symbol: str | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What a stage decided about one subject, and why.

    ``subject`` is a test id, a path or ``"change"``; ``verdict`` the decision's word (stage 1: impacted; stage 2:
    relevant, irrelevant, ask; stage 3: planned, left-out; stage 4: an outcome or a conclusion); ``code`` the stable
    reason code, listed in docs/reason-codes.md; ``confidence`` 0..1; ``by`` who decided (rules, model, critic).
    """

    stage: Stage
    subject: str
    verdict: str
    code: str
    reason: str
    evidence: tuple[Evidence, ...] = ()
    confidence: float = 1.0
    by: str = "rules"


# --------------------------------------------------------------------------------------------------------- op database


@dataclass(frozen=True, slots=True)
class OpEntry:
    """One OpInfo of a torch's own op database, as exported by a worker (``python -m relay.worker.opdb``).

    ``lists`` names the databases it appears in (op_db, unary_ufuncs, binary_ufuncs, reduction_ops, shape_funcs,
    python_ref_db, ...); ``aten`` the aten operator's base name where known; ``kernel`` the operator that a device is
    asked for (``""``: not known, or it runs as others, and only running it shows which); ``ref`` the dotted name of the
    Python reference (``torch._refs.logit``) for python_ref_db entries; ``dtypes`` those OpInfo declares for a non-CPU
    device.
    """

    name: str
    variant: str = ""
    aten: str = ""
    lists: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    ref: str = ""
    aliases: tuple[str, ...] = ()
    kernel: str = ""


@dataclass(frozen=True, slots=True)
class OpDatabase:
    """The op database of one torch version. ``modules`` are the names of its module database."""

    torch: str
    ops: tuple[OpEntry, ...]
    modules: tuple[str, ...] = ()


# ---------------------------------------------------------------------------------------------------------------- plan


@dataclass(frozen=True, slots=True)
class NotExercised:
    """A changed path that the chosen runtime does not contain, with the reason; keeps a verdict from being success."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Runtime:
    """The torch that will run: ``files`` are the changed Python files laid over the installed package (overlay)."""

    kind: RuntimeKind
    torch: str
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedTest:
    """A test that will run. ``mode``: how it is expected to come out, and ``mode_code`` who says so; ``codes`` are the
    discover codes that selected it, strongest first; ``ops``: the entries of the op database to which the change
    reaches it, and so its variants are limited (empty: all of its variants)."""

    test: TestId
    mode: Mode
    priority: float
    est_seconds: float
    codes: tuple[str, ...]
    config: str = ""
    ops: tuple[str, ...] = ()
    mode_code: str = "plan-mode-default"


@dataclass(frozen=True, slots=True)
class ShardSpec:
    """Tests that run together on one worker, in order."""

    index: int
    tests: tuple[TestId, ...]
    est_seconds: float


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A relevant test that the budget had no room for."""

    test: TestId
    est_seconds: float
    reason: str


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What stage 3 hands to the workers."""

    runtime: Runtime
    tests: tuple[PlannedTest, ...]
    shards: tuple[ShardSpec, ...]
    partial: bool = False
    left_out: tuple[LeftOut, ...] = ()
    not_exercised: tuple[NotExercised, ...] = ()


@dataclass(frozen=True, slots=True)
class OnTrial:
    """What a rule or a model of ``stage`` that is not in force would have decided otherwise. ``subject``:
    ``rule:<name>`` or ``model:<name>``; ``adds``: tests that it would have kept and what is in force did not;
    ``drops``: the reverse; ``decisions``: the first of both, with their reasons; ``error``: why it gave no answer."""

    subject: str
    stage: Stage
    adds: tuple[TestId, ...] = ()
    drops: tuple[TestId, ...] = ()
    decisions: tuple[Decision, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class Shadow:
    """What was evaluated and not acted upon. ``orders``: by ranker, the one in force included, the tests that it would
    run, in its order; ``seconds`` that each is thought to cost; ``opinions`` of rules and models; ``seen``: what
    rankers saw of each planned test, in the order of `selector.plan.ranking.SEEN`."""

    orders: Mapping[str, tuple[TestId, ...]] = field(default_factory=dict)
    seconds: Mapping[TestId, float] = field(default_factory=dict)
    opinions: tuple[OnTrial, ...] = ()
    seen: Mapping[TestId, tuple[float | None, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Selection:
    """Everything the first three stages found about a change."""

    change: Change
    plan: RunPlan
    decisions: tuple[Decision, ...]
    counts: dict[str, int] = field(default_factory=dict)
    """stable keys: files, tests, impacted, native_files, native_impacted (those that a change to native code reaches),
    relevant, irrelevant, ask, planned, left_out, est_variants"""
    timings: dict[str, float] = field(default_factory=dict)
    """seconds per stage: inventory, discover, triage, plan"""
    warnings: tuple[str, ...] = ()
    shadow: Shadow = field(default_factory=Shadow)


# -------------------------------------------------------------------------------------------------------------- verify


@dataclass(frozen=True, slots=True)
class VariantResult:
    """One line that a runner wrote about one variant.

    ``variant`` is the generated method name with the device's name in it (``test_bar_add_spyre_float32``); ``kernels``
    how many device kernels ran (0: the test never touched the device), None when not metered; ``modelled_us`` the
    emulator's estimate; ``message`` the first lines of the failure; ``mode`` what the config expected; ``attempt``
    which repeat of a re-run it is, from 0; ``worker`` and ``lab`` where it ran ("" where nobody said); ``log_fault``
    the environment fault that the end of its log told of, where ``log_tail`` itself is not at hand.
    """

    test: TestId
    variant: str
    outcome: Outcome
    mode: Mode = Mode.MANDATORY_SUCCESS
    side: Side = Side.HEAD
    seconds: float = 0.0
    kernels: int | None = None
    modelled_us: float | None = None
    op: str | None = None
    dtype: str | None = None
    message: str | None = None
    log_tail: str | None = None
    reason: str | None = None
    attempt: int = 0
    worker: str = ""
    lab: str = ""
    log_fault: str | None = None

    @property
    def key(self) -> str:
        """``file::Class::variant``, what a person passes to pytest."""
        return f"{self.test.file}::{self.test.cls}::{self.variant}"


FailureKind = Literal[
    "regression",
    "conflict",
    "unconfirmed",
    "infrastructure",
    "device-limit",
    "flaky",
    "broken-on-trunk",
    "pre-existing",
]
"""In the order in which a verdict shows them. Only a regression is the change's fault; an unconfirmed one may be"""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why one variant failed, in the verdict. ``changes`` are ``path`` or ``path:symbol``, from the selection."""

    key: str
    test: TestId
    kind: FailureKind
    outcome: Outcome
    message: str
    codes: tuple[str, ...]
    changes: tuple[str, ...]
    why_selected: str


@dataclass(frozen=True, slots=True)
class CauseGroup:
    """Failures with one cause: ``title`` is the normalised message, ``frame`` the innermost place of upstream's own
    code in the stack ("" where no stack came along), ``keys`` the failing variants."""

    id: str
    kind: FailureKind
    title: str
    frame: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer on the pull request. ``code`` is stable, ``sentence`` is the one line people read."""

    conclusion: Conclusion
    code: str
    sentence: str
    counts: dict[str, int]
    """outcomes by name, and engaged, unengaged, unproven"""
    causes: tuple[Cause, ...] = ()
    not_exercised: tuple[NotExercised, ...] = ()
    decisions: tuple[Decision, ...] = ()
    warnings: tuple[str, ...] = ()
    groups: tuple[CauseGroup, ...] = ()
