"""Models of inputs: ``sample_inputs_func``, ``constructor_inputs``, ``forward_inputs``, ``edits.inputs``.

They are checked when a config is read, so that a slip is found at its line and not in the middle of a run; building
them is the runner's work.
"""

from __future__ import annotations

import ast
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from selector.configs.blocks import Block, Count, Given, Number, TextValue, one_or_many, wrong
from selector.configs.nodes import nearest
from selector.configs.patterns import DTYPES
from selector.configs.values import plain

# the union of RFC 1287's and those added since
Init = Literal["rand", "randn", "zeros", "ones", "randint", "arange", "xavier", "eye", "full", "file", "cumsum_offsets"]
_NEEDS = {"randint": "high", "full": "fill_value", "file": "path", "cumsum_offsets": "total"}
_KINDS = ("tensor", "tensor_list", "cache", "value", "py")
_ALL = "tensor, tensor_list, cache, module_path, config_path or model_id, value, py"


def _tensor_dtype(word: str) -> str:
    name = word.removeprefix("torch.")
    if name not in DTYPES and not name.startswith("float8_"):
        raise wrong("config-dtype", f"{word!r} is not a dtype", nearest(name, DTYPES))
    return word


def _literal(text: str) -> str:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        raise wrong("config-value", f"py is not a Python expression: {e.__class__.__name__}") from None
    if not _is_literal(tree):
        hint = "allowed: numbers, texts, None, tuples, lists, Ellipsis, inf, nan, a sign, slice(...)"
        raise wrong("config-value", "py holds more than a literal", hint)
    return text


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


def _inside(path: str) -> str:
    if path.startswith(("/", "~", "$")) or ".." in path.split("/") or "\\" in path:
        raise wrong("config-path", f"{path!r} lies outside of the config's folder", "put the file beside the config")
    return path


class InitArgs(Block):
    """What an ``init`` needs: ``randint`` high, ``full`` fill_value, ``file`` path, ``cumsum_offsets`` total."""

    low: Number = 0
    high: Given[Number] = None
    fill_value: Given[Number] = None
    path: Given[Annotated[TextValue, AfterValidator(_inside)]] = None
    key: Any = None
    total: Given[Count] = None


class Layout(Block):
    device_size: list[int] = Field(default_factory=list)
    stride_map: list[int] = Field(default_factory=list)
    device_dtype: Any = None

    @model_validator(mode="after")
    def _same_length(self) -> Layout:
        if {"device_size", "stride_map"} <= self.model_fields_set and len(self.device_size) != len(self.stride_map):
            said = f"device_size has {len(self.device_size)} numbers, stride_map {len(self.stride_map)}"
            raise wrong("config-value", said)
        return self


class Tensor(Block):
    """A tensor: its shape, dtype, strides and offset, and how it is filled."""

    shape: list[Count]
    dtype: Annotated[TextValue, AfterValidator(_tensor_dtype)] = "float32"
    device: TextValue = "privateuse1"
    init: Init = "rand"
    init_args: InitArgs = Field(default_factory=InitArgs)
    stride: list[Count] | None = None
    storage_offset: Count = 0
    device_layout: Given[Layout] = None

    @model_validator(mode="after")
    def _fits(self) -> Tensor:
        needed = _NEEDS.get(self.init)
        if needed is not None and needed not in self.init_args.model_fields_set:
            raise wrong("config-missing-key", f"init {self.init} needs init_args.{needed}", at="init")
        shape = self.shape
        fits = {
            "arange": (len(shape) == 1, "a shape of one number"),
            "eye": (len(shape) == 2 and shape[0] == shape[-1], "a square matrix"),
            "xavier": (len(shape) >= 2, "at least two dimensions"),
        }.get(self.init)
        if fits is not None and not fits[0]:
            raise wrong("config-value", f"init {self.init} needs {fits[1]}, not {shape}", at="init")
        if self.stride is not None and len(self.stride) != len(shape):
            said = f"stride has {len(self.stride)} numbers, shape {len(shape)}"
            raise wrong("config-value", said, at="stride")
        return self


class Cache(Block):
    """A key-value cache that is filled before the call."""

    cache_path: Given[TextValue] = None
    layer_idx: Count = 0
    key: Given[Tensor] = None
    value: Given[Tensor] = None
    max_cache_len: Given[Count] = None
    config_path: Given[TextValue] = None
    config_kwargs: Any = None


class Argument(Block):
    """One argument: exactly one kind of value."""

    tensor: Given[Tensor] = None
    tensor_list: Given[list[Tensor]] = None
    cache: Given[Cache] = None
    module_path: Given[TextValue] = None
    module_kwargs: dict[str, Any] = Field(default_factory=dict)
    config_path: Given[TextValue] = None
    model_id: Given[TextValue] = None
    config_kwargs: dict[str, Any] = Field(default_factory=dict)
    config_overrides: dict[str, Any] = Field(default_factory=dict)
    value: Any = None
    py: Given[Annotated[TextValue, AfterValidator(_literal)]] = None

    @model_validator(mode="after")
    def _one_kind(self) -> Argument:
        given = self.model_fields_set
        kinds = [kind for kind in _KINDS if kind in given]
        if "module_path" in given:
            kinds.append("module_path")
        elif given & {"config_path", "model_id"}:
            kinds.append("config_path" if "config_path" in given else "model_id")
        if len(kinds) != 1:
            said = (
                f"{' and '.join(kinds)}: only one can be meant" if kinds else "an argument that says no kind of value"
            )
            raise wrong("config-argument", said, f"give exactly one of {_ALL}")
        return self


def _keyword(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("<config:"):
        raise wrong("config-value", "the retired '<config:…>' text", "write config_path: …")
    return value


Keyword = Annotated[
    Annotated[Argument, Tag("(argument)")] | Annotated[Any, BeforeValidator(_keyword), Tag("(value)")],
    Discriminator(lambda value: "(argument)" if isinstance(value, dict) else "(value)"),
]


class Inputs(Block):
    """One call: its positional and named arguments."""

    args: list[Argument] = Field(default_factory=list)
    kwargs: dict[str, Keyword] = Field(default_factory=dict)

    @property
    def specs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """``args`` and ``kwargs`` as they were written, as Python's own types."""
        return tuple(plain(self.written.get("args", []))), plain(self.written.get("kwargs", {}))


InputSets = Annotated[list[Inputs], BeforeValidator(one_or_many, json_schema_input_type=Inputs | list[Inputs])]
"""One map of inputs, or a list of them."""
