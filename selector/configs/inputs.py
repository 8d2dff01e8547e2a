"""Checks the shape of inputs: ``sample_inputs_func``, ``constructor_inputs``, ``forward_inputs``, ``edits.inputs``.

They are checked when a config is read, so that a slip is found at its line and not in the middle of a run; building
them is the runner's work.
"""

from __future__ import annotations

import ast

from yaml.nodes import MappingNode, Node, ScalarNode

from selector.configs.nodes import Document, Fields, is_null, nearest
from selector.configs.patterns import DTYPES

# the union of RFC 1287's and those added since
INITS = ("rand", "randn", "zeros", "ones", "randint", "arange", "xavier", "eye", "full", "file", "cumsum_offsets")
TENSOR_KEYS = ("shape", "dtype", "device", "init", "init_args", "stride", "storage_offset", "device_layout")
_INIT_ARGS = ("low", "high", "fill_value", "path", "key", "total")
_CONFIG = ("config_path", "model_id", "config_kwargs", "config_overrides")
ARGUMENT_KEYS = ("tensor", "tensor_list", "cache", "module_path", "module_kwargs", *_CONFIG, "value", "py")
_CACHE = ("cache_path", "layer_idx", "key", "value", "max_cache_len", "config_path", "config_kwargs")
_KINDS = "tensor, tensor_list, cache, module_path, config_path or model_id, value, py"


def check_inputs(doc: Document, node: Node, what: str) -> None:
    """One map of ``args`` and ``kwargs``."""
    found = doc.fields(node, what, ("args", "kwargs"))
    if found is None:
        return
    if "args" in found:
        for item in doc.items(found["args"][1], f"{what}.args"):
            check_argument(doc, item, f"an argument of {what}")
    if "kwargs" in found:
        for key, (_, value) in (doc.fields(found["kwargs"][1], f"{what}.kwargs", None) or {}).items():
            _check_kwarg(doc, value, f"{what}.kwargs.{key}")


def check_input_sets(doc: Document, node: Node, what: str) -> None:
    """One map of inputs, or a list of them."""
    if isinstance(node, MappingNode):
        check_inputs(doc, node, what)
        return
    for item in doc.items(node, what):
        check_inputs(doc, item, f"an item of {what}")


def _check_kwarg(doc: Document, node: Node, what: str) -> None:
    if isinstance(node, MappingNode):
        check_argument(doc, node, what)
    elif isinstance(node, ScalarNode) and str(node.value).startswith("<config:"):
        doc.problem(node, "config-value", f"{what} uses the retired '<config:…>' text", "write config_path: …")
    else:
        doc.plain(node, what)


def check_argument(doc: Document, node: Node, what: str) -> None:
    found = doc.fields(node, what, ARGUMENT_KEYS)
    if found is None:
        return
    kinds: list[str] = [k for k in ("tensor", "tensor_list", "cache", "value", "py") if k in found]
    if "module_path" in found:
        kinds.append("module_path")
    elif "config_path" in found or "model_id" in found:
        kinds.append("config_path" if "config_path" in found else "model_id")
    if len(kinds) != 1:
        problem = f"{what} has {' and '.join(kinds)}: only one can be meant"
        if not kinds:
            problem = f"{what} says no kind of value"
        doc.problem(node, "config-argument", problem, f"give exactly one of {_KINDS}")
        return
    value = found[kinds[0]][1]
    if kinds[0] == "tensor":
        check_tensor(doc, value, f"{what}.tensor")
    elif kinds[0] == "tensor_list":
        for item in doc.items(value, f"{what}.tensor_list"):
            check_tensor(doc, item, f"a tensor of {what}")
    elif kinds[0] == "cache":
        _check_cache(doc, value, f"{what}.cache")
    elif kinds[0] == "py":
        _check_py(doc, value, f"{what}.py")
    elif kinds[0] == "value":
        doc.plain(value, f"{what}.value")
    else:
        for key in ("module_path", "config_path", "model_id"):
            if key in found:
                doc.text(found[key][1], f"{what}.{key}")
        for key in ("config_kwargs", "config_overrides", "module_kwargs"):
            if key in found and doc.fields(found[key][1], f"{what}.{key}", None) is not None:
                doc.plain(found[key][1], f"{what}.{key}")


def _check_cache(doc: Document, node: Node, what: str) -> None:
    found = doc.fields(node, what, _CACHE)
    if found is None:
        return
    for key in ("key", "value"):
        if key in found:
            check_tensor(doc, found[key][1], f"{what}.{key}")
    for key in ("layer_idx", "max_cache_len"):
        if key in found:
            doc.integer(found[key][1], f"{what}.{key}", minimum=0)
    for key in ("cache_path", "config_path"):
        if key in found:
            doc.text(found[key][1], f"{what}.{key}")


