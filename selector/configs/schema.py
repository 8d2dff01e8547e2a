"""From nodes to the values of ``tree``: every key of the format, each checked at its place."""

from __future__ import annotations

import re
from collections.abc import Callable

from yaml.nodes import MappingNode, Node

from selector.configs.inputs import check_input_sets, check_inputs
from selector.configs.model import Precision
from selector.configs.names import read_name, read_path
from selector.configs.nodes import Document, Fields, nearest
from selector.configs.patterns import DTYPES, dtype_name
from selector.configs.selectors import read_selectors
from selector.configs.tree import Edits, FileEntry, Globals, Item, Place, Selectors, TestEntry, Why
from selector.model import Mode

MODES = tuple(m.value for m in Mode)
_WHY = ("reason", "issue", "evidence", "until")
_LATER = ("platform",)
_ISSUE = re.compile(r"https?://\S+|[A-Za-z0-9][\w.-]*/[\w.-]+#\d+|#\d+")
_UNTIL = re.compile(r"\d{4}-\d{2}-\d{2}|v?\d+\.\d+(?:\.\d+)?")

FILE_KEYS = ("path", "unlisted_test_mode", "tests", "labels", "allow_empty", "bypass_device_restrictions", *_WHY)
TEST_KEYS = ("names", "mode", "tags", "labels", "no_grad", "edits", "selectors", "bypass_device_restrictions", *_WHY)
GLOBAL_KEYS = ("supported_dtypes", "supported_ops", "supported_modules", "input_config", "devices")
EDIT_KEYS = ("ops", "dtypes", "modules", "functions", "inputs")
ITEM_KEYS = ("name", "description", *_WHY)
OP_KEYS = ("tags", "sample_inputs_func")
DTYPE_KEYS = ("precision", "force_xfail")
MODULE_KEYS = ("module_path", "apply_device_layout", "constructor_inputs", "forward_inputs", "sample_inputs_func")
SUPPORTED_KEYS = ("force_xfail", "dtypes", "constructor_inputs", "forward_inputs")
DEVICE_TYPES = ("cpu", "cuda", "meta", "mps", "xpu", "hpu", "xla", "privateuse1", "spyre", "openreg")

ReadItem = Callable[[Document, Node, str], Item | None]


def place(doc: Document, node: Node) -> Place:
    return Place(doc.name, *doc.place(node))


def read_files(doc: Document, node: Node) -> tuple[FileEntry, ...]:
    entries = (_read_file(doc, item) for item in doc.items(node, "files"))
    return tuple(e for e in entries if e is not None)


def _read_file(doc: Document, node: Node) -> FileEntry | None:
    found = doc.fields(node, "a file entry", FILE_KEYS)
    if found is None:
        return None
    path = read_path(doc, found["path"][1]) if "path" in found else None
    if "path" not in found:
        doc.problem(node, "config-missing-key", "a file entry has no path", "add path: ${TORCH_ROOT}/test/…")
    unlisted = doc.each(found, "unlisted_test_mode", lambda n: read_mode(doc, n, "unlisted_test_mode"))
    tests = [_read_test(doc, item) for item in doc.items(found["tests"][1], "tests")] if "tests" in found else []
    labels = doc.each(found, "labels", lambda n: doc.texts(n, "labels")) or ()
    empty = doc.each(found, "allow_empty", lambda n: doc.flag(n, "allow_empty")) or False
    why = _read_why(doc, found)
    if path is None:
        return None
    kept = tuple(t for t in tests if t is not None)
    return FileEntry(place(doc, node), path, unlisted or Mode.SKIP, kept, labels, empty, why, _read_bypass(doc, found))


def read_mode(doc: Document, node: Node, what: str) -> Mode | None:
    word = doc.word(node, what, MODES, "config-mode")
    return Mode(word) if word in MODES else None


