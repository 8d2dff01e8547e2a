"""What the format's models share: maps with a place, kinds of values, and pydantic's findings as our problems.

The models (``schema``, ``inputs``, ``capability``) say what may be written; pydantic checks it. :func:`read` turns each
error of pydantic's into a problem at file, line and column, with the way of keys, what is allowed and what is nearest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, TypeVar, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, ValidationError, model_validator
from pydantic import ValidationInfo as Info
from pydantic_core import ErrorDetails, PydanticCustomError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from selector.configs.model import Place
from selector.configs.nodes import Document, is_null, kind, nearest
from selector.configs.values import Map, Seq, as_written

NOWHERE = Place("", 1, 1)
Located = Callable[[Any], Any]


def wrong(code: str, message: str, hint: str = "", *, at: str = "") -> PydanticCustomError:
    """An error for pydantic to carry; ``at``: the key of the map it is about, when it is not about all of it."""
    # pydantic's type asks for literal strings; it takes any
    return PydanticCustomError(cast("Any", code), cast("Any", message), {"hint": hint, "at": at})


def document(info: Info) -> Document:
    """The file that is being read."""
    return cast("Document", info.context)


def lenient(info: Info, value: Any, code: str, message: str, hint: str = "") -> None:
    """What the older tool took without a word: a warning under ``compat``, else an error. Raises the error."""
    doc = document(info)
    if not doc.compat:
        raise wrong(code, message, hint)
    doc.problem(getattr(value, "place", None), code, message, hint, lenient=True)


class Block(BaseModel):
    """A map of the format. Every key is known, nothing is coerced; ``place`` is where it was written."""

    model_config = ConfigDict(extra="forbid", strict=True)
    misplaced: ClassVar[dict[str, tuple[str, str]]] = {}
    """key -> (the key beside which it has no effect, what to do): said apart from unknown keys"""

    _place: Place = PrivateAttr(default=NOWHERE)
    _written: Map = PrivateAttr(default_factory=lambda: Map(NOWHERE))

    @property
    def place(self) -> Place:
        return self._place

    @property
    def written(self) -> Map:
        """The map as it was written, with the places of its values."""
        return self._written

    def place_of(self, key: str) -> Place:
        """The place of a value."""
        doc_place = self._place
        if key not in self._written.nodes:
            return doc_place
        mark = self._written.nodes[key][1].start_mark
        path = f"{doc_place.path}.{key}" if doc_place.path else key
        return Place(doc_place.source, mark.line + 1, mark.column + 1, path)

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, value: Any, handler: Callable[[Any], Any], info: Info) -> Any:
        if isinstance(value, Map):
            value = cls._known(value, info)
        made = handler(value)
        if isinstance(value, Map):
            made._place, made._written = value.place, value
        return made

    @classmethod
    def _known(cls, value: Map, info: Info) -> Map:
        """Without the keys that ``compat`` lets pass; pydantic refuses them otherwise."""
        doc = document(info)
        known = cls.keys()
        gone = [key for key in value if key not in known]
        if not gone or not doc.compat:
            return value
        kept = Map(value.place)
        kept.nodes = {key: pair for key, pair in value.nodes.items() if key not in gone}
        kept.update((key, value[key]) for key in kept.nodes)
        for key in gone:
            code, message, hint = cls.unknown(key, value)
            path = f"{value.place.path}.{key}" if value.place.path else key
            doc.problem(doc.place(value.nodes[key][0], path), code, message, hint, lenient=True)
            if code == "config-misplaced-key":
                _move(value, key, kept[cls.misplaced[key][0]])
        return kept

    @classmethod
    def unknown(cls, key: str, value: Map) -> tuple[str, str, str]:
        """(code, message, hint) for a key that the block does not have."""
        if key in cls.misplaced and cls.misplaced[key][0] in value:
            return "config-misplaced-key", f"{key!r} stands one level too high", cls.misplaced[key][1]
        return "config-unknown-key", f"unknown key {key!r}", nearest(key, cls.keys())

    @classmethod
    def keys(cls) -> dict[str, Any]:
        """Key -> field, by the words that are written."""
        return {field.alias or name: field for name, field in cls.model_fields.items()}


B = TypeVar("B", bound=Block)


def _move(block: Map, key: str, inside: Any) -> None:
    """Puts a misplaced map where it belongs; what is written there already stays."""
    for target in one_or_many(inside) or ():
        given = block[key]
        if isinstance(target, Map) and isinstance(given, Map):
            own = target.get(key)
            merged = Map(given.place)
            for part in (given, own) if isinstance(own, Map) else (given,):
                merged.nodes |= part.nodes
                merged.update(part)
            target.nodes.setdefault(key, block.nodes[key])
            target[key] = merged


# ---------------------------------------------------------------------------------------------------- kinds of values


def _text(value: Any) -> Any:
    if isinstance(value, str) and not value.strip():
        raise wrong("config-type", "must be a text, not an empty one")
    return value


def _number(value: Any) -> Any:
    """YAML 1.1 reads ``1e-3`` as a text; it is taken for the number it is."""
    if isinstance(value, str):
        try:
            value = float(value.replace("_", ""))
        except ValueError:
            return value
    if isinstance(value, float) and value != value:
        raise wrong("config-type", "must be a number, not nan")
    return value


def one_or_many(value: Any) -> Any:
    """A value that stands alone as a list of itself."""
    return value if isinstance(value, list) or value is None else [value]


def _given(value: Any) -> Any:
    if value is None:
        raise wrong("config-null", "must not be empty", "fill it, or take the key out")
    return value


def _never_null(schema: dict[str, Any]) -> None:
    kept = [part for part in schema.pop("anyOf", []) if part != {"type": "null"}]
    schema.update(kept[0] if len(kept) == 1 else {"anyOf": kept} if kept else {})
    schema.pop("default", None)


T = TypeVar("T")
Given = Annotated[T | None, BeforeValidator(_given), Field(json_schema_extra=_never_null)]
"""None where the key is absent; the key without a value is an error"""
TextValue = Annotated[str, BeforeValidator(_text), Field(json_schema_extra={"minLength": 1})]
Raw = Annotated[str, BeforeValidator(lambda value: _text(as_written(value)), json_schema_input_type=str | float)]
"""the characters as written: dates and versions that YAML would turn into something else"""
Number = Annotated[float, BeforeValidator(_number, json_schema_input_type=float | str)]
NotNegative = Annotated[float, Field(ge=0), BeforeValidator(_number, json_schema_input_type=float | str)]
Count = Annotated[int, Field(ge=0)]


# ---------------------------------------------------------------------------------------------------------- reading


def read(doc: Document, model: type[B], value: Any) -> B | None:
    """``value`` as ``model``, with every problem told to ``doc``; what is wrong is left out of the result, which is
    None when nothing is left."""
    for again in (False, True):  # once more without what was found wrong: the rest is looked at too
        try:
            return model.model_validate(value, context=doc)
        except ValidationError as exc:
            errors = exc.errors(include_url=False, include_context=True)
            if again:  # of what is left over
                return None
            for error in errors:
                _tell(doc, model, value, error)
            if not _without(value, [error["loc"] for error in errors]):
                return None
    return None


class _Found:
    """Where a ``loc`` of pydantic's leads: the deepest value that was written, and the way to it."""

    def __init__(self, doc: Document, value: Any, loc: Sequence[int | str]) -> None:
        self.value, self.node, self.key_node = value, doc.node, doc.node
        self.path, self.last, self.parent = "", "", value
        self.steps: list[tuple[Any, int | str]] = []
        for part in loc:
            if isinstance(self.value, Map) and part in self.value.nodes:
                self.key_node, self.node = self.value.nodes[str(part)]
                self.path += f".{part}" if self.path else str(part)
                self.last = str(part)
            elif isinstance(self.value, Seq) and isinstance(part, int) and part < len(self.value):
                self.node = self.key_node = self.value.nodes[part]
                self.path += f"[{part}]"
            else:
                continue  # the name of a branch, or a key that is missing
            self.steps.append((self.value, part))
            self.parent, self.value = self.value, cast("Any", self.value)[part]


