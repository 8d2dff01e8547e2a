"""Real configs of the downstream project (tests/data/spyre-configs, origin and licence beside them)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from selector.configs import ConfigSource, lint, load_configs
from selector.configs.importer import import_configs
from selector.configs.roundtrip import format_text, read
from selector.model import Mode, TestId

FOLDER = Path(__file__).parents[2] / "data/spyre-configs"
FILES = sorted(FOLDER.glob("*.yaml"))
ROOT = Path(__file__).parents[3]


def sources() -> list[ConfigSource]:
    return [ConfigSource(path.name, path.read_text()) for path in FILES]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_each_loads_and_formatting_keeps_what_it_says(path: Path) -> None:
    text = path.read_text()
    load_configs([ConfigSource(path.name, text)], compat=True)
    formatted = format_text(path.name, text)
    assert read(formatted) == read(text)
    assert formatted.count("#") == text.count("#")


def test_what_is_odd_in_them_is_listed_with_its_place() -> None:
    found = [p for source in sources() for p in lint([source])]
    assert Counter(p.code for p in found) == {"config-conflict": 1}
    assert found[0].source == "inductor-test_scatter_optimization.yaml"
    assert "(the other: inductor-test_scatter_optimization.yaml:" in found[0].message


def test_imported_they_decide_as_before_and_give_their_reasons() -> None:
    found = import_configs(sources())
    assert found.reasons > 40
    assert found.issues > 5
    before, after = load_configs(sources(), compat=True), load_configs(found.files, compat=True)
    given = 0
    for suite in before.suites:
        for file in suite.files:
            for entry in file.tests:
                for name in entry.names:
                    if file.path.path is None or name.method_regex is not None or name.cls_regex is not None:
                        continue
                    test = TestId(file.path.path, name.cls or "TestAny", name.method)
                    old, new = before.rule(test), after.rule(test)
                    assert old.mode is new.mode, test
                    assert before.ops(test) == after.ops(test)
                    assert before.dtypes(test) == after.dtypes(test)
                    given += bool(new.reason) and new.mode is not Mode.MANDATORY_SUCCESS
    assert given > 30


def test_the_shipped_configs_cover_twenty_files_with_reasons() -> None:
    folder = ROOT / "test_configs/spyre"
    configs = load_configs([ConfigSource(p.name, p.read_text()) for p in sorted(folder.glob("*.yaml"))])
    exact = {f.path.path for s in configs.suites for f in s.files if f.path.regex is None}
    assert len(exact) >= 20
    entries = [e for s in configs.suites for f in s.files for e in f.tests if e.mode is not Mode.MANDATORY_SUCCESS]
    assert len(entries) > 80
    assert all(e.why.reason for e in entries)


@pytest.mark.parametrize("device", ["spyre", "openreg"])
def test_the_shipped_configs_are_lint_clean_and_formatted(device: str) -> None:
    folder = ROOT / "test_configs" / device
    shipped = [ConfigSource(p.name, p.read_text()) for p in sorted(folder.glob("*.yaml"))]
    assert lint(shipped) == []
    assert (
        format_text("limits.yaml", (ROOT / "test_configs/spyre/limits.yaml").read_text())
        == (ROOT / "test_configs/spyre/limits.yaml").read_text()
    )