def _read_test(doc: Document, node: Node) -> TestEntry | None:
    _later(doc, node)
    found = doc.fields(node, "a test entry", (*TEST_KEYS, *_LATER))
    if found is None:
        return None
    if "names" not in found:
        doc.problem(node, "config-missing-key", "a test entry has no names", "add names: [TestClass::test_method]")
        return None
    names_node = found["names"][1]
    items = doc.items(names_node, "names") if not _is_text(names_node) else [names_node]
    names = tuple(n for n in (read_name(doc, item) for item in items) if n is not None)
    mode = doc.each(found, "mode", lambda n: read_mode(doc, n, "mode")) or Mode.MANDATORY_SUCCESS
    edits = doc.fields(found["edits"][1], "edits", EDIT_KEYS) if "edits" in found else None
    edits = edits or {}
    if "inputs" in edits:
        check_input_sets(doc, edits["inputs"][1], "edits.inputs")
    return TestEntry(
        place=place(doc, names_node),
        names=names,
        mode=mode,
        why=_read_why(doc, found),
        tags=doc.each(found, "tags", lambda n: doc.texts(n, "tags")) or (),
        labels=doc.each(found, "labels", lambda n: doc.texts(n, "labels")) or (),
        no_grad=doc.each(found, "no_grad", lambda n: doc.flag(n, "no_grad")) or False,
        ops=_read_edits(doc, edits, "ops", _read_included_op),
        dtypes=_read_edits(doc, edits, "dtypes", read_dtype),
        modules=_read_edits(doc, edits, "modules", _read_included_module),
        cpu_move=_read_functions(doc, edits),
        selectors=doc.each(found, "selectors", lambda n: read_selectors(doc, n)) or Selectors(),
        bypass=_read_bypass(doc, found),
    )


def _is_text(node: Node) -> bool:
    return bool(node.tag == "tag:yaml.org,2002:str")


def _later(doc: Document, node: Node) -> None:
    """Keys that the RFC plans and we do not apply: refused, since ignoring them would run the wrong tests."""
    if not isinstance(node, MappingNode):
        return
    for key, _ in node.value:
        if str(key.value) in _LATER:
            hint = "take it out; entries apply to every device of this config"
            doc.problem(key, "config-not-supported", f"{key.value!r} is not supported yet", hint, lenient=True)


def _read_bypass(doc: Document, found: Fields) -> tuple[str, ...]:
    """Device types, checked against those that upstream's tests are limited to."""
    if "bypass_device_restrictions" not in found:
        return ()
    return _read_devices(doc, found["bypass_device_restrictions"][1], "bypass_device_restrictions")


def _read_devices(doc: Document, node: Node, what: str) -> tuple[str, ...]:
    words = (doc.word(item, f"an item of {what}", DEVICE_TYPES, "config-value") for item in doc.items(node, what))
    return tuple(w for w in words if w in DEVICE_TYPES)


def _read_why(doc: Document, found: Fields) -> Why:
    def text(key: str) -> str:
        return doc.each(found, key, lambda n: doc.raw(n, key)) or ""

    why = Why(" ".join(text("reason").split()), text("issue"), text("evidence"), text("until"))
    if why.issue and not _ISSUE.fullmatch(why.issue):
        node, hint = found["issue"][1], "give a URL or owner/repo#123"
        doc.problem(node, "config-issue", f"{why.issue!r} is not an issue", hint, lenient=True)
    if why.until and not _UNTIL.fullmatch(why.until):
        node = found["until"][1]
        hint = "give a date (2026-12-31) or a version (2.14)"
        doc.problem(node, "config-until", f"{why.until!r} is neither a date nor a version", hint, lenient=True)
    return why


