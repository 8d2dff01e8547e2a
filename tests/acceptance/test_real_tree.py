"""A PyTorch tree that no one here wrote, from its inventory to verdicts on pull requests.

The tree is the distribution's source package (tests/pytorch_source.py); without it every test here is skipped. Its
tests are of another release than the torch that runs them: what fails for that fails on both sides.
"""

from __future__ import annotations

import ast
import difflib
import html
import json
import os
import re
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from demo_run import DemoRun

from relay.services.device_configs import load_device

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "test_configs" / "spyre"
VIEWS, SHAPES, INDEXING = (f"test/test_{name}.py" for name in ("view_ops", "shape_ops", "indexing"))
REFS = "torch/_refs/__init__.py"
OPINFOS = "torch/testing/_internal/common_methods_invocations.py"
LERP = "aten/src/ATen/native/cpu/LerpKernel.cpp"
CORE = "c10/core/TensorImpl.cpp"
SORTING = "aten/src/ATen/native/SortingUtils.h"
VIEW_SCRIPT = "tools/autograd/gen_inplace_or_view_type.py"
VARIABLE_SCRIPT = "tools/autograd/gen_variable_type.py"
METAS = "torch/_meta_registrations.py"

Edit = Callable[[str], str]
"""A file's text to the same with one thing changed; the place is found in the tree at hand, no line of it is here."""


def one(text: str, wanted: Callable[[ast.AST], bool], within: str | None = None) -> Any:
    """The first node that fits, in the order of the text; ``within``: of the function or class of that name."""
    top = ast.parse(text) if within is None else one(text, lambda n: getattr(n, "name", None) == within)
    fitting: Iterator[Any] = (node for node in ast.walk(top) if hasattr(node, "lineno") and wanted(node))
    return min(fitting, key=lambda node: (node.lineno, node.col_offset))


def put(text: str, start: tuple[int, int], end: tuple[int, int], new: str) -> str:
    """The text with ``new`` between two places (line from 1, column in bytes)."""
    lines = text.encode().splitlines(keepends=True)
    before = b"".join(lines[: start[0] - 1]) + lines[start[0] - 1][: start[1]]
    return (before + new.encode() + lines[end[0] - 1][end[1] :] + b"".join(lines[end[0] :])).decode()


def instead(text: str, node: Any, new: str) -> str:
    return put(text, (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset), new)


def factors_swapped(function: str) -> Edit:
    """In the function's first product, with the same result."""

    def edit(text: str) -> str:
        node = one(text, lambda n: isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mult), function)
        left, right = (ast.get_source_segment(text, side) for side in (node.left, node.right))
        return instead(text, node, f"{right} * {left}")

    return edit


def number_raised(function: str) -> Edit:
    """The function's first whole number above one, by two."""

    def edit(text: str) -> str:
        node = one(text, lambda n: isinstance(n, ast.Constant) and type(n.value) is int and n.value > 1, function)
        return instead(text, node, str(node.value + 2))

    return edit


def entry_rewritten(op: str) -> Edit:
    """The op database's entry of an op: its first string among the keywords is made by a call."""

    def is_entry(n: ast.AST) -> bool:
        made = isinstance(n, ast.Call) and getattr(n.func, "id", "") in ("OpInfo", "UnaryUfuncInfo")
        return made and bool(n.args) and getattr(n.args[0], "value", None) == op

    def edit(text: str) -> str:
        values = [keyword.value for keyword in one(text, is_entry).keywords]
        node = next(v for v in values if isinstance(v, ast.Constant) and isinstance(v.value, str))
        return instead(text, node, f"str({node.value!r})")

    return edit


def statement_first(name: str) -> Edit:
    """A statement at the head of the function or class."""

    def edit(text: str) -> str:
        first = one(text, lambda n: getattr(n, "name", None) == name).body[0]
        line = min((d.lineno for d in getattr(first, "decorator_list", ())), default=first.lineno)
        return put(text, (line, 0), (line, 0), " " * first.col_offset + "edited = True\n\n")

    return edit


def native_statement_first(function: str) -> Edit:
    """The same for a C++ function that is defined in the file."""

    def edit(text: str) -> str:
        return re.sub(rf"(\b{function}\([^;{{}}]*\{{)", r"\1\n  constexpr int edited = 1;", text, count=1)

    return edit


def named_in(collection: str, op: str) -> Edit:
    """One more string in a module's set of names."""

    def edit(text: str) -> str:
        def wanted(n: ast.AST) -> bool:
            return isinstance(n, ast.Assign) and getattr(n.targets[0], "id", "") == collection

        first = one(text, wanted).value.elts[0]
        return put(text, (first.lineno, first.col_offset), (first.lineno, first.col_offset), f'"{op}",\n    ')

    return edit


