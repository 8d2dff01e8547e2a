"""What the inventory reads off a source file without running it."""

from __future__ import annotations

import textwrap
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selector.discover.parse import MAX_BYTES, parse
from selector.discover.records import ClassRecord, DbUse, MethodRecord, from_bytes, to_bytes

HEAD = "import unittest\nimport torch\nfrom db import op_db, unary_ufuncs, python_ref_db, module_db\n"


def read(code: str) -> dict[str, ClassRecord]:
    record = parse((HEAD + textwrap.dedent(code)).encode())
    assert record.problem == ""
    assert from_bytes(to_bytes(record)) == record
    return record.classes


def one_test(code: str) -> MethodRecord:
    (cls,) = (c for c in read(code).values() if c.tests)
    return cls.tests[0]


@pytest.mark.parametrize(
    ("call", "only_for", "except_for"),
    [
        ("instantiate_device_type_tests(TestX, globals())", None, None),
        ("instantiate_device_type_tests(TestX, globals(), only_for='cuda')", ("cuda",), None),
        ("common.instantiate_device_type_tests(TestX, globals(), only_for=('cpu', 'cuda'))", ("cpu", "cuda"), None),
        ("ONLY = ['cuda']\ninstantiate_device_type_tests(TestX, globals(), only_for=ONLY)", ("cuda",), None),
        ("instantiate_device_type_tests(TestX, globals(), except_for=['meta'])", None, ("meta",)),
        ("instantiate_device_type_tests(TestX, globals(), only_for=devices())", ("?",), None),
        ("instantiate_device_type_tests(TestX, globals(), only_for=None)", None, None),
        ("if torch.cuda.is_available():\n    instantiate_device_type_tests(TestX, globals())", None, None),
        (
            "for cls in (TestX, TestY):\n    instantiate_device_type_tests(cls, globals(), only_for='cpu')",
            ("cpu",),
            None,
        ),
        ("try:\n    pass\nfinally:\n    instantiate_device_type_tests(TestX, globals())", None, None),
    ],
)
def test_how_a_class_is_instantiated(call: str, only_for: object, except_for: object) -> None:
    made = read("class TestX(TestCase):\n    def test_a(self, device): pass\n" + call)["TestX"].instantiated
    assert [(one.only_for, one.except_for) for one in made] == [(only_for, except_for)]


def test_what_is_not_instantiated() -> None:
    classes = read(
        """
        @instantiate_parametrized_tests
        class TestP(TestCase):
            def test_a(self): pass
        class TestQ(TestCase):
            def test_a(self): pass
        instantiate_parametrized_tests(TestQ)
        class TestR(TestCase):
            hw_classification = HardwareClassification.CUDA
            def test_a(self): pass
        """
    )
    assert {name: (c.instantiated, c.parametrized, c.hardware) for name, c in classes.items()} == {
        "TestP": ((), True, ""),
        "TestQ": ((), True, ""),
        "TestR": ((), False, "CUDA"),
    }


@pytest.mark.parametrize(
    ("expression", "lists", "include", "exclude", "sure"),
    [
        ("op_db", ("op_db",), None, (), True),
        ("[op for op in unary_ufuncs if op.name in {'exp', 'abs'}]", ("unary_ufuncs",), ("abs", "exp"), (), True),
        ("[op for op in op_db if op.name in NAMES]", ("op_db",), ("add", "mul"), (), True),
        ("mine", ("op_db",), ("sum",), (), True),
        ("filter(lambda op: op.name == 'exp', op_db)", ("op_db",), ("exp",), (), True),
        ("[op for op in op_db if op.name != 'exp' and op.supports_out]", ("op_db",), None, ("exp",), True),
        ("[op for op in op_db if op.name not in NAMES]", ("op_db",), None, ("add", "mul"), True),
        ("[op for op in op_db if op.name in 'add,mul']", ("op_db",), None, (), True),  # part of a string
        ("[op for op in op_db if op.name in ('a', 'b') or op.ref]", ("op_db",), None, (), True),
        ("[op for op in op_db if other.name in ('a', 'b')]", ("op_db",), None, (), True),
        ("op_db + python_ref_db", ("op_db", "python_ref_db"), None, (), True),
        ("mine + python_ref_db", ("op_db", "python_ref_db"), None, (), True),  # a filter of one is none of both
        ("itertools.chain(op_db, [OpInfo('z')])", ("op_db",), None, (), False),
        ("list(copy.deepcopy(op_db))", ("op_db",), None, (), True),
        ("modified(op_db)", ("op_db",), None, (), False),
        ("of_class", ("binary_ufuncs",), None, (), True),
        ("twice", ("twice",), None, (), True),  # assigned in two places: no single value
        ("loop", (), None, (), False),
    ],
)
def test_the_list_that_ops_draws_from(
    expression: str, lists: tuple[str, ...], include: object, exclude: tuple[str, ...], sure: bool
) -> None:
    test = one_test(
        f"""
        NAMES = frozenset(["add", "mul"])
        mine = [op for op in op_db if op.name in ("sum",)]
        twice = op_db
        twice = twice + python_ref_db
        loop = loop
        class TestX(TestCase):
            of_class = list(filter(lambda op: op.ref is not None, binary_ufuncs))
            @ops({expression})
            def test_a(self, device, dtype, op): pass
        """
    )
    use = test.ops
    assert isinstance(use, DbUse)
    assert (use.lists, use.include, use.exclude, use.sure) == (lists, include, exclude, sure)