def check_tensor(doc: Document, node: Node, what: str) -> None:
    """A tensor spec: the types, then the checks across keys (``randint`` needs ``high``, ``eye`` a square, ...)."""
    found = doc.fields(node, what, TENSOR_KEYS)
    if found is None:
        return
    if "shape" not in found:
        doc.problem(node, "config-missing-key", f"{what} has no shape", "add shape: [] for a scalar")
        return
    shape = _sizes(doc, found["shape"][1], f"{what}.shape")
    if "dtype" in found:
        word = doc.text(found["dtype"][1], f"{what}.dtype")
        name = (word or "float32").removeprefix("torch.")
        if name not in DTYPES and not name.startswith("float8_"):
            doc.problem(found["dtype"][1], "config-dtype", f"{word!r} is not a dtype", nearest(name, DTYPES))
    if "device" in found:
        doc.text(found["device"][1], f"{what}.device")
    if "stride" in found and not is_null(found["stride"][1]):
        stride = _sizes(doc, found["stride"][1], f"{what}.stride")
        if shape is not None and stride is not None and len(stride) != len(shape):
            doc.problem(
                found["stride"][1], "config-value", f"{what}: stride has {len(stride)} numbers, shape {len(shape)}"
            )
    if "storage_offset" in found:
        doc.integer(found["storage_offset"][1], f"{what}.storage_offset", minimum=0)
    if "device_layout" in found:
        _check_layout(doc, found["device_layout"][1], f"{what}.device_layout")
    _check_init(doc, found, shape, what)


def _check_init(doc: Document, found: Fields, shape: list[int] | None, what: str) -> None:
    init = doc.word(found["init"][1], f"{what}.init", INITS, "config-init") if "init" in found else "rand"
    args: Fields = {}
    if "init_args" in found:
        args = doc.fields(found["init_args"][1], f"{what}.init_args", _INIT_ARGS) or {}
        for key in ("low", "high", "fill_value"):
            if key in args:
                doc.number(args[key][1], f"{what}.init_args.{key}")
        if "path" in args:
            doc.text(args["path"][1], f"{what}.init_args.path")
        if "total" in args:
            doc.integer(args["total"][1], f"{what}.init_args.total", minimum=0)
    at = found["init"][1] if "init" in found else found["shape"][1]
    needed = {"randint": "high", "full": "fill_value", "file": "path", "cumsum_offsets": "total"}.get(init or "")
    if needed and needed not in args:
        doc.problem(at, "config-missing-key", f"{what}: init {init} needs init_args.{needed}")
    if shape is None:
        return
    wrong = {
        "arange": len(shape) != 1 and "a shape of one number",
        "eye": (len(shape) != 2 or shape[0] != shape[-1]) and "a square matrix",
        "xavier": len(shape) < 2 and "at least two dimensions",
    }.get(init or "")
    if wrong:
        doc.problem(at, "config-value", f"{what}: init {init} needs {wrong}, not {shape}")


def _check_layout(doc: Document, node: Node, what: str) -> None:
    found = doc.fields(node, what, ("device_size", "stride_map", "device_dtype"))
    if found is None:
        return
    lengths = []
    for key in ("device_size", "stride_map"):
        if key in found:
            items = doc.items(found[key][1], f"{what}.{key}")
            for item in items:
                doc.integer(item, f"an item of {what}.{key}")
            lengths.append(len(items))
    if len(set(lengths)) > 1:
        doc.problem(node, "config-value", f"{what}: device_size has {lengths[0]} numbers, stride_map {lengths[1]}")


def _sizes(doc: Document, node: Node, what: str) -> list[int] | None:
    sizes = [doc.integer(item, f"an item of {what}", minimum=0) for item in doc.items(node, what)]
    known = [s for s in sizes if s is not None]
    return known if len(known) == len(sizes) else None


def _check_py(doc: Document, node: Node, what: str) -> None:
    text = doc.text(node, what)
    if text is None:
        return
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        doc.problem(node, "config-value", f"{what} is not a Python expression: {e.__class__.__name__}")
        return
    if not _is_literal(tree):
        hint = "numbers, texts, None, tuples, lists, Ellipsis, inf, nan, a sign, slice(...)"
        doc.problem(node, "config-value", f"{what} holds more than a literal", hint)


def _is_literal(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.Name):
        return node.id in ("Ellipsis", "inf", "nan")
    if isinstance(node, ast.Tuple | ast.List):
        return all(_is_literal(item) for item in node.elts)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.UAdd | ast.USub) and _is_literal(node.operand)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "slice":
        return not node.keywords and all(_is_literal(arg) for arg in node.args)
    return False
