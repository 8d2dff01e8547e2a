"""What no rule maps, what cannot be read, and what is too large: it is said, and widens."""

from __future__ import annotations

import time

import pytest
from impact_cases import ALSO, GENERIC, PLAIN, Discover, about, codes

from selector.errors import TreeError
from selector.model import Change, FileChange, OpDatabase, OpEntry
from selector.trees import MemoryTree


@pytest.mark.parametrize(
    "path", ["docs/source/x.md", "README.md", ".github/workflows/pull.yml", ".ci/build.sh", "CODEOWNERS"]
)
def test_what_cannot_matter_says_so(discovered: Discover, opdb: OpDatabase, path: str) -> None:
    found = discovered({path: "a"}, {path: "b"}, also=ALSO, opdb=opdb, title="Explain torch.logit")
    assert codes(found) == {"TestGeneric.test_logit_by_name": ("smoke",)}
    assert "pages or upstream's own CI alone" in found.impacts[0].evidence[0].detail
    assert about(found, path) == [("no-impact", "cannot-matter")]
    assert about(found, "change") == [("smoke", "smoke")]
    assert not found.widened


@pytest.mark.parametrize("path", ["c10/core/Device.h", "setup.py", "torchgen/gen.py", "version.txt", "torch/lib/x.bin"])
def test_what_no_rule_knows_widens_to_every_device_generic_test(discovered: Discover, path: str) -> None:
    found = discovered({path: "a"}, {path: "b"}, also=ALSO)
    assert {i.test.cls for i in found.impacts} == {"TestGeneric"}
    assert set(codes(found).values()) == {("unmapped-change",)}
    assert about(found, path) == [("widened", "unmapped-change")]
    assert path in next(d.reason for d in found.decisions if d.subject == "change")


def test_where_nothing_is_device_generic_widening_takes_everything(discovered: Discover) -> None:
    found = discovered({"setup.py": "a"}, {"setup.py": "b"}, also={"test/test_plain.py": PLAIN})
    assert codes(found) == {"TestPlain.test_nothing": ("unmapped-change",)}


def test_test_data_reaches_who_names_it_or_lies_beside_it(discovered: Discover) -> None:
    also = {
        **ALSO,
        "test/test_reads.py": "class TestR(TestCase):\n    def test_r(self): open('golden.json')\n",
        "test/jit/test_j.py": "class TestJ(TestCase):\n    def test_j(self): pass\n",
    }
    named = discovered({"test/data/golden.json": "1"}, {"test/data/golden.json": b"2\0"}, also=also)
    assert codes(named) == {"TestR.test_r": ("test-data",)}
    beside = discovered({"test/jit/x.txt": "1"}, {"test/jit/x.txt": "2"}, also=also)
    assert codes(beside) == {"TestJ.test_j": ("test-data",)}
    nowhere = discovered({"test/x.txt": "1"}, {"test/x.txt": "2"}, also=also)
    assert nowhere.widened


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (FileChange("third_party/x", "modified", None, b"1" * 40, b"2" * 40, submodule=True), "submodule-bump"),
        (FileChange("torch/x.py", "modified", None, None, None, binary=True), "binary-change"),
        (FileChange("torch/lib.so", "added", None, None, b"\0", binary=True), "binary-change"),
    ],
)
def test_what_cannot_be_read_widens(change: FileChange, code: str) -> None:
    from selector.discover import discover

    base, head = MemoryTree({**ALSO, "torch/x.py": b"\0"}), MemoryTree({**ALSO, "torch/x.py": b"\0\1"})
    found = discover(base, head, Change("a", "b", (change,)), None)
    assert found.widened
    assert about(found, change.path) == [("widened", code)]


BROKEN = {
    "class (": "line 1: ",
    b"caf\xe9 = 1\n": "line 1: ",
    b"# coding: klingon\n": "line 1: ",
    b"import torch\n\0\1\2": "null bytes",
    "x = 1" + "0" * 9_000_000: "9000005 bytes",
}


