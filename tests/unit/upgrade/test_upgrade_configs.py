"""Config edits that an upgrade asks for, byte for byte: a name in place, a line out, an entry more."""

from __future__ import annotations

import subprocess
from datetime import date
from pathlib import Path

import pytest

from selector.configs import ConfigSource, lint, load_configs
from selector.configs.upstream import Upstream
from selector.discover import take
from selector.discover.diff import Side, compare
from selector.model import TestId
from selector.plan.reconfigure import Reconfigured, reconfigure
from selector.trees import MemoryTree

BODY = """
        x = torch.full((2, 3), {n}, device=device)
        y = x.sum(0) + {n}
        z = y.view(3, 1) - {n}
        self.assertEqual(z.numel(), {n})
"""
HEAD = "import torch\nfrom torch.testing._internal.common_utils import TestCase\n"


def file(**classes: dict[str, int]) -> str:
    """A file of classes with tests; a test's number makes its body."""
    text = HEAD
    for cls, tests in classes.items():
        text += f"\n\nclass {cls}(TestCase):\n"
        text += "".join(f"    def {name}(self, device):{BODY.format(n=n)}\n" for name, n in tests.items())
    return text


CONFIG = """\
# kept as it is
test_suite_config:
  files:
    - path: ${TORCH_ROOT}/test/test_a.py   # why this file
      unlisted_test_mode: skip
      tests:
        - names:
            - TestA::test_one   # a note
            - 'TestA::test_two'
          mode: xfail
          reason: two limits
        - names: [TestA::test_three, "TestA::test_four"]
          mode: mandatory_success
    - path: ${TORCH_ROOT}/test/test_b.py
      unlisted_test_mode: mandatory_success
      tests:
        - names: [TestB::test_five]
          mode: skip
          reason: long
        - names: [TestB::test_six]
          mode: xfail
          reason: six's own
"""
A = {"test_one": 1, "test_two": 2, "test_three": 3, "test_four": 4}
B = {"test_five": 5, "test_six": 6}
OLD = {"test/test_a.py": file(TestA=A), "test/test_b.py": file(TestB=B)}


def edited(new: dict[str, str], config: str = CONFIG, relevant: tuple[str, ...] = ()) -> Reconfigured:
    inventories = take(MemoryTree(OLD)), take(MemoryTree(new))
    difference = compare(Side(MemoryTree(OLD), inventories[0]), Side(MemoryTree(new), inventories[1]))
    source = ConfigSource("a.yaml", config)
    found = reconfigure(
        difference,
        ("2.13", "2.14"),
        inventories,
        {TestId.parse(one) for one in relevant},
        load_configs([source]),
        [source],
        date(2026, 11, 30),
    )
    problems = lint([found.sources[0]], today=date(2026, 11, 30), upstream=Upstream(inventories[1], inventories[0]))
    assert [str(p) for p in problems if p.code.startswith("config-dead")] == [], "every name is one of the new release"
    return found


def test_nothing_that_a_config_names_differs() -> None:
    found = edited({**OLD, "test/test_b.py": file(TestB={**B, "test_six": 66})})
    assert (found.edits, found.by_hand, found.patch) == ((), (), "")
    assert found.sources[0].text == CONFIG


@pytest.mark.parametrize(
    ("new", "was", "now"),
    [
        pytest.param(
            {"test/test_a.py": file(TestA={**A, "test_one": 0, "test_uno": 1})},
            "",
            "",
            id="a name that is taken again stays",
        ),
        pytest.param(
            {"test/test_a.py": file(TestA={"test_uno": 1, "test_two": 2, "test_three": 3, "test_four": 4})},
            "- TestA::test_one   # a note",
            "- TestA::test_uno   # a note",
            id="a method in a list",
        ),
        pytest.param(
            {"test/test_a.py": file(TestA={"test_one": 1, "test_dos": 2, "test_three": 3, "test_four": 4})},
            "'TestA::test_two'",
            "'TestA::test_dos'",
            id="in single quotes",
        ),
        pytest.param(
            {"test/test_a.py": file(TestA={"test_one": 1, "test_two": 2, "test_three": 3, "test_fourth": 4})},
            '"TestA::test_four"',
            '"TestA::test_fourth"',
            id="in a flow list",
        ),
        pytest.param({"test/test_a.py": file(TestNew=A)}, "TestA::", "TestNew::", id="a class"),
    ],
)
def test_a_renamed_test_is_renamed_where_it_is_written(new: dict[str, str], was: str, now: str) -> None:
    found = edited({**OLD, **new})
    assert found.sources[0].text == (CONFIG.replace(was, now) if was else CONFIG)
    assert found.by_hand == ()
    assert all(edit.kind == "renamed" and "2.14" in edit.reason for edit in found.edits)


