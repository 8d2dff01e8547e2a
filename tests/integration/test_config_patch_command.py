"""``relay config propose --patch``: a real run, the fewest lines, checked, on a branch or in the outbox."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import select

from relay.store.db import migrate, open_engine
from relay.store.schema import outbox

pytestmark = pytest.mark.torch
SHEET = Path(__file__).resolve().parents[2] / "test_configs" / "spyre" / "capability.yaml"
SOURCE = """
import torch
from torch.testing._internal.common_utils import TestCase
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests


class TestMend(TestCase):
    def test_was_broken(self, device):
        self.assertEqual(torch.ones(2, device=device).cpu(), torch.ones(2))

    def test_still_broken(self, device):
        self.assertEqual(1, 2)

    def test_beyond(self, device):
        torch.cholesky_inverse(torch.ones(2, 2, device=device))

    @dtypes(torch.float32)
    def test_rough(self, device, dtype):
        x = torch.full((3,), 1.00002, device=device, dtype=dtype)
        self.assertEqual(x.cpu(), torch.ones(3, dtype=dtype))

    def test_machine(self, device):
        torch.ones(2, device=device)
        raise OSError(28, "No space left on device")


instantiate_device_type_tests(TestMend, globals())
"""
CONFIG = """# who wrote this cares for it
test_suite_config:
  extends: capability.yaml
  files:
    - path: ${TORCH_ROOT}/test/test_mend.py   # the one file
      unlisted_test_mode: mandatory_success
      tests:
        - names:
            # both lost their sign in spring
            - TestMend::test_was_broken      # by the new kernel
            - TestMend::test_still_broken
          mode: xfail
          reason: "signs"