@pytest.mark.parametrize(("text", "problem"), BROKEN.items())
def test_a_test_file_that_breaks_brings_the_bases_tests_and_its_importers(
    discovered: Discover, text: str | bytes, problem: str
) -> None:
    uses = "import test_plain\nclass TestOther(TestCase):\n    def test_more(self): pass\n"
    further = "from test_other import TestOther\nclass TestFurther(TestOther):\n    def test_last(self): pass\n"
    also = {**ALSO, "test/test_other.py": uses, "test/test_further.py": further}
    found = discovered({"test/test_plain.py": PLAIN}, {"test/test_plain.py": text}, also=also)
    assert about(found, "test/test_plain.py") == [("unreadable", "unparsable-file")]
    assert codes(found) == {
        "TestPlain.test_nothing": ("unreadable-test-file",),
        "TestOther.test_more": ("helper-imported",),
        "TestFurther.test_last": ("helper-imported",),
        "TestFurther.test_more": ("helper-imported",),  # inherited
    }
    (own,) = (i for i in found.impacts if i.test.cls == "TestPlain")
    fact = own.evidence[0]
    assert (fact.path, fact.line) == ("test/test_plain.py", 1 if "(line 1: " in fact.detail else None)
    assert problem in fact.detail
    # what triage looks at is there, of the base
    assert found.inventory.find(own.test) is not None
    assert [item.path for item in found.not_exercised] == ["test/test_plain.py"]
    assert any("test/test_plain.py cannot be read (" in warning for warning in found.warnings)
    assert not found.widened
    # the other way round: a file that can be read again has new tests only
    mended = discovered({"test/test_plain.py": text}, {"test/test_plain.py": PLAIN}, also=also)
    assert {i.codes[0] for i in mended.impacts if i.test.file == "test/test_plain.py"} == {"new-test"}
    assert mended.not_exercised == ()


def test_a_broken_file_that_moves_or_is_new_is_said(discovered: Discover) -> None:
    from selector.discover import discover

    new = discovered({}, {"test/test_new.py": "def ("}, also=ALSO)
    assert (new.impacts, [item.path for item in new.not_exercised]) == ((), ["test/test_new.py"])
    both = discovered({"test/test_new.py": "def ("}, {"test/test_new.py": "def ((("}, also=ALSO)
    assert (both.impacts, [item.path for item in both.not_exercised]) == ((), ["test/test_new.py"])
    uses = {**ALSO, "test/test_user.py": "import helper\n" + PLAIN}
    base, head = MemoryTree({**uses, "test/helper.py": PLAIN}), MemoryTree({**uses, "test/moved.py": "def ("})
    moved = FileChange("test/moved.py", "renamed", "test/helper.py", PLAIN.encode(), b"def (")
    found = discover(base, head, Change("a", "b", (moved,)), None)
    assert {str(i.test) for i in found.impacts} == {
        "test/moved.py::TestPlain::test_nothing",
        "test/test_user.py::TestPlain::test_nothing",
    }


def test_a_broken_helper_brings_every_test_of_the_files_that_import_it(discovered: Discover) -> None:
    uses = "import helper\nclass TestUser(TestCase):\n    def test_without_it(self): pass\n"
    for base in ({"test/helper.py": "def help(): pass\n"}, {}):
        found = discovered(base, {"test/helper.py": "def help(: pass\n"}, also={**ALSO, "test/test_user.py": uses})
        assert codes(found) == {"TestUser.test_without_it": ("helper-imported",)}
        assert [item.path for item in found.not_exercised] == ["test/helper.py"]


# a link is in the change, and in no tree
@pytest.mark.parametrize(
    ("change", "base", "head", "reached"),
    [
        (FileChange("test/test_link.py", "added", None, None, b"/etc/passwd"), {}, {}, {}),
        (FileChange("test/test_link.py", "removed", None, b"/etc/passwd", None), {}, {}, {}),
        (FileChange("test/test_link.py", "modified", None, b"/etc/passwd", b"a.py"), {}, {}, {}),
        (FileChange("test/test_link.py", "modified", None, b"a.py", b"a.py"), {}, {"test/test_link.py": "a.py"}, {}),
        (
            FileChange("test/test_link.py", "modified", None, b"a.py", PLAIN.encode()),
            {},
            {"test/test_link.py": PLAIN},
            {"TestPlain.test_nothing": ("new-test", "helper")},
        ),
        (
            FileChange("test/test_link.py", "modified", None, PLAIN.encode(), b"a.py"),
            {"test/test_link.py": PLAIN},
            {},
            {},
        ),
        (
            FileChange("test/test_link.py", "modified", None, None, None, binary=True),
            {"test/test_link.py": PLAIN},
            {},
            {},
        ),
        (FileChange("test/data/link.txt", "added", None, None, b"/etc/passwd"), {}, {}, None),
        (FileChange("torch/link.py", "added", None, None, b"/etc/passwd"), {}, {}, None),
        (FileChange("torch/_refs/link.py", "modified", None, b"a.py", b"/etc/passwd"), {}, {}, None),
        (FileChange("torch/testing/link.py", "added", None, None, b"/etc/passwd"), {}, {}, None),
    ],
)
def test_a_link_is_said_and_never_exercised(
    change: FileChange, base: dict[str, str], head: dict[str, str], reached: dict[str, tuple[str, ...]] | None
) -> None:
    from selector.discover import discover

    also = {"test/test_generic.py": GENERIC}
    found = discover(MemoryTree({**also, **base}), MemoryTree({**also, **head}), Change("a", "b", (change,)), None)
    assert [item.path for item in found.not_exercised] == [change.path]
    assert "symbolic link" in found.not_exercised[0].reason
    assert about(found, change.path)
    if reached is None:
        assert found.widened
    else:
        assert codes(found) == reached
        assert about(found, change.path) == [("not-exercised", "not-a-file")]


