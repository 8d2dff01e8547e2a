"""Reading ``names`` and ``path``: what they may look like, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import PlainValidator, WithJsonSchema
from pydantic import ValidationInfo as Info
from pydantic_core import PydanticCustomError

from selector.configs.blocks import document, lenient, wrong
from selector.configs.nodes import nearest
from selector.configs.patterns import (
    DEVICE_TOKENS,
    DEVICES,
    OLD_UPSTREAM_TOKENS,
    UPSTREAM_TOKENS,
    NamePattern,
    PathPattern,
    generated_base,
    glob_regex,
    is_regex,
    split_token,
)

_GENERATED_CLASS = ("PRIVATEUSE1", "SPYRE")
"""Upstream puts the device type behind a class; of CPU and CUDA some classes are called so in the source."""
_WORD = re.compile(r"[A-Za-z_]\w*")


def read_name(value: Any, info: Info) -> NamePattern:
    """``method``, ``Class::method`` or a regex in either half."""
    text = _text(value)
    place = getattr(value, "place", None)
    halves = text.split("::")
    if len(halves) > 2 or not all(half.strip() for half in halves):
        raise wrong("config-name", f"{text!r} is not a test name", "write method or Class::method")
    method, cls = halves[-1], halves[0] if len(halves) == 2 else None
    for half in halves:
        if not is_regex(half) and not _WORD.fullmatch(half):
            hint = "allowed: method, Class::method, and a regex in the place of either"
            raise wrong("config-name", f"{half!r} in {text!r} is neither a Python name nor a regex", hint)
    base = generated_base(method, document(info).devices)
    if base is not None:
        proposed = f"{cls}::{base}" if cls else base
        hint = f"write {proposed!r} (without the op's name, if it has one) and name op and dtype under edits"
        lenient(info, value, "config-generated-name", f"{text!r} is a generated name", hint)
        method = base
    base_class = _generated_class(cls, document(info).devices) if cls and not is_regex(cls) else None
    if base_class is not None:
        hint = f"write {base_class + '::' + method!r}"
        lenient(info, value, "config-generated-name", f"{cls!r} is a generated class name", hint)
        cls = base_class
    method_regex = _regex(info, value, method) if is_regex(method) else None
    cls_regex = _regex(info, value, cls) if cls and is_regex(cls) else None
    return NamePattern(text, cls, method, cls_regex, method_regex, place)


def _generated_class(cls: str, devices: Iterable[str]) -> str | None:
    """The class behind a generated one's name, None for a class of the source."""
    own = (device.upper() for device in devices if len(device) > 2 and device not in DEVICES)
    for ending in (*_GENERATED_CLASS, *own):
        if cls.endswith(ending) and cls != ending:
            return cls.removesuffix(ending)
    return None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise PydanticCustomError("string_type", "must be a text")
    if not value.strip():
        raise wrong("config-type", "must be a text, not an empty one")
    return str(value)


def _regex(info: Info, value: Any, half: str) -> re.Pattern[str]:
    try:
        return re.compile(half)
    except re.error as e:
        glob_like = set(re.findall(r"[^\w]", half)) <= {"*", "?"}
        as_regex = half.replace("*", ".*").replace("?", ".")
        hint = f"write {as_regex!r}" if glob_like else "it must be a whole regex"
        message = f"broken regex {half!r}: {e.msg} at position {e.pos}"
        if not glob_like:
            raise wrong("config-regex", message, hint) from None
        # never matched as written before, since the class half did not count; read as the glob it looks like
        lenient(info, value, "config-regex", message, hint)
        return re.compile(as_regex)


def read_path(value: Any, info: Info) -> PathPattern:
    """A path or glob, after one of the tokens; without a token it is relative to upstream's root."""
    text = _text(value)
    doc = document(info)
    place = getattr(value, "place", None)
    token, rest = split_token(text)
    if token in OLD_UPSTREAM_TOKENS:
        hint = f"write ${{{UPSTREAM_TOKENS[0]}}}"
        lenient(info, value, "config-path", f"${{{token}}} is an old name", hint)
    elif token is None and "${" in text:
        raise wrong("config-path", f"{text!r}: a token can only stand at the beginning")
    elif token is not None and token not in UPSTREAM_TOKENS + DEVICE_TOKENS:
        hint = nearest(token, UPSTREAM_TOKENS + DEVICE_TOKENS)
        raise wrong("config-path", f"unknown token ${{{token}}}", hint)
    if token in DEVICE_TOKENS:
        return PathPattern(text, None, None, place)
    if rest.startswith("/"):
        hint = f"write ${{{UPSTREAM_TOKENS[0]}}}/test/…"
        lenient(info, value, "config-path", f"an absolute path fits one machine only: {text!r}", hint)
        return PathPattern(text, None, None, place)
    if not rest or any(part in ("", ".", "..") for part in rest.split("/")):
        raise wrong("config-path", f"{text!r} is not a path inside the upstream tree")
    if token is None:
        hint = f"write ${{{UPSTREAM_TOKENS[0]}}}/{rest}"
        doc.problem(place, "config-path", f"{text!r} has no token and is read as upstream's", hint, warn=True)
    if not any(c in rest for c in "*?["):
        return PathPattern(text, rest, None, place)
    try:
        return PathPattern(text, rest, glob_regex(rest), place)
    except re.error as e:
        raise wrong("config-path", f"broken glob {rest!r}: {e.msg}") from None


_NAME_SCHEMA = {
    "type": "string",
    "minLength": 1,
    "description": "method or Class::method of the source file; each half exact, or a regex that must match whole.",
}
_PATH_SCHEMA = {
    "type": "string",
    "minLength": 1,
    "description": "${TORCH_ROOT}/test/test_x.py; globs too, ** crosses folders.",
}
Name = Annotated[NamePattern, PlainValidator(read_name), WithJsonSchema(_NAME_SCHEMA)]
Path = Annotated[PathPattern, PlainValidator(read_path), WithJsonSchema(_PATH_SCHEMA)]
