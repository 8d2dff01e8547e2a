"""The flake rule: its table, its exact error, and a simulation against the bound that it states."""

import random

import pytest

from selector.verify.flakes import RULE, FlakeRule, Tally, blame_probability, error_bound, excess

N, ALL = RULE.first, RULE.first + RULE.more


@pytest.mark.parametrize(
    ("head", "base", "finding"),
    [
        ((N, N), (N, 0), "broken"),
        ((N, 0), (N, 0), "passes-alone"),
        ((N, 1), (N, 1), "flaky"),
        ((N, 0), (N, 1), "flaky"),
        ((N, N), (N, N), "flaky"),
        ((N, N), (N, 1), "more"),
        ((N, 1), (N, 0), "more"),
        ((N - 1, N - 1), (N, 0), "lost"),
        ((N, N), (0, 0), "lost"),
        ((ALL, ALL), (ALL, 0), "broken"),
        ((ALL, ALL), (ALL, 2), "broken"),
        ((ALL, 8), (ALL, 0), "broken"),
        ((ALL, 2), (ALL, 0), "sometimes"),
        ((ALL, 6), (ALL, 4), "flaky"),
        ((ALL, ALL), (N, 1), "more"),
    ],
)
def test_what_the_runs_say(head: tuple[int, int], base: tuple[int, int], finding: str) -> None:
    assert RULE.decide(Tally(*head), Tally(*base)) == finding


def test_fishers_test_on_figures_computed_by_hand() -> None:
    assert excess(Tally(4, 4), Tally(4, 0)) == pytest.approx(1 / 70)
    assert excess(Tally(4, 0), Tally(4, 4)) == 1.0
    assert excess(Tally(2, 1), Tally(2, 1)) == pytest.approx(5 / 6)


def test_the_stated_bound_holds_for_every_rate_and_is_below_a_tenth_of_a_percent() -> None:
    bound = error_bound()
    assert bound < 0.001
    assert all(blame_probability(rate / 200, rate / 200) <= bound + 1e-4 for rate in range(201))


def test_what_always_fails_with_the_change_is_blamed_although_the_base_flakes() -> None:
    assert blame_probability(1.0, 0.0) == 1.0
    assert blame_probability(1.0, 0.01) > 0.999
    assert blame_probability(1.0, 0.10) > 0.999


def test_a_rule_with_fewer_runs_has_a_bound_of_its_own_that_is_worse() -> None:
    assert error_bound(FlakeRule(first=2, more=4)) > 4 * error_bound()


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.5])
def test_a_sample_of_the_simulation_keeps_the_bound(rate: float) -> None:
    """``tests/bench/flake_rule.py`` runs the whole of it."""
    rng = random.Random(f"flakes {rate}")
    blamed, runs = 0, 40_000
    for _ in range(runs):
        head, base = Tally(), Tally()
        for more in (RULE.first, RULE.more):
            head = Tally(head.runs + more, head.failures + sum(rng.random() < rate for _ in range(more)))
            base = Tally(base.runs + more, base.failures + sum(rng.random() < rate for _ in range(more)))
            if RULE.decide(head, base) != "more":
                break
        blamed += RULE.decide(head, base) == "broken"
    expected = blame_probability(rate, rate)
    assert blamed / runs <= error_bound() * 1.5
    assert abs(blamed / runs - expected) < 4 * (expected * (1 - expected) / runs) ** 0.5 + 1e-4
