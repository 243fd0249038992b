"""Every claim that needs no model has a check, and each check can say no."""

import dataclasses
import itertools
import math
import re

import numpy as np
import pytest

from dlmeval.evals import InputError, claims
from dlmeval.evals.claims import CHECKS, arithmetic, check_claim, finding
from dlmeval.evals.reported import (
    REPORTED,
    TAGS,
    Printed,
    parse_reported,
    read_reported,
    reported_claim,
)

CONTRADICTORY = {
    "care.nfe.none-matched",  # C1
    "care.nfe.most",  # C2
    "care.gap.bootstrap",  # C3
    "care.anova.interaction",  # C4
    "care.seeds.deterministic",  # C5
    "care.scope.citations",  # C10
    "care.anova.shares",
    "care.temperature.gain-exceeds",
    "care.temperature.none-stays-high",
}
FAILING = {"genppl.ctw.prunings", "genppl.periodic.unigrams"}


@pytest.fixture(scope="module")
def reported():
    return read_reported()


@pytest.fixture(scope="module")
def exact(reported):
    return [claim for claim in reported if claim.tag == "exact"]


@pytest.fixture(scope="module")
def findings(reported):
    return claims.check_claims(reported)


def changed(claim, **numbers):
    """The claim with other printed numbers."""
    record = {
        "values": {k: [n.text for n in v] for k, v in claim.values.items()} | numbers,
        **{k: getattr(claim, k) for k in ("id", "paper", "where", "statement", "unit", "tag")},
        "comment": claim.comment,
    }
    return parse_reported(record, "changed")


def test_every_exact_claim_has_a_check_and_every_check_a_claim(exact):
    assert set(CHECKS) == {claim.id for claim in exact}


def test_every_exact_claim_is_decided(exact, findings):
    assert list(findings) == [claim.id for claim in exact]
    verdicts = {name: found.verdict for name, found in findings.items()}
    assert {n for n, v in verdicts.items() if v == "contradictory"} == CONTRADICTORY
    assert {n for n, v in verdicts.items() if v == "does not hold"} == FAILING
    assert all(found.ours for found in findings.values())
    numbers = [n for found in findings.values() for v in found.ours.values() for n in v]
    assert all(isinstance(n, float) and math.isfinite(n) for n in numbers)


def test_what_does_not_hold_is_explained(exact, findings):
    failed = [claim for claim in exact if findings[claim.id].verdict != "holds"]
    assert [claim.id for claim in failed if not claim.comment] == []


def test_other_claims_are_not_decided(reported, findings):
    other = reported_claim(reported, "genppl.elo.periodic")
    assert other.id not in findings
    with pytest.raises(InputError, match=r"genppl\.elo\.periodic has no check; its tag is 'check"):
        check_claim(other)


