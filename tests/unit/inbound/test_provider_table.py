"""The table of CI providers: the public files load unchanged, others are data, and every mistake has its place."""

from __future__ import annotations

import pytest

from relay.domain.providers import BUILT_IN, parse
from relay.errors import ProvidersError, SettingsError
from relay.services.providers import issuers
from relay.settings import Issuer, Settings

KEY = "018b5ec5-c236-4037-ba08-d8a5d29bcdae/018cdabc-d930-49f6-9085-634c4cb582ed"


def test_every_public_file_loads_unchanged(shared):
    files = sorted((shared / "data/relay/ci_providers").glob("*.yml"))
    assert len(files) == 3
    for file in files:
        table = parse(file.read_text(), file.name)
        vllm = table.get("buildkite").pipelines.get(KEY)
        assert vllm is None or vllm.repo == "vllm-project/vllm"
    assert vllm.required == {"build_branch": ("main",)}


def test_the_older_form_is_read_where_the_newer_one_maps_nothing():
    older = "buildkite: {a/b: o/old}\n"
    assert parse(older).get("buildkite").pipelines["a/b"].repo == "o/old"
    both = parse("providers: {buildkite: {repo_map: {a/b: o/new}}}\n" + older)
    assert both.get("buildkite").pipelines["a/b"].repo == "o/new"
    assert parse("providers:\n" + older).get("buildkite").pipelines["a/b"].repo == "o/old"
    assert parse("").rows == parse("providers:\n").rows == dict(BUILT_IN.rows)


def test_a_provider_of_ones_own_is_data_alone():
    table = parse(
        "providers:\n  ours:\n    issuer: https://ci.example\n    keys_url: https://ci.example/keys\n"
        "    identity: [account, project]\n    run_id: pipeline\n    ref: branch\n"
        "    page: https://ci.example/{project}/\n    repo_map: {'7/8': org/other}\n"
    )
    row = issuers(Settings(), table)["https://ci.example"]
    assert row.keys_url("https://ci.example") == "https://ci.example/keys"
    claims = {"account": 7, "project": 8, "pipeline": "1"}
    assert row.pipeline_of(claims)[1].repo == "org/other"
    assert row.page_of(claims, "org/other") == "https://ci.example/8/"
    assert row.page_of({}, "org/other") == ""


def test_which_issuers_are_taken():
    found = issuers(Settings(), BUILT_IN)
    assert set(found) == {"https://token.actions.githubusercontent.com", "https://agent.buildkite.com"}
    table = parse("providers: {gitlab: {repo_map: {12/345: o/r}}}\n")
    gitlab = issuers(Settings(), table)["https://gitlab.com"]
    assert gitlab.keys_url("https://gitlab.com") == "https://gitlab.com/oauth/discovery/keys"
    own = Settings(oidc_issuers=[Issuer(issuer="https://git.example", provider="gitlab")])
    assert issuers(own, table)["https://git.example"].pipelines["12/345"].repo == "o/r"
    with pytest.raises(SettingsError, match="no provider 'nobody'"):
        issuers(Settings(oidc_issuers=[Issuer(issuer="https://x.example", provider="nobody")]), BUILT_IN)


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("provider: {}\n", 1, 1, "did you mean providers?"),
        ("providers: [buildkite]\n", 1, 12, "providers must be a map"),
        ("providers:\n  buildkite:\n    repo_maps: {}\n", 3, 5, "did you mean repo_map?"),
        ("providers:\n  buildkite:\n    repo_map: {a: o/r}\n", 3, 16, "is not <organization_id>/<pipeline_id>"),
        ("providers:\n  buildkite:\n    repo_map: {a/b: o}\n", 3, 21, "'o' is not a repository"),
        ("providers:\n  buildkite:\n    repo_map: {a/b: {repo: o/r, require: x}}\n", 3, 33, "did you mean"),
        ("providers:\n  buildkite:\n    repo_map: {a/b: {required_claims: {x: y}}}\n", 3, 21, "has no `repo`"),
        ("buildkite:\n  a/b: {repo: o/r, required_claims: {build_branch: []}}\n", 2, 38, "allows nothing"),
        ("providers:\n  new:\n    issuer: https://x.example\n", 2, 3, "nothing says whose token it is"),
        ("providers:\n  new:\n    issuer: http://x.example\n", 3, 13, "is not an https URL"),
        ("providers:\n  buildkite:\n    repo_map: {a/b: o/r, A/B: o/x}\n", 3, 26, "stands twice"),
    ],
)
def test_every_mistake_has_its_place(text, line, column, says):
    with pytest.raises(ProvidersError) as caught:
        parse(text, "p.yml")
    assert (caught.value.line, caught.value.column) == (line, column)
    assert says in str(caught.value)
