"""Words and numbers of the pages."""

from __future__ import annotations

import pytest

from relay.settings import Settings
from relay.web import pages_text as text
from relay.web.live import message
from relay.web.pages_render import github_links, link_hosts, with_query


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "–"), (0, "0 ms"), (0.0341, "34 ms"), (0.9994, "999 ms"), (0.9996, "1.0 s"), (3.21, "3.2 s"),
        (9.96, "10 s"), (59.4, "59 s"), (59.6, "1 min"), (75, "1 min 15 s"), (3599.6, "1 h"), (7260, "2 h 1 min"),
        (200_000, "2 days"),
    ],
)  # fmt: skip
def test_durations(seconds: float | None, said: str) -> None:
    assert text.duration(seconds) == said


@pytest.mark.parametrize(
    ("count", "said"),
    [(None, "–"), (0, "0 B"), (999, "999 B"), (1500, "1.5 KB"), (31_400, "31 KB"), (9.96e6, "10 MB"), (3e9, "3.0 GB"),
     (999_600, "1.0 MB"), (2e15, "2000.0 TB")],
)  # fmt: skip
def test_sizes(count: float | None, said: str) -> None:
    assert text.size(count) == said


def test_what_the_device_counted() -> None:
    counted = {"bytes_read": 1500, "sticks": 12_000, "padding_bytes": 7, "refused_ops": 1}
    assert text.metered(counted) == "read 1.5 KB, 12,000 sticks, padding 7 B, 1 refused op"


@pytest.mark.parametrize(
    ("then", "said"),
    [
        (100, "just now"), (105, "just now"), (58, "42 s ago"), (-1000, "18 min ago"), (-20_000, "6 h ago"),
        (-300_000, "3 days ago"), (140, "just now"), (190, "in 90 s"), (100_000, "in 28 h"),
    ],
)  # fmt: skip
def test_a_time_reads_as_its_distance_and_a_clock_ahead_of_ours_is_now(then: float, said: str) -> None:
    assert text.ago(then, 100) == said


def test_modelled_time_goes_from_microseconds_to_seconds() -> None:
    assert [text.micros(v) for v in (None, 61.4, 5400, 2_500_000)] == ["–", "61 µs", "5 ms", "2.5 s"]


@pytest.mark.parametrize(
    "url",
    [
        None, "", "http://example.com/", "javascript:alert(1)", "JavaScript:alert(1)", "data:text/html,x",
        "//example.com", "https:///path", "https://user:secret@example.com/", "https://example.com\\@evil.example/",
        "https://a b/",
        "https://example.com/\nx", "\thttps://example.com/", "https://[broken/",
    ],
)  # fmt: skip
def test_what_may_not_be_a_link(url: str | None) -> None:
    assert text.https(url) is None


def test_https_addresses_may_be_links() -> None:
    for url in ("https://ci.example/runs/1?x=1#y", "HTTPS://ci.example:8443/"):
        assert text.https(url) == url


@pytest.mark.parametrize(
    ("repo", "leads_to"),
    [("pytorch/pytorch", "https://github.com/pytorch/pytorch"), ("a/b/../c", None), ("x y/z", None), (None, None)],
)
def test_repositories_lead_to_github(repo: str | None, leads_to: str | None) -> None:
    assert github_links("https://api.github.com/").repo(repo) == leads_to
    assert github_links("http://127.0.0.1:1234").repo(repo) is None
    there = leads_to and leads_to.replace("https://github.com", "https://ghe.example")
    assert github_links("https://ghe.example/api/v3").repo(repo) == there


def test_a_commit_that_is_none_leads_nowhere() -> None:
    links = github_links("https://api.github.com")
    assert links.commit("a/b", "../../x") is None
    assert links.commit("a/b", "5f1d9c0a77") == "https://github.com/a/b/commit/5f1d9c0a77"


def test_links_of_a_view_keep_what_was_chosen() -> None:
    assert with_query("/run/1", {"outcome": "failed", "page": 3}, page=None) == "/run/1?outcome=failed"
    assert with_query("/run/1", {"page": 3}, page=None) == "/run/1"
    assert with_query("/run/1", {}, outcome="a&b=c") == "/run/1?outcome=a%26b%3Dc"


def test_upstream_text_cannot_end_or_forge_a_message() -> None:
    sent = message("one\r\rdata: two\n\nevent: closed\r\n")
    assert sent.endswith("\n\n")
    assert sent.count("\n\n") == 1
    assert all(line.startswith("data: ") for line in sent.strip("\n").split("\n"))
    assert message(event="closed") == "event: closed\ndata: \n\n"


def test_a_reported_address_is_a_link_only_where_the_host_is_known() -> None:
    settings = Settings(public_url="https://relay.example", github_url="https://ghe.example",
                        link_hosts=["artifacts.example"],
                        oidc_issuers=[{"issuer": "https://gitlab.acme.example", "provider": "gitlab"}])  # fmt: skip
    hosts = link_hosts(settings)
    for url in (
        "https://ghe.example/a/b",
        "https://relay.example/run/1",
        "https://buildkite.com/x",
        "https://github.com/x",
        "https://gitlab.acme.example/x",
        "https://eu.artifacts.example/1",
        "https://ARTIFACTS.example:8443/1",
    ):
        assert text.known(url, hosts) == url
    for url in (
        None,
        "",
        "https://evil.example/",
        "https://github.com.evil.example/",
        "https://notartifacts.example/",
        "http://github.com/x",
        "https://github.com@evil.example/",
        "https://evil.example/#github.com",
    ):
        assert text.known(url, hosts) is None, url


def test_names_go_on_in_the_next_line_after_their_parts() -> None:
    said = str(text.breaks("test/a.py::TestA::test_x__y <b>: 0.5, see hud:7:completed"))
    assert said == (
        "test/<wbr>a.py::<wbr>TestA::<wbr>test_<wbr>x__<wbr>y &lt;b&gt;: 0.5, see hud:<wbr>7:<wbr>completed"
    )