def test_a_file_that_moved_takes_its_block_along_and_its_names() -> None:
    found = edited({"test/test_b.py": OLD["test/test_b.py"], "test/nn/test_a2.py": file(TestZ=A)})
    assert found.sources[0].text == CONFIG.replace("test/test_a.py", "test/nn/test_a2.py").replace("TestA::", "TestZ::")
    assert found.by_hand == ()
    assert [edit.kind for edit in found.edits] == ["file moved"] + ["renamed"] * 4


def test_names_of_tests_that_are_gone_leave_with_their_lines_only() -> None:
    gone = {name: n for name, n in A.items() if name not in ("test_one", "test_three")}
    found = edited({**OLD, "test/test_a.py": file(TestA=gone), "test/test_b.py": file(TestB={"test_six": 6})})
    wanted = CONFIG.replace("            - TestA::test_one   # a note\n", "").replace("TestA::test_three, ", "")
    wanted = wanted.replace("        - names: [TestB::test_five]\n          mode: skip\n          reason: long\n", "")
    assert found.sources[0].text == wanted
    assert {(e.kind, e.was) for e in found.edits} == {
        ("removed", "TestA::test_one"),
        ("removed", "TestA::test_three"),
        ("removed", "TestB::test_five"),
    }


def test_the_block_of_a_file_that_is_gone_goes() -> None:
    found = edited({"test/test_a.py": OLD["test/test_a.py"]})
    assert found.sources[0].text == CONFIG[: CONFIG.index("    - path: ${TORCH_ROOT}/test/test_b.py")]
    assert [(e.kind, e.reason) for e in found.edits] == [("file removed", "test/test_b.py is gone in 2.14")]


def test_a_test_that_went_to_another_file_keeps_mode_and_reason() -> None:
    new = {"test/test_a.py": file(TestA=A, TestMore={"test_six": 6}), "test/test_b.py": file(TestB={"test_five": 5})}
    found = edited(new)
    text = found.sources[0].text
    entry = "        - names: [TestB::test_six]\n          mode: xfail\n          reason: six's own\n"
    there = '        - names: [TestA::test_three, "TestA::test_four"]\n          mode: mandatory_success\n'
    assert text == CONFIG.replace(entry, "").replace(there, there + entry.replace("TestB", "TestMore"))
    assert found.by_hand == ()


def test_a_new_test_that_nobody_would_run_is_proposed_with_its_reason() -> None:
    new = {"test/test_a.py": file(TestA={**A, "test_new": 9}), "test/test_b.py": file(TestB={**B, "test_new": 8})}
    tests = ("test/test_a.py::TestA::test_new", "test/test_b.py::TestB::test_new")
    found = edited({**OLD, **new}, relevant=tests)
    (one,) = found.edits  # the other file runs what it does not list
    assert (one.kind, one.to, one.reason) == ("proposed", tests[0], "new in 2.14")
    there = "          mode: mandatory_success\n    - path: ${TORCH_ROOT}/test/test_b.py"
    added = (
        "        - names: [TestA::test_new]\n          mode: mandatory_success\n          reason: new in 2.14\n"
        "          evidence: 'triage: relevant for the device, not run yet'\n"
    )
    first, _, rest = there.partition("\n")
    assert found.sources[0].text == CONFIG.replace(there, f"{first}\n{added}{rest}")


def test_what_an_edit_cannot_say_is_left_to_a_person() -> None:
    config = CONFIG.replace("TestB::test_six", "test_six")
    new = {"test/test_a.py": file(TestA=A, TestMore={"test_six": 6}), "test/test_b.py": file(TestB={"test_five": 5})}
    inventories = take(MemoryTree(OLD)), take(MemoryTree(new))
    difference = compare(Side(MemoryTree(OLD), inventories[0]), Side(MemoryTree(new), inventories[1]))
    source = ConfigSource("a.yaml", config)
    found = reconfigure(difference, ("a", "b"), inventories, (), load_configs([source]), [source], date(2026, 11, 30))
    assert found.sources[0].text == config
    (told,) = found.by_hand
    assert told.startswith("a.yaml:20: 'test_six' is now test/test_a.py::TestMore::test_six")


def test_the_patch_has_its_reasons_and_git_applies_it(tmp_path: Path) -> None:
    found = edited({**OLD, "test/test_a.py": file(TestA={**{k: v for k, v in A.items() if v > 1}, "test_uno": 1})})
    told = "test/test_a.py::TestA::test_one is test/test_a.py::TestA::test_uno in 2.14"
    assert found.patch.startswith(
        f"# renamed: TestA::test_one -> TestA::test_uno: {told}\n--- a/a.yaml\n+++ b/a.yaml\n"
    )
    (tmp_path / "a.yaml").write_text(CONFIG)
    (tmp_path / "configs.patch").write_text(found.patch)
    subprocess.run(["git", "apply", "configs.patch"], cwd=tmp_path, check=True)
    assert (tmp_path / "a.yaml").read_text() == found.sources[0].text != CONFIG
