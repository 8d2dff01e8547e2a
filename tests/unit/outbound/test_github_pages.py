"""Another GitHub than github.com: its pages, by the address of its API."""

from __future__ import annotations

import pytest

from relay.domain.depends import dependencies
from relay.domain.providers import BUILT_IN, parse
from relay.github.reads import Place, place_of
from relay.services import reporting, upstream
from relay.services.providers import issuers
from relay.settings import Issuer, Settings

HERE = "https://ghe.example"


class Job:
    run_id = "55"

    def __init__(self, url):
        self.url = url


@pytest.mark.parametrize(
    ("told", "pages"),
    [
        ({}, "https://github.com"),
        ({"github_api_url": "https://api.github.com/"}, "https://github.com"),
        ({"github_api_url": f"{HERE}/api/v3"}, HERE),
        ({"github_api_url": f"{HERE}:8443/api/v3/"}, f"{HERE}:8443"),
        ({"github_api_url": "https://api.octo.ghe.com"}, "https://octo.ghe.com"),
        ({"github_api_url": "http://127.0.0.1:8470"}, "https://github.com"),  # the local stand-in
        ({"github_api_url": "https://proxy.example/github", "github_url": f"{HERE}/"}, HERE),
    ],
)
def test_where_the_pages_are(told, pages):
    settings = Settings(**told)
    assert settings.github_url == pages
    assert upstream.mirror(settings).url == f"{pages}/pytorch/pytorch"
    assert reporting.runs_on_github(settings, Job(f"{pages}/o/r/actions/runs/55"))
    for elsewhere in ("https://ci.example/55", f"{pages}.example/o/r/actions/runs/55", None):
        assert not reporting.runs_on_github(settings, Job(elsewhere))
    assert place_of(f"{pages}/o/r/blob/main/a/b.yml", settings.github_url) == Place("o/r", "main", "a/b.yml")
    assert place_of("https://other.example/o/r/blob/main/b.yml", settings.github_url) is None
    named = dependencies(f"Depends-On: {pages}/o/r/pull/7\nDepends-On: https://other.example/a/b/pull/1", pages)
    assert [(one.repo, one.number) for one in named] == [("o/r", 7)]


def test_a_report_of_an_enterprise_servers_run_keeps_its_address():
    told = {"github_api_url": f"{HERE}/api/v3", "oidc_issuers": [Issuer(issuer=f"{HERE}/_services/token")]}
    row = issuers(Settings(**told), BUILT_IN)[f"{HERE}/_services/token"]
    assert row.page_of({}, "o/r") == f"{HERE}/o/r/"
    table = parse("providers:\n  github:\n    page: https://own.example/{repository}/\n", "t")
    assert issuers(Settings(**told), table)[f"{HERE}/_services/token"].page_of({}, "o/r") == "https://own.example/o/r/"
