"""A property, run in a process of its own: what ``relay config explain`` prints is what the runtime does.

Configs are made up; for each, upstream's own ``instantiate_device_type_tests`` generates a class under it, and every
variant that came out (or did not) is looked up in the explanation's groups. Prints the number of variants compared.
"""

import sys

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relay import device

device.install()

import torch  # noqa: E402
from torch.testing._internal import common_device_type as upstream  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.testing._internal.common_utils import TestCase  # noqa: E402

from relay.reuse.policy import Reuse, activate  # noqa: E402
from relay.reuse.registry import Registry  # noqa: E402
from selector.configs import ConfigSource, load_configs  # noqa: E402
from selector.configs.explain import explain  # noqa: E402
from selector.model import TestId  # noqa: E402

OPS = ["add", "div.floor_rounding", "div.trunc_rounding", "div.no_rounding_mode", "exp", "linalg.norm"]
INFOS = [op for op in op_db if op.full_name in OPS]
WORDS = ["add", "div", "div.floor_rounding", "div_trunc_rounding", "exp", "linalg.norm", "neg"]
DTYPES = ["float16", "float32", "float64", "int64", "bool"]
MODES = ["mandatory_success", "xfail", "xfail_strict", "skip"]
NAMES = [
    "test_ops",
    "TestA::test_ops",
    "test_.*",
    "TestA::test_.*",
    "Test.::test_ops",
    "test_plain",
    "TestA::test_dtypes",
    "TestB::test_ops",
    "test_(ops|plain)",
    "Test[AB]::.*",
]
PATHS = ["${TORCH_ROOT}/test/test_made_up.py", "${TORCH_ROOT}/test/test_*.py", "${TORCH_ROOT}/**/test_made*.py"]


def items(words):
    return st.lists(st.sampled_from(words), max_size=3, unique=True).map(lambda ws: [{"name": w} for w in ws])


edits = st.fixed_dictionaries(
    {},
    optional={
        "ops": st.fixed_dictionaries({}, optional={"include": items(WORDS), "exclude": items(WORDS)}),
        "dtypes": st.fixed_dictionaries({}, optional={"include": items(DTYPES), "exclude": items(DTYPES)}),
    },
)
entries = st.fixed_dictionaries(
    {"names": st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True), "mode": st.sampled_from(MODES)},
    optional={"edits": edits},
)
files = st.fixed_dictionaries(
    {"path": st.sampled_from(PATHS)},
    optional={"unlisted_test_mode": st.sampled_from(MODES), "tests": st.lists(entries, max_size=4)},
)
supported_op = st.one_of(
    st.sampled_from(WORDS),
    st.fixed_dictionaries(
        {"name": st.sampled_from(WORDS)}, optional={"force_xfail": st.booleans(), "dtypes": items(DTYPES)}
    ),
)
supported_dtype = st.fixed_dictionaries({"name": st.sampled_from(DTYPES)}, optional={"force_xfail": st.booleans()})


def name_of(item):
    return item if isinstance(item, str) else item["name"]


suites = st.fixed_dictionaries(
    {"files": st.lists(files, min_size=1, max_size=3)},
    optional={
        "global": st.fixed_dictionaries(
            {},
            optional={
                "supported_ops": st.lists(supported_op, max_size=4, unique_by=name_of),
                "supported_dtypes": st.lists(supported_dtype, max_size=4, unique_by=name_of),
            },
        )
    },
)
compared = 0


def new_class():
    class TestA(TestCase):
        @upstream.ops(INFOS, allowed_dtypes=(torch.float32, torch.float64, torch.int64))
        def test_ops(self, device, dtype, op):
            pass

        @upstream.dtypes(torch.float32, torch.bool)
        def test_dtypes(self, device, dtype):
            pass

        def test_plain(self, device):
            pass

    return TestA


class Here(Reuse):
    """The made-up class lies in no file of a tree."""

    def file_of_module(self, name):
        return "test/test_made_up.py"


@settings(max_examples=int(sys.argv[1]), deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(st.lists(suites, min_size=1, max_size=2))
def explained_is_done(made_up):
    global compared
    import json

    sources = [ConfigSource(f"{i}.yaml", json.dumps({"test_suite_config": s})) for i, s in enumerate(made_up)]
    configs = load_configs(sources, compat=True)
    registry = Registry()
    activate(Here(None, configs, None, registry))
    scope = {"TestA": new_class()}
    upstream.instantiate_device_type_tests(scope["TestA"], scope)
    database = [(op.name, op.variant_test_name) for op in op_db]
    allowed = {"test_ops": {"float32", "float64", "int64"}, "test_dtypes": {"float32", "bool"}}
    for method in ("test_ops", "test_dtypes", "test_plain"):
        test = TestId("test/test_made_up.py", "TestA", method)
        found = explain(configs, test, ops=database)
        made = [record for record in registry if record.test == test]
        for record in made:
            group = found.group(record.op, record.op_variant, record.dtype)
            assert group.presence != "dropped", (record, group)
            rule = group.rule
            assert (rule.mode, rule.reason, rule.source) == (record.mode, record.reason, record.source), (record, group)
            compared += 1
        present = {(r.op, r.op_variant, r.dtype) for r in made}
        if method == "test_plain":
            assert present == {(None, "", None)}
            continue
        infos = INFOS if method == "test_ops" else [None]
        for info in infos:
            op, variant = (info.name, info.variant_test_name) if info else (None, "")
            own = {str(d).removeprefix("torch.") for d in info.supported_dtypes("privateuse1")} if info else set(DTYPES)
            for dtype in DTYPES:
                if (op, variant, dtype) in present:
                    continue
                group = found.group(op, variant, dtype)
                assert group.presence != "added", ("said to be added, is not there", op, variant, dtype, group)
                if dtype in own & allowed[method]:
                    assert group.presence == "dropped", ("said to be kept, is not there", op, variant, dtype, group)
                compared += 1


explained_is_done()
print(compared)
