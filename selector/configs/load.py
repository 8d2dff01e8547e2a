from __future__ import annotations

from collections.abc import Sequence

from selector.configs.model import ConfigProblem, ConfigSource
from selector.configs.rules import ReuseConfigs


def load_configs(sources: Sequence[ConfigSource], *, compat: bool = False) -> ReuseConfigs:
    raise NotImplementedError


def lint(sources: Sequence[ConfigSource]) -> list[ConfigProblem]:
    raise NotImplementedError
