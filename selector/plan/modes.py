"""How a planned test is expected to come out: by what a person wrote, what the device has, what trunk shows.

In this order. A config's word is never overruled: where the sheet or trunk says otherwise, the plan says so beside it,
and a proposal (:mod:`selector.plan.proposals`) goes to a person. Where no config speaks of the test, the sheet decides,
and then trunk's own results; an unmerged change's never count. The worker is not told: it runs a test as the configs
say, so that what was expected of a test can never become what is known of it. What an expectation is worth to a verdict
is stage 4's.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from selector.configs import Capability, ReuseConfigs
from selector.configs.chain import Chain
from selector.discover.findings import EDITED_CODES
from selector.model import Evidence, Mode, OpEntry, TestId
from selector.plan.codes import CONFIG, DEFAULT, HISTORY, LIMIT, NO_OPS, NOT_LISTED
from selector.plan.model import History, RelevantTest
from selector.plan.standing import EXPECTS_FAILURE, Enough, Standing

ENOUGH = Enough()
"""As much as it takes for a proposal: few runs expect nothing, and say so."""
Filtered = Literal["", "plan-device-limit", "plan-ops-not-supported"]
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Expectation:
    """``mode`` with the code of who decided it, and why. ``disputed``: what the sheet or trunk says against it ("":
    nothing); ``left_out``: no variant would be generated, with the code of who says so."""

    mode: Mode
    code: str
    reason: str = ""
    evidence: tuple[Evidence, ...] = ()
    disputed: str = ""
    left_out: Filtered = ""

    @property
    def telling(self) -> bool:
        """Whether it is more than the rule that tests have to pass."""
        return self.code != DEFAULT or bool(self.reason)


def expect(item: RelevantTest, configs: ReuseConfigs, capability: Capability, history: History) -> Expectation:
    """Of one relevant test that the configs run."""
    rule = configs.rule(item.test)
    edited = not EDITED_CODES.isdisjoint(item.codes)
    # what trunk ran of a test that the change edits was another test
    stands = None if edited else history.trunk.get(item.test)
    seen = bool(history.touched.get(item.test))  # evidence beats the sheet
    without: Filtered = "" if seen else filtered(item.test, item.draws, configs, capability)
    if rule.listed or rule.mode is not Mode.MANDATORY_SUCCESS:
        disputed = _against(rule.mode, stands)
        if without and rule.listed and rule.mode is Mode.MANDATORY_SUCCESS:
            disputed = _no_variant(item.draws, capability, without)
        return Expectation(rule.mode, CONFIG, rule.reason, disputed=disputed)
    if without:
        reason = _no_variant(item.draws, capability, without)
        return Expectation(Mode.SKIP, LIMIT if without == NO_OPS else CONFIG, reason, left_out=without)
    if stands is None:
        return Expectation(rule.mode, DEFAULT)
    # a run without all variants (a comparison with a base) tells of the whole of a test that has no more than it ran
    known = stands.full or (not item.ops and item.est_variants <= len(stands.failing))
    return _by_trunk(stands, stands.whole and known)


def filtered(test: TestId, draws: Collection[OpEntry], configs: ReuseConfigs, capability: Capability) -> Filtered:
    """Who leaves none of the op entries that a test's variants come from: the sheet, or a config's own list. "" where
    an entry stays, or nothing is known of them. Asks what the runtime asks."""
    if not draws:
        return ""
    chain = Chain(test, configs, capability)
    if any(chain.keeps_op(one.name, one.variant, one.kernel, composite=not one.kernel) for one in draws):
        return ""
    if chain.injected_ops():
        return ""
    return NOT_LISTED if chain.lists_ops else NO_OPS


def _no_variant(draws: Collection[OpEntry], capability: Capability, code: Filtered) -> str:
    names = sorted({one.name for one in draws})
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    which = ", ".join(names[:_NAMED]) + more
    who = f"the sheet of {capability.name}" if code == NO_OPS else "supported_ops of its config"
    return f"no variant is generated: {who} has none of {which}"


def _against(mode: Mode, stands: Standing | None) -> str:
    """What trunk says against a config's word, when it is enough for a proposal."""
    if stands is None:
        return ""
    told = stands.told
    if mode in EXPECTS_FAILURE and stands.kind == "promotable" and stands.plenty(ENOUGH):
        return f"every variant passes on trunk ({told}): relay config propose would promote it"
    if mode is not Mode.MANDATORY_SUCCESS:
        return ""
    if stands.kind == "limit":
        return f"on trunk it {stands.limit[1]} ({told}): relay config propose would enter the limit"
    if stands.kind in ("fails", "rough") and stands.plenty(ENOUGH):
        return f"it fails on trunk ({told}): relay config propose would enter it"
    return ""


def _by_trunk(stands: Standing, whole: bool) -> Expectation:
    """Of a test that no config speaks of; ``whole``: all of its variants ran there, and none passed."""
    facts = (Evidence("trunk", stands.told),)
    if stands.kind == "limit" and whole and stands.limit[0] is Mode.XFAIL:
        # one run is enough, as for a proposal; a crash alone names no limit
        return Expectation(Mode.XFAIL, LIMIT, f"on trunk it {stands.limit[1]}", facts)
    if stands.kind not in ("fails", "rough", "broke", "limit"):
        return Expectation(Mode.MANDATORY_SUCCESS, DEFAULT)
    runs = f"in the newest {stands.streak} runs on {stands.commits} commits of trunk"
    if not stands.plenty(ENOUGH):
        few = f"fails {runs}, too few to expect it ({ENOUGH.runs} runs on {ENOUGH.commits} commits)"
        return Expectation(Mode.MANDATORY_SUCCESS, DEFAULT, few, facts)
    if not whole:
        failing = len(stands.failing)
        some = f"{failing} of its variants" if failing != 1 else "one of its variants"
        reason = f"has to pass, though {some} failed {runs}" if failing else ""
        return Expectation(Mode.MANDATORY_SUCCESS, DEFAULT, reason, facts if failing else ())
    return Expectation(Mode.XFAIL, HISTORY, f"every variant fails {runs}: {stands.first_words}", facts)
