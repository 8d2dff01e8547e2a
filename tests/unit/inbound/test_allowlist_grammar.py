"""The allowlist's grammar: the real files, every shape, and the place of every mistake."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.domain.allowlist import Deadlines, parse
from relay.domain.allowlist_entry import EVENTS_BY_DEFAULT
from relay.errors import AllowlistError


def test_the_real_allowlist(shared):
    file = shared / "data/relay/allowlist/allowlist.2026-08.10530e58.yml"
    allowlist = parse(file.read_text(), file.name)
    assert [e.level for e in allowlist.entries] == ["L1"] * 5 + ["L2"] * 4 + ["L3"]
    last = allowlist.entries[-1]
    assert (last.repo, last.device, last.oncalls) == (
        "pytorch/crcr-test",
        "crcr-test",
        ("oncall-a", "oncall-b", "oncall-c"),
    )
    assert allowlist.find("ASCEND/PyTorch").repo == "Ascend/pytorch"
    assert allowlist.find("ascend/other") is None
    assert all(e.executor == "github" and e.events == EVENTS_BY_DEFAULT for e in allowlist.entries)
    assert allowlist.warnings == ()


def test_the_first_real_allowlist_and_the_events_example(shared):
    folder = shared / "data/relay/allowlist"
    assert [e.repo for e in parse((folder / "allowlist.first.5a5dc0cd.yml").read_text()).entries] == ["ascend/pytorch"]
    both = parse((folder / "allowlist.events.rfc0056.yml").read_text()).entries
    assert [(e.repo, e.events) for e in both] == [
        ("org/pr-and-nightly", ("pull_request", "nightly")),
        ("org/nightly-only", ("nightly",)),
    ]


@pytest.mark.parametrize(
    ("text", "oncalls"),
    [
        ("L2: [o/r]", ()),
        ("L2:\n  - o/r:\n", ()),
        ("L2:\n  - o/r: alice\n", ("alice",)),
        ('L2:\n  - o/r: "alice, @bob,"\n', ("alice", "bob")),
        ("L2:\n  - o/r: alice, bob\n", ("alice", "bob")),
        ("L4:\n  - o/r: [alice, '@org/team', alice]\n", ("alice", "org/team")),
        ("L4:\n  - o/r: {oncalls: [alice], events: pull_request}\n", ("alice",)),
        ("L3: {spyre: {o/r: alice}}", ("alice",)),
        ("L3: {spyre: {o/r: [a, b]}}", ("a", "b")),
        ("L3: {spyre: {o/r: }}", ()),
        ("L3: {spyre: {o/r: {oncalls: a}}}", ("a",)),
        ("L3: {spyre: [o/r: a]}", ("a",)),
        ("L3:\n  - o/r: {device: spyre, oncalls: a}", ("a",)),
        # what upstream's own comment shows, though YAML reserves the @
        ("L4:\n  - o/r: [@a,@b]\n", ("a", "b")),
        ("L4:\n  - o/r: [@a, @org/team]\n", ("a", "org/team")),
        ("L4:\n  - o/r: @a,b\n", ("a", "b")),
        ("L4:\n  - o/r: @a, @b # both\n", ("a", "b")),
        ("L3:\n  spyre:\n    o/r: [@a]\n", ("a",)),
    ],
)
def test_oncalls_are_read_the_same_at_every_level(text, oncalls):
    (entry,) = parse(text).entries
    assert (entry.repo, entry.oncalls) == ("o/r", oncalls)


@pytest.mark.parametrize(
    ("text", "column", "quoted"),
    [
        ("L4:\n  - o/r: [@a,@b]\n", 11, '- o/r: ["@a","@b"]'),
        ("L4:\n  - o/r: @a,b\n", 10, '- o/r: "@a,b"'),
        ("L4:\n  - o/r: @a, b # both\n", 10, '- o/r: "@a, b" # both'),
    ],
)
def test_a_bare_at_is_taken_with_a_warning_that_shows_the_quoted_form(text, column, quoted):
    (warning,) = parse(text, "f.yml").warnings
    assert warning.startswith(f"f.yml:2:{column}: YAML reserves the @")
    assert warning.endswith(f"write `{quoted}`")
    again = parse(f"L4:\n  {quoted}\n")
    assert (again.warnings, again.entries) == ((), parse(text).entries)


def test_our_own_keys():
    text = """
