"""Which operators and dtypes a capability allows, and how refusals are told apart. No torch."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from relay.device.errors import DeviceError, UnsupportedDtype, UnsupportedLayout, UnsupportedOp, kind_of
from relay.device.policy import UNLIMITED, Policy, Verdict, current_policy, use_policy
from selector.configs.capability import load_capability

SHEET = Path(__file__).parents[3] / "test_configs" / "spyre" / "capability.yaml"


@dataclass(frozen=True)
class Sheet:
    """The part of a capability that the device reads."""

    name: str = "sheet"
    dtypes: frozenset[str] = frozenset({"float16"})
    ops: frozenset[str] | None = frozenset({"add", "mul.Scalar", "aten::_softmax"})
    fallback_ops: frozenset[str] = frozenset({"cumsum"})
    limits: Mapping[str, object] = field(default_factory=dict)
    machine: Mapping[str, float] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("name", "overload", "verdict"),
    [
        ("add", "Tensor", Verdict.KERNEL),
        ("add_", "Scalar", Verdict.KERNEL),
        ("add", "out", Verdict.KERNEL),
        ("_softmax", "default", Verdict.KERNEL),
        ("mul", "Scalar", Verdict.KERNEL),
        ("mul", "Tensor", Verdict.REFUSED),
        ("cumsum", "default", Verdict.FALLBACK),
        ("cumsum", "out", Verdict.FALLBACK),
        ("lgamma", "default", Verdict.REFUSED),
        ("__and__", "Tensor", Verdict.REFUSED),
    ],
)
def test_an_operator_is_served_as_the_sheet_says(name: str, overload: str, verdict: Verdict) -> None:
    assert Policy.from_capability(Sheet()).judge(name, overload) is verdict


def test_without_an_op_list_everything_runs_but_what_falls_back() -> None:
    policy = Policy.from_capability(Sheet(ops=None))
    assert policy.judge("lgamma", "default") is Verdict.KERNEL
    assert policy.judge("cumsum", "default") is Verdict.FALLBACK


def test_the_projects_own_sheet_makes_a_policy() -> None:
    policy = Policy.from_capability(load_capability(SHEET.read_text(), str(SHEET)))
    assert policy.judge("mm", "default") is Verdict.KERNEL
    assert policy.judge("argmax", "default") is Verdict.FALLBACK
    assert policy.judge("lgamma", "default") is Verdict.REFUSED
    assert policy.dtypes is not None
    assert "float64" not in policy.dtypes
    assert policy.machine.cores == 32


@pytest.mark.parametrize(
    ("sheet", "says"),
    [
        (Sheet(dtypes=frozenset()), "lists no dtype"),
        (Sheet(machine={"coers": 3}), "unknown machine figure 'coers'"),
        (Sheet(machine={"cores": 0}), "must be above zero"),
    ],
)
def test_a_sheet_that_makes_no_device_is_refused(sheet: Sheet, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Policy.from_capability(sheet)


def test_a_region_puts_the_policy_back_even_after_an_error() -> None:
    policy = Policy(name="narrow")
    seen = []

    def fail_inside() -> None:
        with use_policy(policy):
            seen.append(current_policy())
            raise KeyError

    with pytest.raises(KeyError):
        fail_inside()
    assert seen == [policy]
    assert current_policy() is UNLIMITED


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (UnsupportedOp("aten::lgamma.out", "spyre"), "unsupported-op"),
        (UnsupportedDtype("Double"), "unsupported-dtype"),
        (UnsupportedLayout("aten::_to_sparse", "Sparsespyre"), "unsupported-layout"),
        (DeviceError("used wrongly"), "device-misuse"),
        (NotImplementedError("Could not run 'aten::x' with arguments from the 'spyre' backend."), "unsupported-op"),
        (
            NotImplementedError("Could not run 'aten::x' with arguments from the 'Sparsespyre' backend."),
            "unsupported-layout",
        ),
        (NotImplementedError("Could not run 'aten::x' with arguments from the 'CPU' backend."), None),
        (RuntimeError("shapes do not match"), None),
    ],
)
def test_refusals_are_told_from_failures(error: Exception, kind: str | None) -> None:
    assert kind_of(error) == kind
    wrapped = RuntimeError("Caused by sample input 3")
    wrapped.__cause__ = error
    assert kind_of(wrapped) == kind


@pytest.mark.parametrize(
    "error", [UnsupportedOp("aten::a", "spyre"), UnsupportedDtype("Double"), UnsupportedLayout("b", "c")]
)
def test_refusals_survive_pickling(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_the_wording_is_the_dispatchers_and_the_plugins() -> None:
    assert str(UnsupportedOp("aten::lgamma.out", "spyre")).startswith(
        "Could not run 'aten::lgamma.out' with arguments from the 'spyre' backend."
    )
    assert isinstance(UnsupportedOp("a", "b"), NotImplementedError)
    assert str(UnsupportedDtype("Double")) == "Spyre backend does not support dtype Double"