EDITS: dict[str, tuple[str, Edit]] = {
    "reference": (REFS, factors_swapped("addcdiv")),
    "helper": (VIEWS, number_raised("_make_tensor")),
    "opinfo": (OPINFOS, entry_rewritten("sigmoid")),
    "kernel": (LERP, native_statement_first("lerp_tensor_kernel")),
    "core": (CORE, native_statement_first("release_resources")),
    "header": (SORTING, native_statement_first("_reduction_with_indices_allocate_or_resize_output")),
    "script": (VIEW_SCRIPT, statement_first("emit_view_body")),
    "list in a script": (VARIABLE_SCRIPT, named_in("DONT_REQUIRE_DERIVATIVE", "addcdiv")),
    "meta function": (METAS, statement_first("meta_addbmm")),
}


def command(*args: str, cwd: Path = ROOT) -> str:
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *args], cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def git(folder: Path, *args: str, given: str | None = None) -> str:
    who = {f"GIT_{r}_{k}": v for r in ("AUTHOR", "COMMITTER") for k, v in (("NAME", "A"), ("EMAIL", "a@example.org"))}
    env = {**os.environ, **who, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", "-C", str(folder), *args], env=env, input=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def patch(tree: Path, *edits: tuple[str, Edit]) -> str:
    """A unified diff of the edits; each must change its file."""
    before: dict[str, str] = {}
    after: dict[str, str] = {}
    for path, edit in edits:
        text = after.get(path) or (tree / path).read_text()
        before.setdefault(path, text)
        after[path] = edit(text)
        assert after[path] != text, f"{path} was not changed"
    return "".join(
        line
        for path, text in before.items()
        for line in difflib.unified_diff(
            text.splitlines(keepends=True), after[path].splitlines(keepends=True), f"a/{path}", f"b/{path}"
        )
    )


# ------------------------------------------------------------------------------------------------ inventory, selection


def test_the_inventory_of_the_whole_tree(pytorch_tree: Path, tmp_path: Path) -> None:
    said = json.loads(command("-m", "relay.cli", "inventory", str(pytorch_tree), "--json", "--cache", str(tmp_path)))
    assert (said["parsed_files"], said["test_files"], said["problems"]) == (1080, 855, [])
    assert said["test_methods"] == 24_233
    assert said["nested_methods"] == 54
    assert said["inherited_tests"] > 1_500
    assert said["made_tests"] > 8_000
    assert said["made_by_pattern"] < 30
    assert all(said["features"][name] > 100 for name in ("distributed", "inductor", "dynamo", "autograd", "sparse"))
    assert all(said["features"][name] > 100 for name in ("quantized", "profiler", "cuda"))
    assert 1_900 <= said["test_classes"] <= 1_960
    assert 210 <= said["instantiate_calls"] <= 213


@pytest.fixture(scope="module")
def selections(pytorch_tree: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What ``relay select`` says of every edit, each a branch of its own."""
    folder = tmp_path_factory.mktemp("select")
    opdb = folder / "opdb.json"
    command("-m", "relay.worker.opdb", "--out", str(opdb))
    git(folder, "clone", "--quiet", "--shared", "--no-checkout", str(pytorch_tree), "tree")
    tree = folder / "tree"
    git(tree, "read-tree", "HEAD")
    found = {}
    for name, edit in EDITS.items():
        git(tree, "read-tree", "main")
        git(tree, "apply", "--cached", given=patch(pytorch_tree, edit))
        head = git(tree, "commit-tree", git(tree, "write-tree"), "-p", "main", "-m", f"Edit a {name}")
        args = ("--upstream", str(tree), "--base", "main", "--head", head, "--opdb", str(opdb))
        args = (*args, "--cache", str(folder / "cache"))
        found[name] = json.loads(command("-m", "relay.cli", "select", *args, "--json"))
        if name in EXPLAINED:
            found[name]["explained"] = command("-m", "relay.cli", "select", *args, "--explain")
    return found


EXPLAINED = ("header", "script")


def planned(selection: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {test["test"]: test for test in selection["tests"]}


def reasons(selection: dict[str, Any], test: str) -> list[str]:
    return [
        fact["detail"]
        for decision in selection["decisions"]
        if decision["subject"] == test and decision["stage"] == "discover"
        for fact in decision["evidence"]
    ]


def test_a_changed_reference_reaches_the_tests_of_its_op(selections: dict[str, dict[str, Any]]) -> None:
    said = selections["reference"]
    tests = planned(said)
    assert said["counts"]["impacted"] < 250
    assert said["counts"]["est_variants"] < 300
    assert all("addcdiv" in " ".join(reasons(said, test)) for test in tests)
    consistency = "test/test_ops.py::TestCommon::test_python_ref"
    assert tests[consistency]["codes"] == ["op-reference"]
    assert tests[consistency]["ops"] == ["_refs.addcdiv"]
    assert any(REFS in reason for reason in reasons(said, consistency))
    assert (said["runtime"]["kind"], said["runtime"]["files"]) == ("overlay", [REFS])


def test_a_changed_helper_reaches_the_tests_that_use_it(selections: dict[str, dict[str, Any]]) -> None:
    said = selections["helper"]
    wanted = {f"{VIEWS}::TestViewOps::test_{name}" for name in ("conj_imag_view", "conj_view_with_shared_memory")}
    assert set(planned(said)) == wanted | {f"{VIEWS}::TestViewOps::test_set_real_imag"}
    for test in planned(said):
        assert reasons(said, test) == [f"reaches _make_tensor of {VIEWS}"]
    assert said["runtime"]["kind"] == "tests-only"
    assert said["not_exercised"] == []


def test_a_changed_opinfo_reaches_the_tests_that_draw_it(selections: dict[str, dict[str, Any]]) -> None:
    said = selections["opinfo"]
    tests = planned(said)
    assert said["counts"]["impacted"] < 250
    assert {op for test in tests.values() for op in test["ops"]} == {"sigmoid"}
    numerics = "test/test_unary_ufuncs.py::TestUnaryUfuncs::test_reference_numerics_normal"
    assert tests[numerics]["codes"][0] == "op-info"
    assert reasons(said, numerics) == ["op_db entry sigmoid"]
    # no test of another family draws it
    assert not [test for test in tests if test.startswith(("test/test_binary_ufuncs", "test/test_reductions"))]


def test_a_changed_kernel_reaches_its_ops_and_is_not_exercised(selections: dict[str, dict[str, Any]]) -> None:
    said = selections["kernel"]
    assert said["counts"]["impacted"] < 250
    assert all("lerp" in " ".join(reasons(said, test)) for test in planned(said))
    (item,) = said["not_exercised"]
    assert item["path"] == LERP
    assert "build" in item["reason"]


def test_what_no_rule_can_map_widens_and_says_so(selections: dict[str, dict[str, Any]]) -> None:
    said = selections["core"]
    (wide,) = [d for d in said["decisions"] if d["subject"] == "change" and d["stage"] == "discover"]
    assert (wide["verdict"], wide["code"]) == ("widened", "unmapped-change")
    assert CORE in wide["reason"]
    assert said["counts"]["impacted"] > 3_000
    assert said["partial"] == bool(said["left_out"])


def test_a_changed_header_reaches_the_kernels_that_use_it(selections: dict[str, dict[str, Any]]) -> None:
    said = selections["header"]
    assert said["counts"]["impacted"] < 250
    assert (said["counts"]["native_files"], said["counts"]["native_impacted"]) == (1, said["counts"]["impacted"])
    tests = planned(said)
    assert all("op-native-code" in test["codes"] for test in tests.values())
    ops = {op for test in tests.values() for op in test["ops"]}
    assert ops
    assert ops <= {"kthvalue", "median", "nanmedian", "mode", "sort", "topk"}
    assert SORTING in " ".join(item["path"] for item in said["not_exercised"])
    text = " ".join(said["explained"].split())
    assert f"a kernel of it uses what differs in {SORTING}" in text
    assert "It is native code, which takes effect in a build only" in text


def test_a_generating_script_widens_but_for_the_names_in_its_lists(selections: dict[str, dict[str, Any]]) -> None:
    said = selections["script"]
    assert said["counts"]["impacted"] > 3_000
    text = " ".join(said["explained"].split())
    assert "it generates code for every op" in text
    assert "generates views and in-place variants" in text
    named = selections["list in a script"]
    assert named["counts"]["impacted"] < 1_500
    assert not [d for d in named["decisions"] if d["verdict"] == "widened"]
    drawing = [test for test in planned(named).values() if "op-codegen" in test["codes"]]
    assert drawing
    assert {op for test in drawing for op in test["ops"]} == {"addcdiv", "_refs.addcdiv"}


def test_a_meta_function_reaches_the_tests_of_its_op(selections: dict[str, dict[str, Any]]) -> None:
    said = selections["meta function"]
    assert 0 < said["counts"]["impacted"] < 250
    assert said["counts"]["native_files"] == 0
    assert all("op-registered" in test["codes"] for test in planned(said).values())
    first = next(iter(planned(said)))
    assert f"meta_addbmm of {METAS} is its meta function" in " ".join(reasons(said, first))


# ---------------------------------------------------------------------------------------------------------- whole relay


def by_hand(upstream: Path, commit: str, tests: list[str], folder: Path) -> dict[str, str]:
    """``python -m relay.worker.runner`` on a checkout: key of a variant -> outcome."""
    tree = folder / "tree"
    tree.mkdir(parents=True)
    archive = ["git", f"--git-dir={upstream}", "archive", commit, "test"]
    packed = subprocess.run(archive, capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(tree)], input=packed.stdout, check=True)
    device = load_device(CONFIGS)
    shard = {
        "device": "spyre",
        "commit": commit,
        "runtime": {"kind": "tests-only", "torch": "", "files": []},
        "capability": device.capability_text,
        "configs": [{"name": c.name, "text": c.text} for c in device.texts],
        "tests": tests,
        "variants": None,
        "limits": {},
    }
    spec, out = folder / "spec.json", folder / "results.jsonl"
    spec.write_text(json.dumps(shard))
    command("-m", "relay.worker.runner", "--spec", str(spec), "--tree", str(tree), "--out", str(out))
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    return {f"{row['test'].rpartition('::')[0]}::{row['variant']}": row["outcome"] for row in rows if "outcome" in row}


def play(tree: Path, tmp_path: Path, text: str | None = None) -> DemoRun:
    """The demo on the tree, to its end; ``text``: the pull request as a unified diff."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    args = ["--once", "--port", str(port), "--upstream", str(tree)]
    if text is not None:
        (tmp_path / "pr.patch").write_text(text)
        args += ["--pr-edit", str(tmp_path / "pr.patch")]
    demo = DemoRun(tmp_path / "demo", *args)
    try:
        assert demo.finish(900) == 0, demo.said()
    finally:
        demo.stop()
    return demo


def verdict_of(demo: DemoRun) -> dict[str, Any]:
    ((conclusion, verdict),) = demo.rows("select conclusion, verdict from dispatch where executor = 'workers'")
    return {**json.loads(verdict), "conclusion": conclusion}


@pytest.mark.demo
@pytest.mark.torch
@pytest.mark.broker
def test_upstreams_own_tests_end_in_the_counts_that_running_them_by_hand_gives(
    pytorch_tree: Path, tmp_path: Path
) -> None:
    # a helper of test_view_ops, and a statement in every test class, so that all tests of the three files are reached
    changes = [(VIEWS, statement_first("is_view_of"))]
    for path in (VIEWS, SHAPES, INDEXING):
        for node in ast.parse((pytorch_tree / path).read_text()).body:
            if isinstance(node, ast.ClassDef) and "TestCase" in {getattr(base, "id", "") for base in node.bases}:
                changes.append((path, statement_first(node.name)))
    demo = play(pytorch_tree, tmp_path, patch(pytorch_tree, *changes))
    ((base, head),) = demo.rows("select compare_sha, head_sha from dispatch where executor = 'workers'")
    specs = demo.rows("select spec from shard where side = 'head'")
    tests = [test for (spec,) in specs for test in json.loads(spec)["tests"]]
    assert Counter(test.split("::")[0] for test in tests).keys() == {VIEWS, SHAPES, INDEXING}
    relayed = {
        f"{test.rpartition('::')[0]}::{variant}": outcome
        for test, variant, outcome in demo.rows("select test, variant, outcome from result where side = 'head'")
    }
    alone = by_hand(demo.folder / "upstream", head, tests, tmp_path / "hand")
    assert relayed == alone
    assert len(alone) > 250
    verdict = verdict_of(demo)
    outcomes = Counter(alone.values())
    assert {name: verdict["counts"][name] for name in outcomes} == outcomes
    assert verdict["conclusion"] == "success"
    assert (verdict["counts"]["regressions"], verdict["not_exercised"]) == (0, [])
    # what fails, fails on the base too: operators and dtypes that the device lacks
    assert verdict["counts"]["pre_existing"] == outcomes["failed"] + outcomes.get("error", 0)
    assert base == git(pytorch_tree, "rev-parse", "HEAD")


@pytest.mark.demo
@pytest.mark.torch
@pytest.mark.broker
def test_what_the_runtime_does_not_contain_is_listed_and_neutral(pytorch_tree: Path, tmp_path: Path) -> None:
    demo = play(pytorch_tree, tmp_path, patch(pytorch_tree, EDITS["reference"], EDITS["kernel"]))
    verdict = verdict_of(demo)
    assert verdict["conclusion"] == "neutral"
    left = {item["path"]: item["reason"] for item in verdict["not_exercised"]}
    assert left.keys() == {REFS, LERP}
    assert "share only" in left[REFS]
    assert "build" in left[LERP]
    check = next(
        call["body"]
        for call in map(json.loads, (demo.folder / "github" / "calls.jsonl").read_text().splitlines())
        if "/check-runs" in call["path"] and (call["body"] or {}).get("conclusion")
    )
    assert check["conclusion"] == "neutral"
    text = html.unescape(check["output"]["text"])  # upstream's names are inert there
    assert REFS in text
    assert LERP in text
