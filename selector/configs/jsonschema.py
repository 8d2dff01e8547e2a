"""``relay config schema``: JSON Schema (2020-12) of the format, for editors. Keys are those that the loader takes."""

from __future__ import annotations

from typing import Any

from selector.configs import inputs, schema
from selector.configs.load import SUITE_KEYS
from selector.configs.patterns import DTYPES

Schema = dict[str, Any]
_TEXT: Schema = {"type": "string", "minLength": 1}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_FLAG: Schema = {"type": "boolean"}
_SIZES: Schema = {"type": "array", "items": {"type": "integer", "minimum": 0}}


def json_schema() -> Schema:
    """The schema of a config file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Reuse config: how upstream's tests are run on a device",
        **_map(("test_suite_config",), {"test_suite_config": _ref("suite")}, ("test_suite_config",)),
        "$defs": {
            "suite": _map(SUITE_KEYS, _SUITE, ("files",)),
            "file": _map(schema.FILE_KEYS, {**_WHY, **_FILE}, ("path",)),
            "test": _map(schema.TEST_KEYS, {**_WHY, **_TEST}, ("names",)),
            "edits": _map(schema.EDIT_KEYS, _EDITS),
            "global": _map(schema.GLOBAL_KEYS, _GLOBAL),
            "item": _item(()),
            "op": _item(schema.OP_KEYS),
            "dtype": _item(schema.DTYPE_KEYS, {"name": {"enum": sorted(DTYPES)}}),
            "module": _item(schema.MODULE_KEYS),
            "supported": {"anyOf": [_TEXT, _item(schema.SUPPORTED_KEYS)]},
            "selector": {
                "type": "object",
                "additionalProperties": False,
                "minProperties": 1,
                "properties": {
                    "has_ops": _FLAG,
                    "ops_in_supported": _FLAG,
                    **dict.fromkeys(("markers", "name_patterns", "module_patterns", "decorators"), _TEXTS),
                },
            },
            "inputs": _map(("args", "kwargs"), {"args": _list("argument"), "kwargs": {"type": "object"}}),
            "inputSets": {"anyOf": [_ref("inputs"), _list("inputs")]},
            "argument": _map(inputs.ARGUMENT_KEYS, _ARGUMENT),
            "tensor": _map(inputs.TENSOR_KEYS, _TENSOR, ("shape",)),
        },
    }


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _list(name: str) -> Schema:
    return {"type": "array", "items": _ref(name)}


def _map(keys: tuple[str, ...], types: Schema, required: tuple[str, ...] = ()) -> Schema:
    """An object of exactly these keys. A key without a type here is a fault of this module: KeyError."""
    found: Schema = {"type": "object", "additionalProperties": False, "properties": {key: types[key] for key in keys}}
    return found | ({"required": list(required)} if required else {})


def _item(keys: tuple[str, ...], more: Schema | None = None) -> Schema:
    return _map((*schema.ITEM_KEYS, *keys), {**_WHY, **_ITEM, **(more or {})}, ("name",))


def _halves(name: str, excluded: str = "item") -> Schema:
    return _map(("include", "exclude"), {"include": _list(name), "exclude": _list(excluded)})


_WHY: Schema = {
    "reason": {**_TEXT, "description": "Why, in a sentence; reaches every report."},
    "issue": {**_TEXT, "description": "A URL or owner/repo#12."},
    "evidence": {**_TEXT, "description": "The run that showed it."},
    "until": {"type": ["string", "number"], "description": "A date (2026-12-31) or a version (2.14)."},
}
_MODE: Schema = {"enum": list(schema.MODES)}
_DEVICES: Schema = {"type": "array", "items": {"enum": list(schema.DEVICE_TYPES)}}
_SUITE: Schema = {
    "files": _list("file"),
    "labels": _TEXTS,
    "global": _ref("global"),
    "extends": {"anyOf": [_TEXT, _TEXTS], "description": "Sheets, relative to this file."},
    "allow_empty": _FLAG,
}
_FILE: Schema = {
    "path": {**_TEXT, "description": "${TORCH_ROOT}/test/test_x.py; globs too, ** crosses folders."},
    "unlisted_test_mode": {**_MODE, "default": "skip"},
    "tests": _list("test"),
    "labels": _TEXTS,
    "allow_empty": _FLAG,
    "bypass_device_restrictions": _DEVICES,
}
_TEST: Schema = {
    "names": {"anyOf": [_TEXT, _TEXTS], "description": "method or Class::method; each half exact or a whole regex."},
    "mode": {**_MODE, "default": "mandatory_success"},
    "tags": _TEXTS,
    "labels": _TEXTS,
    "no_grad": _FLAG,
    "edits": _ref("edits"),
    "selectors": _map(("include", "exclude"), {"include": _list("selector"), "exclude": _list("selector")}),
    "bypass_device_restrictions": _DEVICES,
}
_EDITS: Schema = {
    "ops": _halves("op"),
    "dtypes": _halves("dtype", "dtype"),
    "modules": _halves("module"),
    "functions": _map(("cpu_move",), {"cpu_move": _list("item")}),
    "inputs": _ref("inputSets"),
}
_GLOBAL: Schema = {
    "supported_dtypes": _list("dtype"),
    "supported_ops": _list("supported"),
    "supported_modules": _list("supported"),
    "input_config": _map(("seed",), {"seed": {"type": "integer", "minimum": 0}}),
    "devices": _DEVICES,
}
_ITEM: Schema = {
    "name": _TEXT,
    "description": {"type": ["string", "number"]},
    "tags": _TEXTS,
    "force_xfail": _FLAG,
    "precision": _map(("atol", "rtol"), {k: {"type": ["number", "string"], "minimum": 0} for k in ("atol", "rtol")}),
    "dtypes": _list("dtype"),
    "module_path": _TEXT,
    "apply_device_layout": _FLAG,
    "sample_inputs_func": _ref("inputSets"),
    "constructor_inputs": _ref("inputs"),
    "forward_inputs": _ref("inputSets"),
}
_ARGUMENT: Schema = {
    "tensor": _ref("tensor"),
    "tensor_list": _list("tensor"),
    "cache": {"type": "object"},
    "value": {},
    "py": _TEXT,
    **dict.fromkeys(("module_path", "config_path", "model_id"), _TEXT),
    **{key: {"type": "object"} for key in ("module_kwargs", "config_kwargs", "config_overrides")},
}
_TENSOR: Schema = {
    "shape": _SIZES,
    "dtype": _TEXT,
    "device": _TEXT,
    "init": {"enum": list(inputs.INITS), "default": "rand"},
    "init_args": {"type": "object"},
    "stride": {"anyOf": [_SIZES, {"type": "null"}]},
    "storage_offset": {"type": "integer", "minimum": 0},
    "device_layout": {"type": "object"},
}
