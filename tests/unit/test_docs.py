"""The docs name every setting, every error code and every reason code that the code can produce."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

import relay.errors
import selector.errors
from relay.settings import Settings
from relay.web.app import create_app

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_every_setting_is_documented(name):
    assert f"| `{name}` |" in (DOCS / "settings.md").read_text()


def test_no_setting_is_documented_that_does_not_exist():
    named = set(re.findall(r"^\| `(\w+)` \|", (DOCS / "settings.md").read_text(), re.M))
    assert named == set(Settings.model_fields)


@pytest.fixture
def exposed(tmp_path):
    """Names of everything that /metrics of a running web process shows."""
    app = create_app(Settings(data_dir=tmp_path))
    try:
        with TestClient(app) as client:
            text = client.get("/metrics").text
    finally:
        app.state.engine.dispose()
    return set(re.findall(r"^# TYPE (\w+) ", text, re.M))


LIBRARY = ("process_", "python_")
"""What the client library tells of every process: documented as a whole."""


def test_every_metric_is_documented_and_no_other(exposed):
    documented = set(re.findall(r"^\| `(relay_\w+)` \|", (DOCS / "metrics.md").read_text(), re.M))
    ours = {name for name in exposed if not name.startswith(LIBRARY) and not name.endswith("_created")}
    assert documented == ours


def test_every_metric_that_alerts_and_dashboard_ask_for_exists(exposed):
    known = exposed | {f"{name}{end}" for name in exposed for end in ("_bucket", "_count", "_sum", "_total")}
    asked = set()
    for path in sorted((ROOT / "deploy" / "observe").rglob("*.*")):
        asked |= set(re.findall(r"\b(relay_[a-z_]+)\b", path.read_text()))
    assert asked
    assert asked - known == set()


def _codes(module):
    return {
        value.code
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Exception) and hasattr(value, "code")
    }


@pytest.mark.parametrize("code", sorted(_codes(relay.errors) | _codes(selector.errors)))
def test_every_error_code_is_documented(code):
    assert f"`{code}`" in (DOCS / "errors.md").read_text()


def test_every_decision_code_is_documented():
    """Every literal ``code=`` of a decision, a verdict or a run that ended without one is in docs/reason-codes.md."""
    text = (DOCS / "reason-codes.md").read_text()
    missing = []
    rooms = (ROOT / "selector", ROOT / "relay" / "domain", ROOT / "relay" / "services")
    for path in [path for room in rooms for path in room.rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.keyword) or node.arg != "code":
                continue
            if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                code = node.value.value
                if f"`{code}`" not in text and f"`{code}`" not in (DOCS / "errors.md").read_text():
                    missing.append(f"{path.relative_to(ROOT)}:{node.value.lineno}: {code}")
    assert missing == []


def test_every_doc_is_reachable_from_the_readme():
    seen, todo = set(), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page in seen or not page.exists():
            continue
        seen.add(page)
        for link in re.findall(r"\]\(([^)#:]+\.md)(?:#[^)]*)?\)", page.read_text()):
            todo.append((page.parent / link).resolve())
    assert sorted(str(p.relative_to(ROOT)) for p in DOCS.rglob("*.md") if p not in seen) == []


def test_every_link_between_docs_leads_somewhere():
    dead = []
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")]:
        for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text()):
            if not (page.parent / link).exists():
                dead.append(f"{page.relative_to(ROOT)}: {link}")
    assert dead == []
