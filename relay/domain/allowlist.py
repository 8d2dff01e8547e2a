"""The allowlist: which downstream repositories hear of upstream's events, at which level, and who runs their tests.

The public grammar (levels L1 to L4) with keys of our own per entry; docs/allowlist.md shows both. Parsing is pure:
text in, an immutable Allowlist out, or an AllowlistError with line and column. YAML nodes are read, no object is made
of them, so tags and anchors cannot do anything.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from relay.domain.allowlist_entry import ASSOCIATIONS, EVENTS, EXECUTORS, LEVELS, Allowlist, Deadlines, Entry
from relay.domain.fields import MAX_ID, is_repo
from relay.domain.refs import problem as glob_problem
from relay.domain.yaml_nodes import NodeReader, is_null
from relay.errors import AllowlistError

__all__ = ["EVENTS", "LEVELS", "Allowlist", "Deadlines", "Entry", "parse"]

KEYS = (
    "events", "oncalls", "executor", "device", "trust", "deadlines", "pushes", "refs", "workflows", "id", "drafts",
    "configs",
)  # fmt: skip
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LIMITS = {"start": ("1m", "7d"), "run": ("1m", "30d")}
"""GitHub itself ends a job on hosted runners after 6 hours and lets one on own machines run for 5 days."""

_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_FOLDER = re.compile(r"[\w.-]+(/[\w.-]+){0,15}", re.ASCII)
_ONCALL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(/[A-Za-z0-9._-]+)?")


def parse(text: str, source: str = "allowlist") -> Allowlist:
    """Reads an allowlist. ``source`` (a path or URL) goes into the errors. Raises AllowlistError."""
    return _Parser(source).parse(text)


class _Parser(NodeReader):
    error = AllowlistError
    page = "docs/allowlist.md"

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.entries: dict[str, Entry] = {}

    def parse(self, text: str) -> Allowlist:
        root, bare_at = self._compose(text)
        if root is None or is_null(root):
            raise AllowlistError(self.source, 1, 1, "the file lists nothing", "an empty file would tell nobody")
        for key, value in self._pairs(root, "the file", f"begin with one of {', '.join(LEVELS)}"):
            if key.value not in LEVELS:
                raise self._unknown(key, "level", LEVELS)
            if not is_null(value):
                self._level(key.value, value)
        if not self.entries:
            raise self._error(root, "no repository is listed", "an empty allowlist would tell nobody")
        warnings = tuple(
            f"{self.source}:{line}:{column}: YAML reserves the @: other readers refuse this line; {self._quoting(line)}"
            for line, column in bare_at.items()
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
            elif not is_null(repos):
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
        told: dict[str, Any] = {}
        if isinstance(value, yaml.MappingNode):
            for field, content in self._pairs(value, repo, ""):
                told[field.value] = self._value(field, content)
                if field.value == "device" and device not in (None, told["device"]):
                    raise self._error(content, f"{repo} stands below the device {device} and says {told['device']}")
        elif value is not None and not is_null(value):
            told["oncalls"] = self._oncalls(value)
        told["device"] = device = told.get("device") or device
        executor = told.get("executor", "github")
        if executor == "workers" and device is None:
            raise self._error(name, f"{repo} has executor workers and no device", "add for example `device: spyre`")
        if level == "L3" and device is None:
            hint = "write L3: {<device>: {owner/repo: [oncalls]}}, or give the entry a `device:`"
            raise self._error(name, f"{repo} is at L3 without a device, so no label can ask for it", hint)
        self.entries[key] = Entry(repo, key, level, line=line, **told)

    def _value(self, field: yaml.Node, content: yaml.Node) -> object:
        """The value of one key of an entry."""
        key = str(field.value)
        if key == "events":
            return self._choices(content, "event", EVENTS)
        if key == "oncalls":
            return self._oncalls(content)
        if key == "executor":
            return self._choice(content, "executor", EXECUTORS)
        if key == "trust":
            return self._trust(content)
        if key == "device":
            return self._device(content)
        if key == "deadlines":
            return self._deadlines(content)
        if key in ("pushes", "refs", "workflows"):
            return self._globs(content, key)
        if key == "id":
            return self._id(content)
        if key == "drafts":
            return self._choice(content, "word for drafts", ("true", "false")) == "true"
        if key == "configs":
            return self._folder(content)
        raise self._unknown(field, "key", KEYS)

    def _folder(self, node: yaml.Node) -> str:
        text = self._scalar(node, "a folder").strip("/")
        if not _FOLDER.fullmatch(text) or ".." in text.split("/") or "." in text.split("/"):
            hint = "write it from the repository's root, for example tests/configs"
            raise self._error(node, f"{text!r} is not a folder of the repository", hint)
        return text

    def _deadlines(self, node: yaml.Node) -> Deadlines:
        found: dict[str, float] = {}
        for field, content in self._pairs(node, "deadlines", "write deadlines: {start: 30m, run: 24h}"):
            if field.value not in _LIMITS:
                raise self._unknown(field, "deadline", tuple(_LIMITS))
            found[f"{field.value}_s"] = self._duration(content, *_LIMITS[field.value])
        return Deadlines(**found)

    def _duration(self, node: yaml.Node, least: str, most: str) -> float:
        text = self._scalar(node, "a time")
        match = re.fullmatch(r"(\d{1,6})([smhd])", text)
        if match is None:
            raise self._error(node, f"{text!r} is not a time", "write for example 90s, 30m, 24h or 5d")
        seconds = int(match[1]) * _UNITS[match[2]]
        if not _seconds(least) <= seconds <= _seconds(most):
            raise self._error(node, f"{text} is not between {least} and {most}")
        return float(seconds)

    def _globs(self, node: yaml.Node, key: str) -> tuple[str, ...]:
        globs = tuple(dict.fromkeys(self._glob(item) for item in self._list(node, key)))
        if not globs:
            raise self._error(node, f"{key} lists nothing", f"leave {key} out for all")
        return globs

    def _glob(self, node: yaml.Node) -> str:
        text = self._scalar(node, "a glob")
        if problem := glob_problem(text):
            raise self._error(node, f"{text!r}: {problem}", "for example main, release/*, .github/workflows/ci.yml")
        return text

    def _id(self, node: yaml.Node) -> int:
        text = self._scalar(node, "GitHub's number of the repository")
        if not (text.isascii() and text.isdigit() and 0 < int(text) <= MAX_ID):
            raise self._error(node, f"{text!r} is not GitHub's number of a repository", "see `gh api repos/OWNER/REPO`")
        return int(text)

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


def _seconds(text: str) -> int:
    return int(text[:-1]) * _UNITS[text[-1]]
