"""How many variants a test will generate on the device: an estimate before import, used to price it."""

from __future__ import annotations

from selector.discover.records import UNKNOWN, DbUse
from selector.model import OpEntry
from selector.triage.subject import Subject

_SLOW = frozenset({"slowTest", "slow"})
_UNKNOWN_DTYPES = 3
_MODULE_INPUTS = 2
"""a module is tried in training and in evaluation"""


def estimate(subject: Subject, only: frozenset[str] = frozenset()) -> tuple[int, bool]:
    """(variants, whether upstream marks it slow), of the op entries ``only`` where there are any. At least one."""
    test = subject.test
    slow = any(d.name in _SLOW for d in subject.decorators)
    count = test.factor
    if test.ops is not None:
        count *= _ops(subject, test.ops, only)
    elif test.modules is not None:
        count *= _modules(subject, test.modules)
    elif test.dtypes:
        count *= _dtypes(subject, test.dtypes)
    return max(1, count), slow


def drawn(subject: Subject, only: frozenset[str] = frozenset()) -> tuple[OpEntry, ...]:
    """The entries that the test's variants come from, of ``only`` where there are any. () where it draws none, or where
    they are not all known: no op database, a list that is not fully understood, an entry that is new."""
    use = subject.test.ops
    if use is None or not use.sure or subject.index.database is None:
        return ()
    found = tuple(entry for entry in subject.index.entries(use) if not only or entry.name in only)
    return found if only <= {entry.name for entry in found} else ()


def _dtypes(subject: Subject, names: tuple[str, ...]) -> int:
    known = sum(1 for name in names if name != UNKNOWN and subject.capability.supports_dtype(name))
    return max(1, known + (_UNKNOWN_DTYPES if UNKNOWN in names else 0))


def _ops(subject: Subject, use: DbUse, only: frozenset[str]) -> int:
    if subject.index.database is None:
        return len(only or use.include or ("",)) * _dtypes(subject, use.dtypes or (UNKNOWN,))
    total = 0
    for entry in subject.index.entries(use):
        if only and entry.name not in only:
            continue
        dtypes = (
            set(entry.dtypes) if use.dtypes is None or UNKNOWN in use.dtypes else set(entry.dtypes) & set(use.dtypes)
        )
        total += 1 if use.once else sum(1 for name in dtypes if subject.capability.supports_dtype(name))
    return max(1, total)


def _modules(subject: Subject, use: DbUse) -> int:
    database = subject.index.database
    every = database.modules if database is not None else ()
    names = [name for name in every or use.include or () if use.include is None or name in use.include]
    return max(1, len(names)) * _MODULE_INPUTS * _dtypes(subject, use.dtypes or (UNKNOWN,))
