"""Bodies of tests that situations are made of (tests/situation_table.py)."""

from __future__ import annotations

PASSES = "def test_fine(self, device):\n    self.assertEqual(torch.ones(2, device=device).sum().cpu().item(), 2.0)\n"
OK = PASSES.replace("test_fine", "test_other")
VALUE = """
def test_value(self, device):
    x = torch.full((3,), weight(), device=device)
    self.assertEqual((x + x).cpu(), torch.full((3,), 4.0))
"""
GOOD, BAD = "def weight():\n    return 2.0\n", "def weight():\n    return 3.0\n"
FLAKE = """
@dtypes(torch.float32, torch.float16, torch.int64, torch.int32)
def test_flake_{n}(self, device, dtype):
    x = torch.ones(2, device=device, dtype=dtype)
    lost = int.from_bytes(os.urandom(4), "big") < {rate} * 2**32
    self.assertFalse(lost, "lost a race")
    self.assertEqual(x.cpu(), torch.ones(2, dtype=dtype))
"""
COMPANY = """
def test_a_leaves_something(self, device):
    self.assertEqual(len(left), 0)
    left.append(torch.ones(1, device=device).cpu())

def test_b_minds(self, device):
    self.assertEqual(len(left), 0)
    left.append(torch.ones(1, device=device).cpu())
"""
MANY_FILES = """
def test_many_files(self, device):
    kept = [open(os.devnull) for _ in range(400)]
    self.assertEqual(torch.ones(2, device=device).cpu(), torch.ones(2))
    for one in kept:
        one.close()
"""
SKIPS = """
def test_skips(self, device):
    x = torch.ones(2, device=device)
    if os.urandom(1)[0] < 256:
        self.skipTest("not today")
    self.assertEqual(x.cpu(), torch.ones(2))
"""
HOST = """
def test_host(self, device):
    where = device if os.urandom(1)[0] > 255 else "cpu"
    self.assertEqual(torch.ones(2, device=where).cpu(), torch.ones(2))
"""
LIMIT = """
def test_reach(self, device):
    x = torch.ones(2, device=device)
    x = {0}
    self.assertEqual(x.cpu().sum().item(), x.cpu().sum().item())

"""
LACKS = "torch.cholesky_inverse(torch.ones(2, 2, device=device))"
LIMITED = LIMIT.format(LACKS)
OPS = """
from torch.testing._internal.common_device_type import ops
from torch.testing._internal.common_methods_invocations import op_db
"""
DRAWS = """
@ops([op for op in op_db if op.name in ("cholesky_inverse",)])
def test_draws(self, device, dtype, op):
    self.assertEqual(op(torch.eye(2, dtype=dtype, device=device)).cpu(), torch.eye(2, dtype=dtype))
"""
FORTY = "".join(PASSES.replace("fine", f"f{n}") for n in range(40))
NATIVE = "test/cpp/api/situations.cpp"
NATIVE_CODE = "int situations() { return 0; }\n"
NAMES_IT = "# what it checks is written in situations.cpp\n"


def flakes(rate: float, tests: int) -> str:
    return "".join(FLAKE.format(n=n, rate=rate) for n in range(tests))


def files_of(name: str, source: str) -> dict[str, str | None]:
    return {f"test/test_{name}.py": source}