@pytest.mark.parametrize(
    ("arguments", "dtypes", "once"),
    [
        ("op_db", None, False),
        ("op_db, dtypes=OpDTypes.any_one", None, True),
        ("op_db, dtypes=OpDTypes.supported", None, False),
        ("op_db, allowed_dtypes=(torch.float, torch.half)", ("float32", "float16"), False),
        ("op_db, dtypes=floating_types()", ("?",), False),
        ("op_db, dtypes=KNOWN", ("int64", "bool"), False),
    ],
)
def test_the_dtypes_that_ops_allows(arguments: str, dtypes: object, once: bool) -> None:
    use = one_test(
        f"KNOWN = [torch.long, torch.bool]\nclass TestX(TestCase):\n    @ops({arguments})\n    def test_a(self): pass\n"
    ).ops
    assert use is not None
    assert (use.dtypes, use.once) == (dtypes, once)


def test_decorators_of_a_test() -> None:
    test = one_test(
        """
        class TestX(TestCase):
            @onlyCUDA
            @unittest.skipIf(not TEST_CUDA, "no CUDA")
            @dtypes(torch.double, *more_types())
            @parametrize("n", [1, 2, 3])
            @parametrize("flag", [True, False])
            @largeTensorTest("4GB", device="cuda")
            def test_a(self, device, dtype, n, flag): pass
        """
    )
    assert [(d.name, d.args) for d in test.decorators] == [
        ("onlyCUDA", ()),
        ("skipIf", ("not TEST_CUDA", "no CUDA")),
        ("dtypes", ("torch.double", "?")),
        ("parametrize", ("n", "?")),
        ("parametrize", ("flag", "?")),
        ("largeTensorTest", ("4GB", "device=cuda")),
    ]
    assert (test.dtypes, test.factor, test.args) == (("float64", "?"), 6, ("device", "dtype", "n", "flag"))
    assert test.decorators[1].names == ("TEST_CUDA",)


def test_entries_of_an_op_database_are_symbols_of_their_own() -> None:
    code = """
    op_db = [
        OpInfo("add", sample=samples, skips=(DecorateInfo(unittest.skip, "TestX"),)),
        OpInfo("div", variant_test_name="floor", dtypes=floating_types()),
        *more,
    ]
    def samples(): pass
    """
    before = parse(textwrap.dedent(code).encode()).symbols
    assert {key for key in before if "[" in key} == {"op_db[add]", "op_db[div.floor]"}
    assert before["op_db[add]"].refs == ("samples",)
    skips = parse(textwrap.dedent(code).replace('"TestX"', '"TestY"').encode()).symbols["op_db[add]"]
    assert skips.own == before["op_db[add]"].own
    assert skips.soft != before["op_db[add]"].soft


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (b"class A(:\n", "line 1"),
        (b"x = '\xff\xfe'\n", "line 1"),
        (b"# coding: no-such\nx = 1\n", "unknown encoding"),
        (b"x = 1\x00\n", "null bytes"),
        (b"#" * (MAX_BYTES + 1), "more than the limit"),
        (b"x = " + b"(" * 20_000, "nested"),
        (b"x = " + b"-" * 5_000 + b"1\n", "nested too deeply"),
    ],
)
def test_a_file_that_cannot_be_used_gives_the_reason(source: bytes, problem: str) -> None:
    record = parse(source)
    assert problem in record.problem
    assert not record.symbols
    assert from_bytes(to_bytes(record)) == record


@pytest.mark.parametrize(
    "code",
    [
        "\n".join(f"n{i} = [{', '.join([f'n{i + 1}'] * 60)}]" for i in range(12)) + "\nn12 = ['a']\n",
        "\n".join(f"n{i} = n{i + 1} + n{i + 1}" for i in range(60)) + "\nn60 = op_db\n",
    ],
)
def test_names_of_lists_of_names_do_not_grow_without_end(code: str) -> None:
    """Upstream's code is a stranger's: 60 ** 12 names must not be read one by one."""
    began = time.process_time()
    test = one_test(
        code
        + """
class TestX(TestCase):
    @ops([op for op in n0 if op.name in n0])
    @dtypes(*n0)
    @onlyOn(n0)
    @parametrize("x", n0)
    def test_a(self): pass
instantiate_device_type_tests(TestX, globals(), only_for=n0)
"""
    )
    assert time.process_time() - began < 2.0
    assert test.ops is not None
    assert not (test.ops.include and test.ops.sure)


def test_parametrisations_are_counted_up_to_a_limit() -> None:
    many = "\n".join(f"    @parametrize('p{n}', [{'1, ' * 50}])" for n in range(3_000))
    assert one_test(f"class TestX(TestCase):\n{many}\n    def test_a(self): pass\n").factor == 100_000


@given(st.binary(max_size=200))
def test_no_bytes_make_the_parser_raise(data: bytes) -> None:
    record = parse(data)
    assert from_bytes(to_bytes(record)) == record


@given(
    st.binary(max_size=60) | st.sampled_from([b"[]", b"[1,2,3,4]", b'["",[],[["a"]],[]]', b'["",[[1]],[],[]]', b"null"])
)
def test_a_damaged_record_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        from_bytes(data)
