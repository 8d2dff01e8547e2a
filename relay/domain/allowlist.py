"""The allowlist: which downstream repositories hear of upstream's events, at which level, and who runs their tests.

The public grammar (levels L1 to L4) with keys of our own per entry; docs/allowlist.md shows both. Parsing is pure:
text in, an immutable Allowlist out, or an AllowlistError with line and column. YAML nodes are read, no object is made
of them, so tags and anchors cannot do anything.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from relay.domain.events import is_repo
from relay.errors import AllowlistError

LEVELS = ("L1", "L2", "L3", "L4")
EVENTS = ("pull_request", "nightly")
EXECUTORS = ("github", "workers")
ASSOCIATIONS = ("OWNER", "MEMBER", "COLLABORATOR", "CONTRIBUTOR", "FIRST_TIME_CONTRIBUTOR", "FIRST_TIMER", "NONE")
TRUSTED_BY_DEFAULT = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})
KEYS = ("events", "oncalls", "executor", "device", "trust")

_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_ONCALL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(/[A-Za-z0-9._-]+)?")
_NULL = "tag:yaml.org,2002:null"


@dataclass(frozen=True, slots=True)
class Entry:
    """One downstream. ``repo`` is the canonical spelling, ``key`` the same case folded.

    ``events``: pull_request (which covers push), nightly. ``executor``: github (its own CI is told) or workers (the
    relay runs the tests on ``device``). ``trust``: author associations, and logins as ``@login``, whose changes run
    on our workers without a label; None when the entry does not say (then everybody's run). ``line`` is 1-based.
    """

    repo: str
    key: str
    level: str
    device: str | None = None
    oncalls: tuple[str, ...] = ()
    events: tuple[str, ...] = EVENTS
    executor: str = "github"
    trust: tuple[str, ...] | None = None
    line: int = 0

    def trusts(self, author: str | None, association: str) -> bool:
        """Whether the author counts as trusted here."""
        if self.trust is None:
            return association.upper() in TRUSTED_BY_DEFAULT
        return association.upper() in self.trust or (author is not None and f"@{author.casefold()}" in self.trust)


@dataclass(frozen=True, slots=True)
class Allowlist:
    """All entries in the file's order. ``warnings`` name places that other readers of the file may not understand."""

    entries: tuple[Entry, ...]
    source: str = "allowlist"
    warnings: tuple[str, ...] = ()

    def find(self, repo: str) -> Entry | None:
        """The entry of a repository, in any spelling of upper and lower case."""
        key = repo.casefold()
        return next((entry for entry in self.entries if entry.key == key), None)


def parse(text: str, source: str = "allowlist") -> Allowlist:
    """Reads an allowlist. ``source`` (a path or URL) goes into the errors. Raises AllowlistError."""
    return _Parser(source).parse(text)


class _Loader(yaml.SafeLoader):
    """YAML as people write it here: upstream's own file shows ``[@oncall1,@oncall2]``, though YAML reserves the @."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.bare_at: dict[int, int] = {}  # line -> first column, 1-based

    def check_plain(self) -> bool:
        if super().check_plain():
            return True
        if self.peek() == "@" and re.match(r"[\w-]", self.peek(1)):
            mark = self.get_mark()
            self.bare_at.setdefault(mark.line + 1, mark.column + 1)
            return True
        return False


class _Parser:
    def __init__(self, source: str) -> None:
        self.source = source
        self.entries: dict[str, Entry] = {}
        self.lines: list[str] = []

    def parse(self, text: str) -> Allowlist:
        self.lines = text.splitlines()
        try:
            loader = _Loader(text)
            root = loader.get_single_node()
        except yaml.MarkedYAMLError as exc:
            mark = exc.problem_mark or exc.context_mark
            where = (mark.line + 1, mark.column + 1) if mark else (1, 1)
            raise AllowlistError(
                self.source, *where, f"not valid YAML: {exc.problem}", self._quoting(where[0])
            ) from exc
        except yaml.reader.ReaderError as exc:
            before = text[: exc.position]
            where = (before.count("\n") + 1, exc.position - (before.rfind("\n") + 1) + 1)
            problem = f"the character U+{exc.character:04X} is not allowed in YAML"
            raise AllowlistError(self.source, *where, problem, "remove it") from exc
        except (RecursionError, ValueError) as exc:
            raise AllowlistError(self.source, 1, 1, f"cannot be read as YAML: {exc}", "docs/allowlist.md") from exc
        if root is None or _is_null(root):
            raise AllowlistError(self.source, 1, 1, "the file lists nothing", "an empty file would tell nobody")
        for key, value in self._pairs(root, "the file", f"begin with one of {', '.join(LEVELS)}"):
            if key.value not in LEVELS:
                raise self._unknown(key, "level", LEVELS)
            if not _is_null(value):
                self._level(key.value, value)
        if not self.entries:
            raise self._error(root, "no repository is listed", "an empty allowlist would tell nobody")
        warnings = tuple(
            f"{self.source}:{line}:{column}: YAML reserves the @: other readers refuse this line; {self._quoting(line)}"
            for line, column in loader.bare_at.items()
        )
        return Allowlist(tuple(self.entries.values()), self.source, warnings)

    def _level(self, level: str, node: yaml.Node) -> None:
        if level != "L3":
            self._items(level, node, None)
            return
        if isinstance(node, yaml.SequenceNode):
            self._items(level, node, None)  # each entry must then name its device
            return
        hint = "write L3: {<device>: {owner/repo: [oncalls]}}"
        for device, repos in self._pairs(node, "L3", hint):
            if "/" in device.value:
                raise self._error(device, f"L3 lists devices, and {device.value} is a repository", hint)
            name = self._device(device)
            if isinstance(repos, yaml.SequenceNode):
                self._items(level, repos, name)
            elif not _is_null(repos):
                for repo, value in self._pairs(repos, f"L3 {name}", hint):
                    self._entry(level, name, repo, value)

    def _items(self, level: str, node: yaml.Node, device: str | None) -> None:
        if not isinstance(node, yaml.SequenceNode):
            raise self._error(node, f"{level} must be a list of repositories", "write `- owner/repo` lines below it")
        for item in node.value:
            if isinstance(item, yaml.ScalarNode):
                self._entry(level, device, item, None)
                continue
            pairs = self._pairs(item, f"an item of {level}", "write `- owner/repo` or `- owner/repo: …`")
            if len(pairs) != 1:
                at = pairs[1][0] if pairs else item
                hint = "one repository an item; indent its keys deeper than the repository's name"
                raise self._error(at, f"an item of {level} has {len(pairs)} keys", hint)
            self._entry(level, device, *pairs[0])

    def _entry(self, level: str, device: str | None, name: yaml.Node, value: yaml.Node | None) -> None:
        repo = self._repo(name)
        key = repo.casefold()
        line = name.start_mark.line + 1
        if key in self.entries:
            known = self.entries[key]
            hint = f"{known.repo} stands in line {known.line} as {known.level}; upper and lower case are the same"
            raise self._error(name, f"{repo} is listed twice", hint)
        oncalls: tuple[str, ...] = ()
        events: tuple[str, ...] = EVENTS
        executor = "github"
        trust: tuple[str, ...] | None = None
        if isinstance(value, yaml.MappingNode):
            for field, content in self._pairs(value, repo, ""):
                if field.value == "events":
                    events = self._choices(content, "event", EVENTS)
                elif field.value == "oncalls":
                    oncalls = self._oncalls(content)
                elif field.value == "executor":
                    executor = self._choice(content, "executor", EXECUTORS)
                elif field.value == "trust":
                    trust = self._trust(content)
                elif field.value == "device":
                    own = self._device(content)
                    if device is not None and own != device:
                        raise self._error(content, f"{repo} stands below the device {device} and says {own}")
                    device = own
                else:
                    raise self._unknown(field, "key", KEYS)
        elif value is not None and not _is_null(value):
            oncalls = self._oncalls(value)
        if executor == "workers" and device is None:
            raise self._error(name, f"{repo} has executor workers and no device", "add for example `device: spyre`")
        if level == "L3" and device is None:
            hint = "write L3: {<device>: {owner/repo: [oncalls]}}, or give the entry a `device:`"
            raise self._error(name, f"{repo} is at L3 without a device, so no label can ask for it", hint)
        self.entries[key] = Entry(repo, key, level, device, oncalls, events, executor, trust, line)

    def _repo(self, node: yaml.Node) -> str:
        text = self._scalar(node, "a repository")
        if is_repo(text):
            return text
        hint = "write owner/repo, as on GitHub"
        found = re.match(r"(?:https?://)?(?:www\.)?github\.com/([^/\s]+/[^/\s]+?)(?:\.git)?/?$", text)
        if found and is_repo(found[1]):
            hint = f"write {found[1]}"
        elif is_repo(squeezed := re.sub(r"\s", "", text)):
            hint = f"write {squeezed}, without spaces"
        elif text in KEYS:
            hint = "this looks like a key of an entry: indent it deeper than the repository's name"
        raise self._error(node, f"{text!r} is not a repository", hint)

    def _oncalls(self, node: yaml.Node) -> tuple[str, ...]:
        names: list[str] = []
        for item in self._list(node, "oncalls"):
            for part in self._scalar(item, "an oncall").split(","):
                name = part.strip().removeprefix("@")
                if not name:
                    continue
                if not _ONCALL.fullmatch(name):
                    raise self._error(item, f"{part.strip()!r} is not a login", 'write ["@alice", "@org/team"]')
                if name.casefold() not in (known.casefold() for known in names):
                    names.append(name)
        return tuple(names)

    def _trust(self, node: yaml.Node) -> tuple[str, ...]:
        words: list[str] = []
        for item in self._list(node, "trust"):
            word = self._scalar(item, "a trusted author")
            if word.startswith("@"):
                words.append(word.casefold())
            elif word.upper() in ASSOCIATIONS:
                words.append(word.upper())
            else:
                raise self._unknown(item, "author association", ASSOCIATIONS, " or a login as '@alice'")
        return tuple(dict.fromkeys(words))

    def _device(self, node: yaml.Node) -> str:
        text = self._scalar(node, "a device")
        if not _DEVICE.fullmatch(text):
            raise self._error(node, f"{text!r} is not a device", "letters, digits, - _ . (for example spyre)")
        return text

    def _choices(self, node: yaml.Node, what: str, known: tuple[str, ...]) -> tuple[str, ...]:
        chosen = tuple(dict.fromkeys(self._choice(item, what, known) for item in self._list(node, f"{what}s")))
        if not chosen:
            raise self._error(node, f"no {what} is named", f"leave {what}s out for all of {', '.join(known)}")
        return chosen

    def _choice(self, node: yaml.Node, what: str, known: tuple[str, ...]) -> str:
        text = self._scalar(node, f"the {what}")
        if text not in known:
            raise self._unknown(node, what, known)
        return text

    def _list(self, node: yaml.Node, what: str) -> Iterator[yaml.Node]:
        if isinstance(node, yaml.SequenceNode):
            yield from node.value
        elif isinstance(node, yaml.ScalarNode):
            if not _is_null(node):
                yield node
        else:
            raise self._error(node, f"{what} must be a list, not a map", "write [one, two]")

    def _scalar(self, node: yaml.Node, what: str) -> str:
        if not isinstance(node, yaml.ScalarNode) or _is_null(node):
            raise self._error(node, f"expected {what}, found {_shape(node)}")
        return str(node.value)

    def _pairs(self, node: yaml.Node, what: str, hint: str) -> list[tuple[yaml.ScalarNode, yaml.Node]]:
        if not isinstance(node, yaml.MappingNode):
            raise self._error(node, f"{what} must be a map, not {_shape(node)}", hint)
        seen: dict[str, int] = {}
        for key, _value in node.value:
            text = self._scalar(key, "a key")
            if text in seen:
                raise self._error(key, f"the key {text} stands twice", f"it already stands in line {seen[text]}")
            seen[text] = key.start_mark.line + 1
        return list(node.value)

    def _unknown(self, node: yaml.Node, what: str, known: tuple[str, ...], more: str = "") -> AllowlistError:
        text = str(node.value)
        near = difflib.get_close_matches(text.casefold(), [k.casefold() for k in known], 1, 0.5)
        nearest = next((k for k in known if near and k.casefold() == near[0]), None)
        hint = f"did you mean {nearest}?" if nearest else f"known: {', '.join(known)}{more}"
        return self._error(node, f"unknown {what} {text!r}", hint)

    def _error(self, node: yaml.Node, problem: str, hint: str = "") -> AllowlistError:
        mark = node.start_mark
        return AllowlistError(self.source, mark.line + 1, mark.column + 1, problem, hint)

    def _quoting(self, line: int) -> str:
        """A hint that shows the line with its bare @names quoted."""
        text = self.lines[line - 1] if 0 < line <= len(self.lines) else ""
        if "[" in text:
            quoted = re.sub(r"""(?<![\w"'@/])@[\w/-]+""", lambda m: f'"{m[0]}"', text)
        else:
            quoted = re.sub(r"""(?<=[:-]\s)\s*(@[^#"']*?)\s*(?=#|$)""", lambda m: f'"{m[1]}" ', text)
        return f"write `{quoted.strip()}`" if quoted != text else "docs/allowlist.md shows the grammar"


def _shape(node: yaml.Node) -> str:
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    if isinstance(node, yaml.MappingNode):
        return "a map"
    return "nothing" if _is_null(node) else "a text"


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == _NULL