# A wrong number in place of each printed one must be noticed.
WRONG = [
    ("care.nfe.none", {"nfe": "127"}),
    ("care.nfe.running-confidence", {"nfe": "512"}),
    ("care.nfe.high-entropy", {"nfe": "435"}),
    ("care.nfe.spread", {"ratio": "3"}),
    ("care.nfe.high-entropy-ratio", {"ratio": "3.5"}),
    ("care.stable.none", {"cells": "8128"}),
    ("care.stable.ratio", {"ratio": "3.3"}),
    ("care.replacement.none", {"rate": "1"}),
    ("care.gap.difference", {"difference": "0.297"}),
    ("care.gap.stderr", {"paired_stderr": "0.047"}),
    ("care.gap.stderr", {"paired_stderr": "0.003"}),
    ("care.gap.t", {"t": "7.16"}),
    ("care.gap.p", {"p": "0.021"}),
    ("care.gap.p", {"df": "3"}),
    ("care.anova.cells", {"residual_df": "46"}),
    ("care.anova.cells", {"cells": "71"}),
    ("care.anova.dominance", {"partial_eta2": ["0.79", "0.80"]}),
    ("care.temperature.gain", {"difference": "0.33"}),
    ("care.moe.gain", {"difference": "0.508"}),
    ("care.leaderboard.spread", {"ratio": "8"}),
    ("care.leaderboard.models", {"total": "13"}),
    ("care.filter.bounds", {"ascii_min": "0.84"}),
    ("care.filter.bounds", {"cjk_max": "0.03"}),
    ("care.humaneval.seed-stderr", {"means": ["31.6", "28.3"]}),
    ("care.humaneval.seed-stderr", {"stderr": "0.2"}),
    ("care.humaneval.binomial-stderr", {"stderr": "4.6"}),
    ("care.humaneval.noise", {"percent": ["32.0", "27.2"]}),
    ("care.gsm8k.stderr", {"tasks": "100"}),
    ("genppl.iid.total-correlation", {"total_correlation": "1"}),
    ("genppl.mirror.joint-entropy", {"ratio": "1.0"}),
    ("genppl.mirror.positions", {"difference": "1"}),
    ("genppl.periodic.log-k", {"k": "63"}),
    ("genppl.periodic.collapse", {"self_bleu": "0.999"}),
    ("genppl.mauve.near-zero", {"bound": "0.004"}),
    ("genppl.ctw.worked-tree", {"q": "0.6297"}),
    ("genppl.ctw.worked-tree", {"weights": ["0.500", "0.250", "0.250"]}),
    ("genppl.ctw.worked-tree", {"weights": ["0.667", "0.185"]}),
    ("genppl.ctw.size", {"levels": "20"}),
    ("genppl.jcd.plaid", {"jcd": "0.081"}),
    ("genppl.jcd.elf-m", {"fidelity": "0.182"}),
    ("genppl.banks.generated", {"total": "17"}),
    ("genppl.periodic.below-data", {"value": "57.0"}),
    ("genppl.rank.cobit-m", {"mean_rank": "11.83"}),
    ("genppl.rank.cobit-m", {"trained": "11"}),
    ("genppl.spearman.attainable", {"rho": ["0.675"], "banks": "12"}),
    ("genppl.human.pairs", {"pairs": "77"}),
    ("genppl.human.comparisons", {"total": "301"}),
    ("genppl.human.matches", {"high": "46"}),
]


@pytest.mark.parametrize(("name", "numbers"), WRONG, ids=lambda value: str(value)[:48])
def test_a_wrong_number_is_noticed(exact, name, numbers):
    assert check_claim(changed(reported_claim(exact, name), **numbers)).verdict != "holds"


# Numbers with which the papers' contradictions would be none.
MENDED = [
    ("care.nfe.none-matched", {"nfe": ["64", "128"]}),
    ("care.nfe.most", {"said_largest": "513"}),
    ("care.gap.bootstrap", {"stderr": "0.033"}),
    ("care.anova.interaction", {"p": "0.000001"}),
    ("care.anova.interaction", {"residual_df": "23"}),
    ("care.anova.shares", {"eta2": ["0.47", "0.30", "0.20"]}),
    ("care.seeds.deterministic", {"temperature": "0.5"}),
    ("care.scope.citations", {"second": ["1", "9", "11", "12", "13", "28", "32"]}),
    ("care.temperature.gain-exceeds", {"value": "0.35"}),
    ("care.temperature.none-stays-high", {"value": "0.93"}),
    ("genppl.periodic.unigrams", {"value": "5.97", "h_pool": "5.972"}),
]


@pytest.mark.parametrize(("name", "numbers"), MENDED, ids=lambda value: str(value)[:48])
def test_a_consistent_number_would_hold(exact, name, numbers):
    assert check_claim(changed(reported_claim(exact, name), **numbers)).verdict == "holds"