"""
GONE = "            - TestMend::test_was_broken      # by the new kernel\n"


def relay(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if not k.startswith("RELAY_")}
    command = [sys.executable, "-m", "relay.cli", *map(str, args)]
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("mend")
    (place / "tree" / "test").mkdir(parents=True)
    (place / "tree" / "test" / "test_mend.py").write_text(SOURCE)
    folder = place / "repo" / "configs"
    folder.mkdir(parents=True)
    shutil.copyfile(SHEET, folder / "capability.yaml")
    (folder / "mend.yaml").write_text(CONFIG)
    git = ["git", "-C", str(place / "repo"), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for args in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "base"]):
        subprocess.run([*git, *args], check=True)
    ran = relay("run", "test/test_mend.py", "--tree", "tree", "--configs", folder, "--out", "run.jsonl", cwd=place)
    assert ran.returncode == 1, ran.stderr
    return place


def propose(place: Path, *more: str) -> subprocess.CompletedProcess[str]:
    folder = place / "repo" / "configs"
    return relay("config", "propose", "run.jsonl", "--patch", folder, "--enough", "1", *more, cwd=place)


def test_what_passes_leaves_its_entry_what_the_device_lacks_gets_one_and_a_full_disk_gets_none(place):
    done = propose(place, "--upstream", "tree", "--out", "mend.diff")
    assert done.returncode == 0, done.stdout + done.stderr
    told = [line for line in (place / "mend.diff").read_text().splitlines() if line[0] in "+-"][2:]
    assert told == [
        "-" + GONE.rstrip("\n"),
        "+        - names: [TestMend::test_beyond]",
        "+          mode: xfail",
        "+          reason: needs the operator cholesky_inverse, which the device does not have",
        "+          evidence: 1 runs on 1 commits, the newest run.jsonl",
        "+        - names: [TestMend::test_rough]",
        "+          mode: mandatory_success",
        "+          reason: off by no more than rounding",
        *(line for line in told if line.startswith("+          evidence: '1 runs on 1 commits, 1 test;")),
        "+          edits: {dtypes: {include: [{name: float32, precision: {atol: 4.0e-05, rtol: 1.3e-06}}]}}",
    ]
    assert len(told) == 10
    assert "test_machine" not in done.stdout, "an environment's fault proposes nothing"


def test_under_the_patch_what_was_off_by_rounding_passes(place, tmp_path):
    """The tolerance is what was measured, with room, and the runtime goes by it."""
    before = {one["variant"]: one["outcome"] for one in map(json.loads, (place / "run.jsonl").read_text().splitlines())}
    assert before["test_rough_spyre_float32"] == "failed"
    assert propose(place, "--out", str(tmp_path / "mend.diff")).returncode == 0
    shutil.copytree(place / "repo" / "configs", tmp_path / "configs")
    subprocess.run(["git", "apply", "--directory", "configs", "mend.diff"], cwd=tmp_path, check=True)
    where = ("--tree", str(place / "tree"), "--configs", str(tmp_path / "configs"), "--out", "again.jsonl")
    again = relay("run", "test/test_mend.py::TestMend::test_rough", *where, cwd=tmp_path)
    assert again.returncode == 0, again.stdout + again.stderr
    (line,) = map(json.loads, (tmp_path / "again.jsonl").read_text().splitlines())
    assert (line["variant"], line["outcome"]) == ("test_rough_spyre_float32", "passed")


def test_a_branch_holds_the_patch_and_nothing_else_moves(place):
    before = (place / "repo" / "configs" / "mend.yaml").read_text()
    done = propose(place, "--branch", "relay/mend")
    assert done.returncode == 0, done.stdout + done.stderr
    git = ["git", "-C", str(place / "repo")]
    show = subprocess.run([*git, "show", "relay/mend:configs/mend.yaml"], capture_output=True, text=True, check=True)
    assert GONE not in show.stdout
    assert show.stdout.replace(show.stdout[show.stdout.index("        - names: [TestMend::test_beyond]") :], "") == (
        CONFIG.replace(GONE, "")
    )
    assert (place / "repo" / "configs" / "mend.yaml").read_text() == before == CONFIG
    status = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=True)
    assert status.stdout == ""
    again = propose(place, "--branch", "relay/mend")
    assert again.returncode == 2, "a branch that is there is not written over"
    assert "git update-ref" in again.stderr


def test_a_pull_request_waits_in_the_outbox_with_a_body_to_act_on(place, tmp_path):
    (tmp_path / "relay.toml").write_text(f'data_dir = "{tmp_path}"\n')
    engine = open_engine(f"sqlite:///{tmp_path}/relay.sqlite3")
    migrate(engine)
    more = ("--pull-request", "example/backend", "--prefix", "configs", "--config", str(tmp_path / "relay.toml"))
    for said in ("is in the outbox", "was proposed before"):
        done = propose(place, *more)
        assert done.returncode == 0, done.stdout + done.stderr
        assert said in done.stdout
    with engine.connect() as conn:
        (row,) = conn.execute(select(outbox)).all()
    engine.dispose()
    assert (row.kind, row.target, row.state) == ("pull", "example/backend", "due")
    payload = row.payload
    assert payload["title"] == "Test configs: 1 to limit, 1 to promote, 1 to tolerance"
    assert [edit["path"] for edit in payload["files"]] == ["configs/mend.yaml"]
    body = payload["body"]
    for part in (
        "nothing merges this but you",
        "TestMend",
        "cholesky&#95;inverse",
        "- [x] `relay config lint`",
        "~~~~diff",
    ):
        assert part in body
    assert "- [ ] every file is imported" in body
    assert json.dumps(payload).count("@") == 2 * json.dumps(payload).count("@@"), "it calls nobody"


def test_a_patch_under_which_a_file_cannot_be_collected_is_refused(place, tmp_path):
    shutil.copytree(place / "tree", tmp_path / "tree")
    (tmp_path / "tree" / "test" / "test_mend.py").write_text("import nothing_of_this_name\n")
    done = propose(place, "--upstream", str(tmp_path / "tree"), "--out", str(tmp_path / "mend.diff"))
    assert done.returncode == 1
    assert "refused: dry collection: test/test_mend.py cannot be imported" in done.stdout
    assert not (tmp_path / "mend.diff").exists()
