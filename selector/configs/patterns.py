"""Matching paths and test names: ``${TORCH_ROOT}/test/**/test_*.py``, ``TestFoo::test_bar``, ``Test.*::test_(a|b)``."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import lru_cache

from selector.configs.model import Place
from selector.model import TestId

_FLOATS = ("float16", "float32", "float64", "bfloat16", "half")
_INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = frozenset((*_FLOATS, *_INTS, "complex32", "complex64", "complex128", "bool"))
_ALIASES = {"half": "float16"}
UPSTREAM_TOKENS = ("TORCH_ROOT", "PYTORCH_ROOT")
DEVICE_TOKENS = ("TORCH_DEVICE_ROOT", "TORCH_SPYRE_ROOT")
OLD_UPSTREAM_TOKENS = ("PYTORCH",)  # in configs older than the two above

_REGEX_CHARS = re.compile(r"[\\.^$*+?{}\[\]|()]")
_TOKEN = re.compile(r"^\$\{([A-Za-z_][A-Za-z0-9_]*)\}(?:/|$)")
DEVICES = frozenset({"spyre", "privateuse1", "openreg", "cpu", "cuda", "meta", "mps", "xpu", "hpu"})
"""Device types that upstream puts between a test's name and its dtype; a sheet's own comes on top."""


def dtype_name(word: str) -> str:
    """The name torch prints for a dtype word of the format (``half`` is ``float16``)."""
    return _ALIASES.get(word, word)


def is_regex(half: str) -> bool:
    return bool(_REGEX_CHARS.search(half))


def generated_base(method: str, devices: Collection[str] = ()) -> str | None:
    """The base name behind a generated one (``test_x_spyre_float16`` -> ``test_x``), None for a base name. ``devices``:
    those of the sheets that are given along."""
    rest, _, dtype = method.rpartition("_")
    if dtype not in DTYPES:
        return None
    for device in (*DEVICES, *devices):
        if rest.endswith(f"_{device}") and len(rest) > len(device) + 1:
            return rest.removesuffix(f"_{device}")
    return None


@dataclass(frozen=True, slots=True)
class NamePattern:
    """One item of ``names``. A half is exact or a regex matched whole; ``cls`` None: any class."""

    text: str
    cls: str | None
    method: str
    cls_regex: re.Pattern[str] | None = None
    method_regex: re.Pattern[str] | None = None
    place: Place | None = field(default=None, compare=False)

    def matches(self, test: TestId) -> bool:
        if self.method_regex is not None:
            if not self.method_regex.fullmatch(test.method):
                return False
        elif self.method != test.method:
            return False
        return self.covers_class(test.cls)

    def covers_class(self, cls: str) -> bool:
        """Whether a test of the class could be meant."""
        if self.cls is None:
            return True
        return bool(self.cls_regex.fullmatch(cls)) if self.cls_regex is not None else self.cls == cls

    @property
    def specificity(self) -> tuple[int, int]:
        """Exact before regex, then a named class before a class pattern before any class."""
        cls = 0 if self.cls is None else 1 if self.cls_regex is not None else 2
        return (0 if self.method_regex is not None else 1, cls)


@dataclass(frozen=True, slots=True)
class PathPattern:
    """The ``path`` of a file entry. ``path`` is None for files of the downstream's own tree and absolute paths."""

    text: str
    path: str | None
    regex: re.Pattern[str] | None = None
    place: Place | None = field(default=None, compare=False)

    def matches(self, path: str) -> bool:
        if self.path is None:
            return False
        return bool(self.regex.fullmatch(path)) if self.regex is not None else path == self.path

    @property
    def specificity(self) -> tuple[int, int]:
        """An exact path before a glob; the longer glob before the shorter."""
        return (1, 0) if self.regex is None else (0, len(self.text))


@lru_cache(maxsize=4096)
def glob_regex(glob: str) -> re.Pattern[str]:
    """A path glob as a regex: ``*`` and ``?`` stay within a folder, ``**`` crosses folders (and matches none)."""
    out, i = [], 0
    while i < len(glob):
        if glob.startswith("**/", i):
            out.append("(?:[^/]+/)*")
            i += 3
        elif glob.startswith("**", i):
            out.append(".*")
            i += 2
        elif glob[i] == "*":
            out.append("[^/]*")
            i += 1
        elif glob[i] == "?":
            out.append("[^/]")
            i += 1
        elif glob[i] == "[" and (end := glob.find("]", i + 2)) > 0:
            inside = glob[i + 1 : end].replace("\\", "\\\\")
            out.append(f"[^{inside[1:]}]" if inside.startswith("!") else f"[{inside}]")
            i = end + 1
        else:
            out.append(re.escape(glob[i]))
            i += 1
    return re.compile("".join(out))


def split_token(text: str) -> tuple[str | None, str]:
    """``${TORCH_ROOT}/test/x.py`` -> (``TORCH_ROOT``, ``test/x.py``)."""
    found = _TOKEN.match(text)
    return (found[1], text[found.end() :]) if found else (None, text)
