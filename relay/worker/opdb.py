"""Exports the installed torch's op databases: ``python -m relay.worker.opdb --out FILE``. Imports torch (2 to 4 s)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from selector.model import OpDatabase, OpEntry
from selector.opdb import to_json


def export() -> OpDatabase:
    """The op database of the torch that this process imports."""
    import torch
    from torch.testing._internal import common_methods_invocations as database
    from torch.testing._internal.common_modules import module_db

    lists: dict[int, list[str]] = {}
    infos: dict[int, Any] = {}
    # every list of OpInfos by which upstream's files may import them
    for name, value in sorted(vars(database).items()):
        if not isinstance(value, (list, tuple)) or len(value) < 2:
            continue  # a loop left its variable behind
        if not all(isinstance(info, database.OpInfo) for info in value):
            continue
        for info in value:
            known = lists.setdefault(id(info), [])
            if name not in known:
                known.append(name)
            infos[id(info)] = info
    ops = sorted((_entry(info, lists[key]) for key, info in infos.items()), key=lambda op: (op.name, op.variant))
    return OpDatabase(torch.__version__.split("+")[0], tuple(ops), tuple(sorted({info.name for info in module_db})))


def _entry(info: Any, lists: list[str]) -> OpEntry:
    from relay.reuse.opinfos import aten_name, composite

    ref = ""
    if "python_ref_db" in lists:
        ref = f"torch.{info.name}"  # upstream names a reference by where it lies: _refs.logit
    return OpEntry(
        name=info.name,
        variant=info.variant_test_name or "",
        aten=info.aten_name or "",
        lists=tuple(lists),
        dtypes=tuple(sorted(str(dtype).removeprefix("torch.") for dtype in info.supported_dtypes("privateuse1"))),
        ref=ref,
        aliases=tuple(sorted(alias.name for alias in info.aliases)),
        kernel="" if composite(info) else aten_name(info),
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m relay.worker.opdb", description="Export torch's op databases.")
    parser.add_argument("--out", required=True, help="file the JSON is written to")
    args = parser.parse_args(argv)
    try:
        text = to_json(export())
    except ImportError as exc:
        print(f"relay-opdb: torch cannot be used: {exc} (install the extra `emulator`)", file=sys.stderr)  # noqa: T201
        return 3
    Path(args.out).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
