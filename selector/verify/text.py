"""Upstream's text made fit to show: names, messages and logs are data and may hold anything."""

from __future__ import annotations

import re

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
# control characters, marks that reorder text, invisible ones: they can make a line say what it does not
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")
_LONE = re.compile("[\ud800-\udfff]")

MESSAGE = 400
NAME = 300


def clean(text: str | None, limit: int = MESSAGE) -> str:
    """One line of at most ``limit`` characters, without colour codes, control or invisible characters."""
    if not text:
        return ""
    head = text[: limit * 8]  # a megabyte of log is not searched for colours
    flat = " ".join(_LONE.sub("\ufffd", _UNSAFE.sub(" ", _ANSI.sub("", head))).split())
    return flat if len(flat) <= limit else flat[: limit - 1].rstrip() + "…"


def count(number: int, noun: str) -> str:
    """``1 test``, ``2 tests``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
