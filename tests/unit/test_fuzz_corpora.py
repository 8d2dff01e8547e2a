"""The kept corpora, and mutations of them by a fixed seed, through every reader of foreign bytes. ``make fuzz``
searches on, with coverage."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path

import pytest

from relay.errors import RelayError
from selector.configs import ConfigSource, load_configs
from selector.configs.model import ConfigProblem
from selector.errors import ConfigError

FOLDER = Path(__file__).resolve().parents[1] / "fuzz"
_spec = importlib.util.spec_from_file_location("fuzz_targets", FOLDER / "targets.py")
assert _spec is not None
assert _spec.loader is not None
targets = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(targets)

ROUNDS = {"webhook": 300, "callback": 300, "yaml": 60, "log": 300}
PIECES = (
    *(b"\xff", b"\x00", b"\x1b[", b"\xe2\x80\xae", b"\xc2\x9b", b"\r"),
    *(b"[" * 300, b'"\\ud800"', b"1e999", b"NaN", b"9" * 400, b"-1", b"{}", b"null"),
    *(b"*a", b"&a ", b"!!python/name:os.system ", b"<<: ", b"\n- ", b": "),
)


def mutated(data: bytes, chance: random.Random) -> bytes:
    """A few cuts, copies and insertions."""
    for _ in range(chance.randint(1, 4)):
        at = chance.randint(0, len(data))
        end = min(len(data), at + chance.randint(0, 12))
        middle = chance.choice((b"", chance.choice(PIECES), data[at:end] * 2, bytes([chance.randrange(256)])))
        data = data[:at] + middle + data[end:]
    return data


@pytest.mark.parametrize("name", sorted(ROUNDS))
def test_what_strangers_send_is_understood_or_refused_by_name(name: str) -> None:
    kept = sorted(path for path in (targets.CORPUS / name).iterdir() if path.is_file())
    assert len(kept) >= 4, "the corpus is kept in tests/data/fuzz"
    chance = random.Random(20261130)
    for path in kept:
        data = path.read_bytes()
        targets.TARGETS[name](data)
        for _ in range(ROUNDS[name]):
            targets.TARGETS[name](mutated(data, chance))


def test_a_reader_that_breaks_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets.callback, "parse", lambda data: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        targets.report(b"{}")
    monkeypatch.setattr(targets.callback, "parse", _silent)
    with pytest.raises(ValueError, match="says nothing"):
        targets.report(b"{}")


def _silent(data: bytes) -> None:
    raise RelayError("")


BOMBS = {
    "aliases": "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{n}: &{n} [{','.join(['*' + p] * 9)}]\n" for p, n in zip("abcdefghij", "bcdefghijk", strict=True)
    ) + "test_suite_config: *k\n",
    "merges": "a: &a {x: 1}\n" + "".join(
        f"{n}: &{n} {{<<: [{','.join(['*' + p] * 9)}]}}\n" for p, n in zip("abcdefghij", "bcdefghijk", strict=True)
    ) + "test_suite_config: *k\n",
    "itself": "test_suite_config: &a {files: [*a], <<: *a}\n",
    "depth": "test_suite_config: " + "[" * 100_000,
    "blocks": "- " * 100_000,
    "a tag": "test_suite_config: !!python/object/apply:os.system ['exit 1']\n",
    "a new object": "test_suite_config: {files: !!python/object/new:subprocess.Popen [['true']]}\n",
    "mistakes": "test_suite_config:\n" + "".join(f"  k{n}: 1\n" for n in range(20_000)),
    "size": "x" * 5_000_000,
    "one key": "? " + "k" * 2_000_000 + "\n: 1\n",
}  # fmt: skip


@pytest.mark.parametrize("what", sorted(BOMBS))
def test_a_config_made_to_break_the_loader_is_refused_by_its_place(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    plain = ConfigProblem.__eq__

    def counted(one: ConfigProblem, other: object) -> bool:
        compared.append(None)
        return plain(one, other)

    monkeypatch.setattr(ConfigProblem, "__eq__", counted)
    with pytest.raises(ConfigError) as caught:
        load_configs([ConfigSource("bomb.yaml", BOMBS[what])])
    assert str(caught.value).startswith("bomb.yaml:")
    assert len(compared) < 100_000, "as many comparisons as the square of its mistakes"