def test_goldens_of_the_headline(findings):
    """Statistics that the specification derives from the printed numbers (G3, C3, C4)."""
    bootstrap = findings["care.gap.bootstrap"].ours
    np.testing.assert_allclose(bootstrap["stderr"], 0.0328075, rtol=1e-5)
    interaction = findings["care.anova.interaction"].ours
    np.testing.assert_allclose(interaction["f"], 14.1887, rtol=1e-5)
    np.testing.assert_allclose(interaction["p"], 9.493e-7, rtol=1e-3)
    np.testing.assert_allclose(findings["care.anova.dominance"].ours["f"], [161.778, 192], 1e-5)
    low, high = findings["care.gap.p"].ours["p"]
    assert low < 0.019478 < high < 0.019545
    assert findings["care.gap.stderr"].ours["correlation"][0] == pytest.approx(-0.6648, abs=1e-4)
    counts = findings["care.humaneval.seed-stderr"].ours
    assert list(counts.values()) == [(31, 32, 32), (28, 28, 29)]


def test_no_triple_of_the_interval_has_the_printed_error(findings, exact):
    """The bound of the check against a search over triples with that range."""
    claim = reported_claim(exact, "care.gap.bootstrap")
    low, high = claim.number("low").low, claim.number("high").high
    middle = np.linspace(low, high, 1001)
    triples = np.stack([np.full(1001, low), middle, np.full(1001, high)])
    errors = triples.std(axis=0, ddof=1) / math.sqrt(3)
    (largest,) = findings[claim.id].ours["largest stderr"]
    assert largest == pytest.approx(errors.max(), rel=1e-12)
    assert largest < claim.number("stderr").low


def test_prunings_are_counted_by_listing_them(findings):
    def listed(depth):
        if depth == 0:
            return [()]
        below = listed(depth - 1)
        return [(), *((a, b) for a in below for b in below)]

    counts = findings["genppl.ctw.prunings"].ours["prunings"]
    assert list(counts[:4]) == [len(listed(depth)) for depth in range(4)]


def test_agreement_needs_each_number_within_its_rounding(exact):
    claim = changed(reported_claim(exact, "care.nfe.spread"), ratio=["1.5", "2"])
    assert finding.agreement(claim, {"ratio": (1.54, 1.6)}).verdict == "holds"
    assert finding.agreement(claim, {"ratio": (1.56, 2)}).verdict == "does not hold"
    assert finding.agreement(claim, {"ratio": (1.5,)}).verdict == "does not hold"
    with pytest.raises(InputError, match="no number 'other'"):
        finding.agreement(claim, {"other": 1})


def test_a_claim_without_a_number_that_its_check_reads_is_refused(exact):
    claim = reported_claim(exact, "genppl.human.pairs")
    empty = dataclasses.replace(claim, values={})
    with pytest.raises(InputError, match=r"genppl\.human\.pairs has no number 'sources'"):
        check_claim(empty)


def test_attainable_correlations_against_all_permutations(exact):
    n = 5
    base = np.arange(n)
    squares = {int(((base - np.array(p)) ** 2).sum()) for p in itertools.permutations(range(n))}
    rhos = {1 - 6 * s / (n * (n * n - 1)) for s in squares}
    claim = reported_claim(exact, "genppl.spearman.attainable")
    for rho in sorted(rhos):
        text = f"{rho:.3f}"
        check = arithmetic.attainable_correlations(changed(claim, rho=text, banks=str(n)))
        assert check.verdict == "holds"
    assert isinstance(claim.number("banks"), Printed)


def test_the_documentation_counts_as_the_checks_do(reported, findings):
    text = (REPORTED.parents[1] / "docs" / "reported.md").read_text(encoding="utf-8")
    verdicts = [found.verdict for found in findings.values()]
    told = re.search(r"(\d+) exact claims decided: (\d+) hold, (\d+) contradict.*, (\d+) do", text)
    assert told
    order = ("holds", "contradictory", "does not hold")
    assert [int(n) for n in told.groups()] == [len(verdicts), *map(verdicts.count, order)]
    assert f"print: {len(reported)} claims" in text
    for tag in TAGS:
        row = re.search(rf"\| `{re.escape(tag)}` \|.*\| (\d+) \|", text)
        assert row
        assert int(row[1]) == sum(claim.tag == tag for claim in reported)
    explained = re.findall(r"^\| `((?:care|genppl)\.[^`]+)` \|", text, re.M)
    assert set(explained) == CONTRADICTORY | FAILING