_WANTED = {
    "list_type": "a list",
    "model_type": "a map",
    "dict_type": "a map",
    "string_type": "a text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
}
_MISSING = {
    "names": "add names: [TestClass::test_method]",
    "path": "add path: ${TORCH_ROOT}/test/…",
    "shape": "add shape: [] for a scalar",
    "files": "files: [] covers nothing",
}
_WORDS = {"mode": "config-mode", "unlisted_test_mode": "config-mode", "init": "config-init"}


def _tell(doc: Document, model: type[Block], value: Any, error: ErrorDetails) -> None:
    loc, what, context = error["loc"], error["type"], error.get("ctx") or {}
    found = _Found(doc, value, loc)
    node: Node | None = found.node
    name = found.last or "the file"
    if what == "extra_forbidden":
        key = str(loc[-1])
        block = _block_at(model, [part for part in loc[:-1] if isinstance(part, str)])
        doc.problem(doc.place(found.key_node, found.path), *block.unknown(key, found.parent))
    elif what == "missing":
        key = str(loc[-1])
        message = f"{key!r} is missing" + (f" in {found.last}" if found.last else "")
        doc.problem(doc.place(node, found.path), "config-missing-key", message, _MISSING.get(key, ""))
    elif what in _WANTED and is_null(node) if node is not None else False:
        message = f"{name} is empty; it must be {_WANTED[what]}"
        doc.problem(doc.place(node, found.path), "config-null", message, "fill it, or take the key out")
    elif what in ("enum", "literal_error"):
        words = re.findall(r"'([^']*)'", str(context["expected"]))
        code = _WORDS.get(name, "config-value")
        if node is not None and is_null(node):
            message = f"{name} is empty; it must be one of {', '.join(words)}"
            doc.problem(doc.place(node, found.path), "config-null", message, "fill it, or take the key out")
            return
        said = str(node.value) if isinstance(node, ScalarNode) else kind(node) if node is not None else ""
        doc.problem(doc.place(node, found.path), code, f"{name} cannot be {said!r}", nearest(said, words))
    elif what in _WANTED:
        shown = kind(node) if node is not None else "nothing"
        hint = _as_wanted(what, node, found.value)
        doc.problem(doc.place(node, found.path), "config-type", f"{name} must be {_WANTED[what]}, not {shown}", hint)
    elif what == "greater_than_equal":
        message = f"{name} must be at least {context['ge']:g}, not {found.value}"
        doc.problem(doc.place(node, found.path), "config-value", message)
    else:
        at = str(context.get("at") or "")
        if at and isinstance(found.value, Map) and at in found.value.nodes:
            node, found.path = found.value.nodes[at][1], f"{found.path}.{at}"
        code = what if what.startswith("config-") else "config-value"
        message = error["msg"] if code == what else f"{name}: {error['msg']}"
        if message.startswith("must "):
            message = f"{name} {message}"
        doc.problem(doc.place(node, found.path), code, message, str(context.get("hint") or ""))