def test_a_large_file_is_compared_by_what_the_trees_hold() -> None:
    from selector.discover import discover

    rest = "\n".join(f"VALUE_{n} = '{'x' * 5_000}'" for n in range(500))
    code = "class TestBig(TestCase):\n    def test_a(self, device): {0}\n    def test_b(self, device): pass\n"
    base, head = (MemoryTree({**ALSO, "test/test_big.py": code.format(n) + rest}) for n in ("pass", "return"))
    change = FileChange("test/test_big.py", "modified", None, None, None, binary=True)
    found = discover(base, head, Change("a", "b", (change,)), None)
    assert [str(i.test) for i in found.impacts] == ["test/test_big.py::TestBig::test_a"]


def test_a_mode_change_reaches_the_smoke_set_alone() -> None:
    from selector.discover import discover

    tree = MemoryTree({**ALSO, "setup.py": "a"})
    found = discover(tree, tree, Change("a", "b", (FileChange("setup.py", "modified", None, b"a", b"a"),)), None)
    assert ({impact.codes for impact in found.impacts}, found.widened) == ({("smoke",)}, False)


def test_an_empty_change_reaches_nothing_and_says_so(discovered: Discover) -> None:
    found = discovered({}, {}, also=ALSO)
    assert found.impacts == ()
    assert about(found, "change") == [("no-impact", "no-change")]


def test_a_tree_without_tests_is_refused(discovered: Discover) -> None:
    with pytest.raises(TreeError):
        discovered({"setup.py": "a"}, {"setup.py": "b"})


def test_hundreds_of_ops_at_once_are_one_pass_over_the_tests(discovered: Discover) -> None:
    count = 600
    database = OpDatabase("2.13.0", tuple(OpEntry(f"op{n}", "", f"op{n}", ("op_db",)) for n in range(count)))
    also = {f"test/test_{k}.py": GENERIC.replace("test_", f"test_{k}_") for k in range(150)}
    yaml = "".join(f"- func: op{n}(Tensor self) -> Tensor\n" for n in range(count))
    refs = "def _shared(x): return 1\n" + "".join(f"def op{n}(x): return _shared(x)\n" for n in range(count))
    base = {"aten/src/ATen/native/native_functions.yaml": yaml, "torch/_refs/__init__.py": refs}
    head = {
        path: text.replace("-> Tensor", "-> Tensor?").replace("return 1", "return 2") for path, text in base.items()
    }
    began = time.process_time()
    found = discovered(base, head, also=also, opdb=database)
    assert time.process_time() - began < 15.0
    assert len(found.impacts) == 150 * 3  # of lists that the database does not know it is assumed
    assert not found.widened


def test_three_thousand_changed_files_are_bounded_and_widen(discovered: Discover) -> None:
    base = {f"torch/part{n % 40}/m{n}.py": f"def f{n}():\n    return {n}\n" for n in range(2_000)}
    base |= {f"csrc/x{n}.cpp": f"int f{n}();" for n in range(800)}
    base |= {
        f"test/part/test_{n}.py": f"class TestN(TestCase):\n    def test_{n}(self): return {n}\n" for n in range(200)
    }
    head = {path: text.replace("return", "return 1 +").replace("int", "long") for path, text in base.items()}
    began = time.process_time()
    found = discovered(base, head, also=ALSO)
    assert time.process_time() - began < 20.0
    assert found.widened
    assert {"edited-test"} == {i.codes[0] for i in found.impacts if i.test.file.startswith("test/part/")}
    assert len([d for d in found.decisions if d.code == "too-many-changes"]) >= 1_000