L2:
  - torch-spyre/torch-spyre:
      executor: workers
      device: spyre
      events: [pull_request]
      oncalls: [alice]
      trust: [member, "@Bob"]
"""
    (entry,) = parse(text).entries
    assert (entry.executor, entry.device, entry.events, entry.line) == ("workers", "spyre", ("pull_request",), 3)
    assert entry.trusts("carol", "MEMBER")
    assert entry.trusts("bob", "NONE")
    assert not entry.trusts("carol", "OWNER")
    assert not entry.trusts(None, "NONE")
    assert parse("L1: [o/r]").entries[0].trusts("x", "collaborator")
    assert not parse("L1: [o/r]").entries[0].trusts("x", "CONTRIBUTOR")


@pytest.mark.parametrize(
    ("text", "line", "column", "problem", "hint"),
    [
        ("", 1, 1, "lists nothing", ""),
        ("# only comments\n", 1, 1, "lists nothing", ""),
        ("L1:\nL2: []\n", 1, 1, "no repository is listed", ""),
        ("- o/r\n", 1, 1, "must be a map, not a list", "L1, L2, L3, L4"),
        ("o/r\n", 1, 1, "must be a map, not a text", ""),
        ("L1: [o/r]\nl2: [a/b]\n", 2, 1, "unknown level 'l2'", "did you mean L2?"),
        ("L1: [o/r]\nL5: [a/b]\n", 2, 1, "unknown level 'L5'", "did you mean"),
        ("L1: [o/r]\nL1: [a/b]\n", 2, 1, "the key L1 stands twice", "line 1"),
        ("L1:\n  - Ascend/pytorch\nL2:\n  - ascend/PyTorch\n", 4, 5, "ascend/PyTorch is listed twice", "line 2 as L1"),
        ("L2: {o/r: x}", 1, 5, "L2 must be a list", "- owner/repo"),
        ("L2:\n  - o/r/x\n", 2, 5, "'o/r/x' is not a repository", "owner/repo"),
        ("L2:\n  - x /y\n", 2, 5, "'x /y' is not a repository", "write x/y"),
        ("L2:\n  - https://github.com/o/r.git\n", 2, 5, "is not a repository", "write o/r"),
        ("L2:\n  - o/..\n", 2, 5, "'o/..' is not a repository", ""),
        ("L2:\n  - 12\n", 2, 5, "'12' is not a repository", ""),
        ("L2:\n  -\n", 2, 4, "expected a repository, found nothing", ""),
        ("L2:\n  - o/r:\n    executor: workers\n", 3, 5, "has 2 keys", "indent"),
        ("L2:\n  - executor: workers\n", 2, 5, "'executor' is not a repository", "indent"),
        ("L2:\n  - o/r:\n      executer: workers\n", 3, 7, "unknown key 'executer'", "did you mean executor?"),
        ("L2:\n  - o/r:\n      color: red\n", 3, 7, "unknown key 'color'", "known: events"),
        ("L2:\n  - o/r: {executor: worker}\n", 2, 21, "unknown executor 'worker'", "did you mean workers?"),
        ("L2:\n  - o/r: {executor: workers}\n", 2, 5, "executor workers and no device", "device: spyre"),
        ("L2:\n  - o/r: {events: [nigthly]}\n", 2, 20, "unknown event 'nigthly'", "did you mean nightly?"),
        ("L2:\n  - o/r: {events: []}\n", 2, 19, "no event is named", ""),
        ("L2:\n  - o/r: {trust: [membre]}\n", 2, 19, "unknown author association 'membre'", "MEMBER"),
        ("L2:\n  - o/r: {oncalls: {a: b}}\n", 2, 20, "oncalls must be a list", ""),
        ("L2:\n  - o/r: [a b]\n", 2, 11, "'a b' is not a login", ""),
        ("L3: [o/r]\n", 1, 6, "o/r is at L3 without a device", "device"),
        ("L3: {o/r: [a]}\n", 1, 6, "o/r is a repository", "<device>"),
        ("L3: {spyre: {o/r: {device: cuda}}}\n", 1, 28, "below the device spyre and says cuda", ""),
        ("L1: [o/r\n", 2, 1, "not valid YAML", ""),
        ("L1:\n\t- o/r\n", 2, 1, "not valid YAML", "a tab is there: indent with spaces"),
        ("L1:\n  - o/r: `a`\n", 2, 10, "not valid YAML", ""),
        ("L1: [o/r]\n---\nL1: [a/b]\n", 2, 1, "another document", ""),
        ("L1: [o/r]\n# \x07\n", 2, 3, "U+0007", "remove"),
        ("L1: [o/r: {<<: {events: nightly}}]\n", 1, 12, "unknown key '<<'", ""),
        ("? [L1]\n: x\n", 1, 3, "expected a key, found a list", ""),
        ("[" * 5000, 1, 1, "cannot be read as YAML", ""),
    ],
)
def test_every_mistake_has_its_place(text, line, column, problem, hint):
    with pytest.raises(AllowlistError) as caught:
        parse(text, "allow.yml")
    error = caught.value
    assert problem in error.problem
    assert hint in error.hint
    assert (error.line, error.column) == (line, column), str(error)
    assert str(error).startswith(f"allow.yml:{line}:{column}: ")


def test_tags_make_no_objects():
    with pytest.raises(AllowlistError):
        parse("L1: !!python/object/apply:os.system ['exit 1']")


@given(st.text(alphabet="L1234:-/ \n\t[]{}@#,'\"&*!ab.~?|>%", max_size=40))
def test_no_text_makes_anything_but_an_allowlist_or_an_error_with_a_place(text):
    place = (1, 1)
    try:
        assert parse(text).entries
    except AllowlistError as exc:
        place = (exc.line, exc.column)
    assert min(place) >= 1


def entry_of(keys: str):
    return parse(f"L2:\n  - org/repo: {{{keys}}}\n").entries[0]


def test_deadlines_refs_workflows_pushes_and_the_number_of_an_entry():
    entry = entry_of(
        "deadlines: {start: 30m, run: 5d}, refs: [main, release/*], workflows: .github/workflows/ci.yml, "
        "pushes: [refs/heads/main], id: 74, events: [pull_request, merge_group]"
    )
    assert entry.deadlines == Deadlines(1800.0, 432_000.0)
    assert (entry.refs, entry.workflows) == (("main", "release/*"), (".github/workflows/ci.yml",))
    assert (entry.pushes, entry.id, entry.events) == (("refs/heads/main",), 74, ("pull_request", "merge_group"))
    assert entry_of("oncalls: a").deadlines == Deadlines(None, None)
    assert [entry_of(f"configs: {where}").configs for where in ("tests/configs", "/ci/")] == ["tests/configs", "ci"]
    assert entry_of("oncalls: a").configs is None


@pytest.mark.parametrize(
    ("keys", "column", "says"),
    [
        ("deadlines: {begin: 1h}", 28, "unknown deadline 'begin'"),
        ("deadlines: {run: 1}", 33, "'1' is not a time (write for example 90s"),
        ("deadlines: {run: 31d}", 33, "31d is not between 1m and 30d"),
        ("deadlines: 3h", 27, "deadlines must be a map"),
        ("refs: []", 22, "refs lists nothing"),
        ("refs: ['a b']", 23, "a glob is 1 to 255 characters without spaces"),
        ("id: org", 20, "'org' is not GitHub's number"),
        ("id: 99999999999999999999", 20, "is not GitHub's number"),
        ("workflow: x", 16, "did you mean workflows?"),
        ("events: [push]", 25, "unknown event 'push'"),
        ("configs: ../etc", 25, "is not a folder of the repository (write it from the repository's root"),
        ("configs: a/./b", 25, "is not a folder of the repository"),
        ("configs: [a, b]", 25, "a folder"),
    ],
)
def test_mistakes_in_the_newer_keys(keys, column, says):
    with pytest.raises(AllowlistError) as caught:
        entry_of(keys)
    assert (caught.value.line, caught.value.column) == (2, column)
    assert says in str(caught.value)


def test_a_repository_is_found_by_its_number_and_a_name_of_another_is_not_it():
    listed = parse("L2:\n  - old/name: {id: 74}\n  - other/repo\n")
    assert listed.of("new/name", 74).repo == "old/name"
    assert listed.of("old/name", 999) is None
    assert listed.of("Old/Name", None).id == 74
    assert listed.of("other/repo", 5).repo == "other/repo"
    assert listed.of("nobody/here", 6) is None