def _as_wanted(what: str, node: Node | None, value: Any) -> str:
    """How to write a list or a map where the other stands."""
    if what == "model_type" and isinstance(value, str):
        return f"write '- name: {value}'"
    if what in ("model_type", "dict_type") and isinstance(node, SequenceNode):
        return "write its keys below it, without '- ' before them"
    if what == "list_type" and isinstance(node, MappingNode):
        return "write '- ' before the first key of each item"
    return ""


def _block_at(model: type[Block], keys: Sequence[str]) -> type[Block]:
    """The model of the map that a way of keys leads to."""
    block: Any = model
    for key in keys:
        field = block.keys().get(key)
        inner = next(_blocks_in(field.annotation), None) if field is not None else None
        block = inner or block
    return cast("type[Block]", block)


def _blocks_in(annotation: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, Block):
        yield annotation
    for part in getattr(annotation, "__args__", ()):
        yield from _blocks_in(part)


def _without(value: Any, locs: Sequence[Sequence[int | str]]) -> bool:
    """Takes away, in place, the smallest item of a list (else the key) around each error. False: nothing is left."""
    doomed: dict[tuple[int, int | str], tuple[Any, int | str]] = {}
    for loc in locs:
        steps = _Found(_NO_DOCUMENT, value, loc).steps
        item = next((s for s in reversed(steps) if isinstance(s[1], int)), steps[-1] if steps else None)
        if item is None:
            return False
        doomed[id(item[0]), item[1]] = item
    for holder, key in sorted(doomed.values(), key=lambda pair: (isinstance(pair[1], str), -_index(pair[1]))):
        del holder[key], holder.nodes[key]
    return True


def _index(key: int | str) -> int:
    return key if isinstance(key, int) else 0


_NO_DOCUMENT = Document("", "{}")
