"""Dtypes by name and by object."""

from __future__ import annotations

import functools
from typing import Any

import torch


@functools.cache
def dtype_name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def dtype_of(name: str) -> Any:
    return getattr(torch, name)
