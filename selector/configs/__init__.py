"""The YAML reuse format: how upstream's tests are to be run on a device. See docs/configs.md."""

from selector.configs.capability import Capability, load_capability
from selector.configs.governing import Ruling
from selector.configs.load import lint, load_configs
from selector.configs.model import (
    ConfigProblem,
    ConfigSource,
    DtypeEdits,
    OpEdits,
    Precision,
    VariantRule,
    op_names,
)
from selector.configs.rules import ReuseConfigs
from selector.configs.selectors import TestFacts

__all__ = [
    "Capability",
    "ConfigProblem",
    "ConfigSource",
    "DtypeEdits",
    "OpEdits",
    "Precision",
    "ReuseConfigs",
    "Ruling",
    "TestFacts",
    "VariantRule",
    "lint",
    "load_capability",
    "load_configs",
    "op_names",
]