def _read_edits(doc: Document, edits: Fields, key: str, included: ReadItem) -> Edits:
    if key not in edits:
        return Edits()
    what = f"edits.{key}"
    found = doc.fields(edits[key][1], what, ("include", "exclude")) or {}
    excluded = read_dtype if key == "dtypes" else _read_name_item

    def many(half: str, read: ReadItem) -> tuple[Item, ...]:
        if half not in found:
            return ()
        items = doc.items(found[half][1], f"{what}.{half}")
        return tuple(i for i in (read(doc, n, f"an item of {what}.{half}") for n in items) if i is not None)

    return Edits(many("include", included), many("exclude", excluded))


def _read_functions(doc: Document, edits: Fields) -> tuple[str, ...]:
    if "functions" not in edits:
        return ()
    found = doc.fields(edits["functions"][1], "edits.functions", ("cpu_move",)) or {}
    if "cpu_move" not in found:
        return ()
    items = doc.items(found["cpu_move"][1], "cpu_move")
    named = (_read_name_item(doc, n, "an item of cpu_move") for n in items)
    return tuple(i.name for i in named if i is not None)


# ------------------------------------------------------------------------------------------------------------- items


def _named(doc: Document, node: Node, what: str, more: tuple[str, ...]) -> tuple[str, Fields] | None:
    if not isinstance(node, MappingNode):
        shown = node.value if _is_text(node) else "…"
        doc.problem(node, "config-type", f"{what} must be a map", f"write '- name: {shown}'")
        return None
    _hint_misplaced(doc, node, what)
    found = doc.fields(node, what, (*ITEM_KEYS, *more))
    if found is None:
        return None
    if "name" not in found:
        doc.problem(node, "config-missing-key", f"{what} has no name")
        return None
    name = doc.text(found["name"][1], f"{what}.name")
    doc.each(found, "description", lambda n: doc.raw(n, f"{what}.description"))
    return (name, found) if name else None


def _hint_misplaced(doc: Document, node: MappingNode, what: str) -> None:
    """``kwargs`` one level too high was dropped without a word by the older tool, 738 times in real configs."""
    keys = {str(key.value): key for key, _ in node.value}  # a key may be a list; fields() complains about it
    if "kwargs" in keys and "sample_inputs_func" in keys:
        hint = "move it into sample_inputs_func, beside args"
        message = f"'kwargs' of {what} stands one level too high"
        doc.problem(keys["kwargs"], "config-misplaced-key", message, hint, lenient=True)
        node.value = [(key, value) for key, value in node.value if key.value != "kwargs"]


def _read_name_item(doc: Document, node: Node, what: str) -> Item | None:
    named = _named(doc, node, what, ())
    return Item(named[0], place(doc, node), _read_why(doc, named[1])) if named else None


def _read_included_op(doc: Document, node: Node, what: str) -> Item | None:
    named = _named(doc, node, what, OP_KEYS)
    if named is None:
        return None
    name, found = named
    doc.each(found, "tags", lambda n: doc.texts(n, f"{what}.tags"))
    if "sample_inputs_func" in found:
        check_inputs(doc, found["sample_inputs_func"][1], "sample_inputs_func")
    return Item(name, place(doc, node), _read_why(doc, found))


def _read_included_module(doc: Document, node: Node, what: str) -> Item | None:
    named = _named(doc, node, what, MODULE_KEYS)
    if named is None:
        return None
    name, found = named
    doc.each(found, "module_path", lambda n: doc.text(n, f"{what}.module_path"))
    doc.each(found, "apply_device_layout", lambda n: doc.flag(n, f"{what}.apply_device_layout"))
    if "constructor_inputs" in found:
        check_inputs(doc, found["constructor_inputs"][1], "constructor_inputs")
    for key in ("forward_inputs", "sample_inputs_func"):
        if key in found:
            check_input_sets(doc, found[key][1], key)
    return Item(name, place(doc, node), _read_why(doc, found))


