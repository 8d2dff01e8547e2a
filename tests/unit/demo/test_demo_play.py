"""The demo's folder, port and settings file; that it refuses to empty a folder that is not its own."""

import json
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from relay.demo import play
from relay.demo.__main__ import main
from relay.demo.children import start
from relay.demo.upstream import DemoError
from relay.domain.allowlist import parse


def test_a_foreign_folder_is_not_touched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "thesis.tex").write_text("the only copy")
    assert main(["--dir", str(tmp_path), "--once"]) == 2
    said = capsys.readouterr().err
    assert "no demo made it" in said
    assert "--dir" in said
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_later_run_keeps_caches_only(tmp_path: Path) -> None:
    with play._folder(tmp_path / "demo") as folder:
        for name in ("cache", "worker", "upstream"):
            (folder / name).mkdir()
        (folder / "relay.sqlite3").touch()
        (folder / "link").symlink_to(tmp_path)
    with play._folder(tmp_path / "demo") as folder:
        assert {p.name for p in folder.iterdir()} == {"cache", "worker", play.MARK}
    assert tmp_path.is_dir()


def test_two_demos_in_one_folder_are_refused(tmp_path: Path) -> None:
    with (
        play._folder(tmp_path / "demo"),
        pytest.raises(DemoError, match="another demo"),
        play._folder(tmp_path / "demo"),
    ):
        pass


def test_a_taken_port_is_passed_over() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert play.free_port(port) not in (0, port)


def test_the_settings_file_is_toml() -> None:
    values = {
        "data_dir": '/tmp/a "b" \\ ü',
        "port": 8460,
        "shard_seconds": 5.0,
        "oidc_issuers": [{"issuer": "http://127.0.0.1:1"}],
    }
    assert tomllib.loads(play.toml(values)) == values


def test_the_allowlist_is_valid_and_says_who_runs_what() -> None:
    entries = {e.repo: e for e in parse(play.ALLOWLIST, "allowlist.yml").entries}
    assert (entries["torch-spyre/torch-spyre"].executor, entries["torch-spyre/torch-spyre"].device) == (
        "workers",
        "spyre",
    )
    assert (entries["example-org/backend-ci"].executor, entries["example-org/backend-ci"].level) == ("github", "L2")


def test_a_child_that_ends_is_told_with_its_last_words(tmp_path: Path) -> None:
    it = start("child", [sys.executable, "-c", "import sys; sys.exit('no such luck')"], {}, tmp_path / "logs")
    with pytest.raises(DemoError, match="ended with code 1:\n  no such luck"):
        it.wait_ready(20)


def test_a_child_that_says_nothing_is_not_waited_for_ever(tmp_path: Path) -> None:
    it = start("child", [sys.executable, "-c", "import time; time.sleep(60)"], {}, tmp_path / "logs")
    with pytest.raises(DemoError, match="is not ready after"):
        it.wait_ready(0.2)
    it.stop(grace_s=5)
    assert it.process.returncode != 0


def test_a_child_ends_with_its_parent(tmp_path: Path) -> None:
    parent = f"""
import os, signal, sys
from pathlib import Path
from relay.demo.children import start
it = start("child", [sys.executable, "-c", sys.argv[1]], {{}}, Path({str(tmp_path / "logs")!r}))
print(it.wait_ready(20)["pid"], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    code = "import json, os, time; print(json.dumps(dict(event='ready', pid=os.getpid())), flush=True); time.sleep(60)"
    done = subprocess.run([sys.executable, "-c", parent, code], capture_output=True, text=True, timeout=60)
    pid = int(done.stdout)
    for _ in range(200):
        if not _alive(pid):
            return
        subprocess.run(["sleep", "0.02"], check=True)
    raise AssertionError(f"process {pid} lives on without its parent")


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_the_ready_line_is_found_among_others(tmp_path: Path) -> None:
    said = json.dumps({"event": "ready", "url": "http://x"})
    it = start("child", [sys.executable, "-c", f"print('hello'); print({said!r})"], {}, tmp_path / "logs")
    assert it.wait_ready(20)["url"] == "http://x"
    it.stop(grace_s=5)
