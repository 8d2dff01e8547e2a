"""What a text in the search box means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.domain.search import Query, understand

SHA = "5f1d9c0a77be0b6a4e3f2d1c0b9a88776655aa01"
TEST = "test/test_ops.py::TestCommon::test_out"


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("#171234", {"number": 171234}),
        ("pytorch/pytorch#5", {"number": 5, "repo": "pytorch/pytorch"}),
        ("https://github.com/pytorch/pytorch/pull/5/files", {"number": 5, "repo": "pytorch/pytorch"}),
        (f"https://github.com/pytorch/pytorch/commit/{SHA}", {"sha": SHA}),
        ("https://relay.example/pr/5", {"number": 5}),
        (f"https://relay.example/run/{'a' * 32}", {"run": "a" * 32}),
        (f"https://relay.example/test/{TEST.replace('::', '%3A%3A')}", {"test": TEST, "whole_test": True}),
        (f"https://relay.example/test/{TEST}", {"test": TEST, "whole_test": True}),
        ("https://github.com/torch-spyre/torch-spyre", {"word": "torch-spyre/torch-spyre"}),
        ("https://[", {}),
        ("", {}),
        ("two words", {}),
    ],
)
def test_one_meaning(text: str, means: dict) -> None:
    assert understand(text) == Query(text, **means)


def test_what_may_mean_several_things_is_looked_for_as_each() -> None:
    both = understand("1712345")
    assert (both.number, both.sha, both.test, both.word) == (1712345, "1712345", "1712345", "1712345")
    assert understand(SHA.upper()).sha == SHA
    assert understand("abcdef").sha == "", "too short for a commit"
    assert understand("1234567890").number is None
    assert understand("٣").number is None, "digits of other scripts are no number of a pull request"
    whole = understand(TEST)
    assert (whole.test, whole.whole_test) == (TEST, True)


@given(st.text(max_size=600))
def test_no_text_is_too_odd(text: str) -> None:
    query = understand(text)
    assert len(query.text) <= 500
    assert query.number is None or 0 <= query.number < 10**9
