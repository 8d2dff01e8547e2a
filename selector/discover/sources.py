"""What upstream's own sources import and include, read by pattern: who uses a changed file of torch.

Kept a folder of sources at a time, by the contents of its files: a change reads the folders again that it touches.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from selector.discover.cache import InventoryCache
from selector.discover.normal import digest
from selector.discover.records import Import
from selector.model import Tree

_FORMAT = "src1"
_MAX_BYTES = 4_000_000
_IMPORT = re.compile(
    rb"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n#;]+)|import[ \t]+([\w., \t]+))", re.MULTILINE
)
_INCLUDE = re.compile(rb"^[ \t]*#[ \t]*include[ \t]+[<\"]([^>\"\n]+)[>\"]", re.MULTILINE)
_COMMENT = re.compile(r"#[^\n]*")
_ROOTS = ("", "aten/src/", "torch/csrc/api/include/")
"""where an include's path may start"""

Row = list[str]
"""an import: module, name, local name; an include: the path as written"""


def is_module(path: str) -> bool:
    return path.startswith(("torch/", "functorch/")) and path.endswith(".py")


def is_native(path: str) -> bool:
    return path.startswith(("aten/src/ATen/", "c10/", "torch/csrc/")) and path.endswith(
        (".h", ".hpp", ".cuh", ".cpp", ".cc", ".cu", ".inl")
    )


class Sources:
    """Imports and includes of one tree's sources, read when first asked for."""

    def __init__(self, tree: Tree, cache: InventoryCache | None) -> None:
        self.tree, self.cache = tree, cache
        self._users: dict[str, list[tuple[str, Import]]] | None = None
        self._includers: dict[str, list[str]] | None = None
        self.unread = 0
        """files that are listed and whose content is not there"""

    def importers(self, path: str) -> list[tuple[str, Import]]:
        """(module of torch, its import) of everything that imports something by the last part of this module's name;
        what exactly, ``imports.taken`` says."""
        if self._users is None:
            users: dict[str, list[tuple[str, Import]]] = defaultdict(list)
            for at, rows in self._rows("py", is_module, _imports).items():
                for module, name, local in rows:
                    level = len(module) - len(module.lstrip("."))
                    one = Import(local, module[level:], name, level, 0)
                    for stem in {one.module.rpartition(".")[2], name} - {""}:
                        users[stem].append((at, one))
            self._users = users
        return [(at, one) for at, one in self._users.get(_stem(path), []) if at != path]

    def includers(self, path: str) -> list[str]:
        """Sources that include the file themselves."""
        if self._includers is None:
            found: dict[str, list[str]] = defaultdict(list)
            paths = self.tree.paths()
            for at, rows in self._rows("cpp", is_native, _includes).items():
                for (written,) in rows:
                    near = posixpath.normpath(posixpath.join(posixpath.dirname(at), written))
                    for target in (near, *(root + written for root in _ROOTS)):
                        if target in paths:
                            found[target].append(at)
                            break
            self._includers = found
        return self._includers.get(path, [])

    def _rows(
        self, kind: str, wanted: Callable[[str], bool], read: Callable[[bytes], list[Row]]
    ) -> Mapping[str, list[Row]]:
        folders: dict[str, dict[str, str]] = defaultdict(dict)
        for path, content in self.tree.paths().items():
            if wanted(path):
                folders["/".join(path.split("/")[:-1][:5])][path] = content
        found: dict[str, list[Row]] = {}
        for files in folders.values():
            key = f"{_FORMAT}-{kind}-{digest(f'{path}={content}' for path, content in sorted(files.items()))}"
            found.update(self._folder(key, files, read))
        return found

    def _folder(self, key: str, files: Mapping[str, str], read: Callable[[bytes], list[Row]]) -> dict[str, list[Row]]:
        data = self.cache.get(key) if self.cache is not None else None
        if data is not None:
            try:
                known = json.loads(data)
                if isinstance(known, dict) and known.keys() == files.keys():
                    return known
            except ValueError:
                pass  # damaged: read again and overwritten
        found: dict[str, list[Row]] = {}
        unread = 0
        for path in files:
            try:
                source = self.tree.read(path)
            except (KeyError, OSError):
                unread += 1
                source = b""
            found[path] = read(source[:_MAX_BYTES])
        self.unread += unread
        if self.cache is not None and not unread:
            self.cache.put(key, json.dumps(found, separators=(",", ":")).encode())
        return found


def _imports(source: bytes) -> list[Row]:
    rows: list[Row] = []
    for match in _IMPORT.finditer(source):
        module, names, plain = (part.decode("utf-8", "replace") if part is not None else "" for part in match.groups())
        for name, local in _named(names or plain):
            if module:
                rows.append([module, name, local])
            else:
                rows.append([name, "", local if local != name else name.partition(".")[0]])
    return rows


def _named(text: str) -> Iterable[tuple[str, str]]:
    for part in _COMMENT.sub("", text).strip("()\n \t").replace("\\\n", " ").split(","):
        words = part.split()
        if words and (len(words) == 1 or (len(words) == 3 and words[1] == "as")):
            yield words[0], words[-1]


def _includes(source: bytes) -> list[Row]:
    return [[match.decode("utf-8", "replace")] for match in dict.fromkeys(_INCLUDE.findall(source))]


def _stem(path: str) -> str:
    stem = posixpath.basename(path).removesuffix(".py")
    return posixpath.basename(posixpath.dirname(path)) if stem == "__init__" else stem
