"""Reading ``names`` and ``path``: what they may look like, and what to write instead."""

from __future__ import annotations

import re

from yaml.nodes import Node

from selector.configs.nodes import Document, nearest
from selector.configs.patterns import (
    DEVICE_TOKENS,
    OLD_UPSTREAM_TOKENS,
    UPSTREAM_TOKENS,
    NamePattern,
    PathPattern,
    generated_base,
    glob_regex,
    is_regex,
    split_token,
)

_GENERATED_CLASS = re.compile(r"^(?P<base>.+?)(?:PRIVATEUSE1|SPYRE)$")
_WORD = re.compile(r"[A-Za-z_]\w*")


def read_name(doc: Document, node: Node) -> NamePattern | None:
    """``method``, ``Class::method`` or a regex in either half."""
    text = doc.text(node, "a name")
    if text is None:
        return None
    halves = text.split("::")
    if len(halves) > 2 or not all(half.strip() for half in halves):
        doc.problem(node, "config-name", f"{text!r} is not a test name", "write method or Class::method")
        return None
    method, cls = halves[-1], halves[0] if len(halves) == 2 else None
    for half in halves:
        if not is_regex(half) and not _WORD.fullmatch(half):
            doc.problem(node, "config-name", f"{half!r} in {text!r} is neither a Python name nor a regex")
            return None
    base = generated_base(method)
    if base is not None:
        proposed = f"{cls}::{base}" if cls else base
        hint = f"write {proposed!r} (without the op's name, if it has one) and name op and dtype under edits"
        doc.problem(node, "config-generated-name", f"{text!r} is a generated name", hint, lenient=True)
        method = base
    generated = _GENERATED_CLASS.match(cls) if cls and not is_regex(cls) else None
    if generated:
        hint = f"write {generated['base'] + '::' + method!r}"
        doc.problem(node, "config-generated-name", f"{cls!r} is a generated class name", hint, lenient=True)
        cls = generated["base"]
    method_regex = _regex(doc, node, method) if is_regex(method) else None
    cls_regex = _regex(doc, node, cls) if cls and is_regex(cls) else None
    if (is_regex(method) and method_regex is None) or (cls and is_regex(cls) and cls_regex is None):
        return None
    return NamePattern(text, cls, method, cls_regex, method_regex, *doc.place(node))


def _regex(doc: Document, node: Node, half: str) -> re.Pattern[str] | None:
    try:
        return re.compile(half)
    except re.error as e:
        glob_like = set(re.findall(r"[^\w]", half)) <= {"*", "?"}
        hint = f"write {half.replace('*', '.*').replace('?', '.')!r}" if glob_like else "it must be a whole regex"
        message = f"broken regex {half!r}: {e.msg} at position {e.pos}"
        # never matched as written before, since the class half did not count; read as the glob it looks like
        doc.problem(node, "config-regex", message, hint, lenient=glob_like)
        return re.compile(half.replace("*", ".*").replace("?", ".")) if glob_like and doc.compat else None


def read_path(doc: Document, node: Node) -> PathPattern | None:
    """A path or glob, after one of the tokens; without a token it is relative to upstream's root."""
    text = doc.text(node, "path")
    if text is None:
        return None
    token, rest = split_token(text)
    if token in OLD_UPSTREAM_TOKENS:
        hint = f"write ${{{UPSTREAM_TOKENS[0]}}}"
        doc.problem(node, "config-path", f"${{{token}}} is an old name", hint, lenient=True)
    elif token is None and "${" in text:
        doc.problem(node, "config-path", f"{text!r}: a token can only stand at the beginning")
        return None
    elif token is not None and token not in UPSTREAM_TOKENS + DEVICE_TOKENS:
        doc.problem(node, "config-path", f"unknown token ${{{token}}}", nearest(token, UPSTREAM_TOKENS + DEVICE_TOKENS))
        return None
    if token in DEVICE_TOKENS:
        return PathPattern(text, None)
    if rest.startswith("/"):
        hint = f"write ${{{UPSTREAM_TOKENS[0]}}}/test/…"
        doc.problem(node, "config-path", f"an absolute path fits one machine only: {text!r}", hint, lenient=True)
        return PathPattern(text, None)
    if not rest or any(part in ("", ".", "..") for part in rest.split("/")):
        doc.problem(node, "config-path", f"{text!r} is not a path inside the upstream tree")
        return None
    if token is None:
        hint = f"write ${{{UPSTREAM_TOKENS[0]}}}/{rest}"
        doc.problem(node, "config-path", f"{text!r} has no token and is read as upstream's", hint, warn=True)
    if not any(c in rest for c in "*?["):
        return PathPattern(text, rest, None, *doc.place(node))
    try:
        return PathPattern(text, rest, glob_regex(rest), *doc.place(node))
    except re.error as e:
        doc.problem(node, "config-path", f"broken glob {rest!r}: {e.msg}")
        return None
