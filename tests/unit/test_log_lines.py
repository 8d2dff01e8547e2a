"""A log on a full disk ends no work, and says afterwards what is missing."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from relay.logs import Lines

FULL = "/dev/full"


@pytest.mark.skipif(not os.path.exists(FULL), reason="NOT RUN: there is no /dev/full here")
def test_a_line_that_cannot_be_written_ends_nothing_and_is_told_of(tmp_path):
    path = tmp_path / "log"
    with open(FULL, "w") as full, path.open("w") as good:
        lines = Lines(full)
        lines.write("one\n")
        lines.write("two\n")
        assert lines.lost == 2
        os.dup2(good.fileno(), full.fileno())  # there is room again
        lines.write("three\n")
    told, rest = path.read_text().splitlines()
    assert json.loads(told)["lines"] == 2
    assert rest == "three"
    assert lines.lost == 0


@pytest.mark.skipif(not os.path.exists(FULL), reason="NOT RUN: there is no /dev/full here")
def test_a_process_goes_on_whatever_its_log_is():
    code = (
        "import logging, sys, structlog\n"
        "from relay.logs import setup\n"
        "setup('x')\n"
        "structlog.get_logger().warning('a line')\n"
        "logging.getLogger('library').error('another')\n"
        "print('done')\n"
        "sys.stdout.flush()\n"
    )
    with open(FULL, "w") as full:
        done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=full, text=True, check=False)
    assert done.stdout == "done\n"


def test_a_stream_without_a_file_is_written_to(capsys):
    Lines(sys.stderr).write("seen\n")
    assert capsys.readouterr().err == "seen\n"