def read_dtype(doc: Document, node: Node, what: str) -> Item | None:
    named = _named(doc, node, what, DTYPE_KEYS)
    if named is None:
        return None
    name, found = named
    if name not in DTYPES:
        bare = name.removeprefix("torch.")
        hint = f"write {bare!r}" if bare in DTYPES else nearest(bare, DTYPES)
        doc.problem(found["name"][1], "config-dtype", f"{name!r} is not a dtype of this format", hint)
        return None
    precision = doc.each(found, "precision", lambda n: _read_precision(doc, n, f"{what}.precision"))
    forced = doc.each(found, "force_xfail", lambda n: doc.flag(n, "force_xfail")) or False
    return Item(dtype_name(name), place(doc, node), _read_why(doc, found), forced, precision)


def _read_precision(doc: Document, node: Node, what: str) -> Precision | None:
    found = doc.fields(node, what, ("atol", "rtol"))
    if found is None:
        return None
    atol = doc.each(found, "atol", lambda n: doc.number(n, f"{what}.atol", minimum=0))
    return Precision(atol, doc.each(found, "rtol", lambda n: doc.number(n, f"{what}.rtol", minimum=0)))


# ------------------------------------------------------------------------------------------------------------- global


def read_globals(doc: Document, node: Node) -> Globals:
    _later(doc, node)
    found = doc.fields(node, "global", (*GLOBAL_KEYS, *_LATER))
    if found is None:
        return Globals()

    def many(key: str, read: ReadItem) -> tuple[Item, ...] | None:
        if key not in found:
            return None
        items = doc.items(found[key][1], key)
        kept = tuple(i for i in (read(doc, n, f"an item of {key}") for n in items) if i is not None)
        names: dict[str, Item] = {}
        for item in kept:
            first = names.setdefault(item.name, item)
            if _content(item) != _content(first):
                twice = f"{item.name!r} is in {key} twice, first on line {first.place.line}, and the two differ"
                doc.problem(_at(items, doc, item), "config-conflict", twice, lenient=True)
        return tuple(names.values())

    dtypes = many("supported_dtypes", read_dtype)
    ops = many("supported_ops", _read_supported)
    modules = many("supported_modules", _read_supported)
    seed, at = None, None
    if "input_config" in found:
        inner = doc.fields(found["input_config"][1], "input_config", ("seed",)) or {}
        seed = doc.each(inner, "seed", lambda n: doc.integer(n, "input_config.seed", minimum=0))
        at = place(doc, inner["seed"][1]) if "seed" in inner else None
    # an empty list of dtypes has always meant "no filter"; an empty list of ops means that no op is supported
    devices = _read_devices(doc, found["devices"][1], "global.devices") if "devices" in found else ()
    return Globals(dtypes or None, ops, modules, seed, at, devices)


def _content(item: Item) -> object:
    """What an item says, without the places."""
    return item.name, item.precision, item.force_xfail, tuple(_content(d) for d in item.dtypes or ())


def _at(nodes: list[Node], doc: Document, item: Item) -> Node | None:
    return next((n for n in nodes if place(doc, n) == item.place), None)


def _read_supported(doc: Document, node: Node, what: str) -> Item | None:
    if _is_text(node):
        name = doc.text(node, what)
        return Item(name, place(doc, node)) if name else None
    named = _named(doc, node, what, SUPPORTED_KEYS)
    if named is None:
        return None
    name, found = named
    forced = doc.each(found, "force_xfail", lambda n: doc.flag(n, "force_xfail")) or False
    dtypes: tuple[Item, ...] | None = None
    if "dtypes" in found:
        items = (read_dtype(doc, n, f"a dtype of {name}") for n in doc.items(found["dtypes"][1], "dtypes"))
        dtypes = tuple(i for i in items if i is not None) or None
    if "constructor_inputs" in found:
        check_inputs(doc, found["constructor_inputs"][1], "constructor_inputs")
    if "forward_inputs" in found:
        check_input_sets(doc, found["forward_inputs"][1], "forward_inputs")
    return Item(name, place(doc, node), _read_why(doc, found), forced, None, dtypes)
