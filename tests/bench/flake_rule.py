"""Error rates of the flake rule, by simulation, against the bound that it states: ``python tests/bench/flake_rule.py``.

For a variant that fails at a rate with the change and at another without it: how often it comes to be re-run at all (it
failed with the change and passed without it, once), and how often the re-runs then blame the change; beside it the
exact probability. Where both rates are the same, blaming is an error and must stay below the bound: exit status 1
where it does not (by more than four standard errors).
"""

from __future__ import annotations

import argparse
import random
import sys

from selector.verify.flakes import RULE, Tally, blame_probability, error_bound

SAME = (0.01, 0.05, 0.10, 0.25, 0.50, 0.75, 0.90)
WORSE = ((1.0, 0.0), (1.0, 0.01), (1.0, 0.10), (0.9, 0.0), (0.8, 0.0), (0.5, 0.0), (0.3, 0.0), (0.5, 0.1))


def failures(rng: random.Random, rate: float, runs: int) -> int:
    return sum(rng.random() < rate for _ in range(runs))


def candidate(rng: random.Random, head_rate: float, base_rate: float) -> tuple[bool, bool]:
    """(it came to be re-run, the change was blamed)"""
    if rng.random() >= head_rate or rng.random() < base_rate:
        return False, False
    head, base = Tally(), Tally()
    for more in (RULE.first, RULE.more):
        head = Tally(head.runs + more, head.failures + failures(rng, head_rate, more))
        base = Tally(base.runs + more, base.failures + failures(rng, base_rate, more))
        if RULE.decide(head, base) != "more":
            break
    return True, RULE.decide(head, base) == "broken"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=int, default=100_000)
    parser.add_argument("--seed", default="flakes")
    args = parser.parse_args()
    bound, wrong = error_bound(), 0
    print(f"{RULE.first} runs a side, {RULE.more} more where they do not decide; stated bound {bound:.4%}")
    print(f"{'with':>6} {'without':>8} {'re-run':>9} {'blamed':>9} {'exact':>9} {'all runs':>10}")
    for head_rate, base_rate in [(rate, rate) for rate in SAME] + list(WORSE):
        rng = random.Random(f"{args.seed} {head_rate} {base_rate}")
        asked = blamed = tries = 0
        while asked < args.candidates and tries < 40 * args.candidates:
            tries += 1
            came, found = candidate(rng, head_rate, base_rate)
            asked, blamed = asked + came, blamed + found
        rate, exact = blamed / max(asked, 1), blame_probability(head_rate, base_rate)
        print(f"{head_rate:6.0%} {base_rate:8.0%} {asked / tries:9.3%} {rate:9.4%} {exact:9.4%} {blamed / tries:10.5%}")
        error = (bound * (1 - bound) / max(asked, 1)) ** 0.5
        if head_rate == base_rate and rate > bound + 4 * error:
            wrong += 1
            print(f"above the bound: {rate:.4%}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
