"""One check for every claim that needs no model, by the claim's id in `reported.json`."""

import functools
from collections.abc import Iterable, Mapping

from ..errors import InputError
from ..reported import Reported
from . import arithmetic, coding, compute, degenerate, headline, languages, variance
from .finding import Check, Finding

CHECKS: Mapping[str, Check] = {
    "care.nfe.none": compute.saturation,
    "care.nfe.none-matched": compute.unreachable_targets,
    "care.nfe.running-confidence": functools.partial(compute.nfe, strategy="running_confidence"),
    "care.nfe.high-entropy": functools.partial(
        compute.nfe, strategy="high_entropy", loop="fixed_churn"
    ),
    "care.nfe.spread": arithmetic.ratio,
    "care.nfe.high-entropy-ratio": arithmetic.ratio,
    "care.nfe.most": arithmetic.largest,
    "care.stable.none": compute.stable_cells,
    "care.stable.ratio": arithmetic.ratio,
    "care.replacement.none": compute.replacement,
    "care.seeds.deterministic": compute.deterministic_seeds,
    "care.gap.difference": arithmetic.difference,
    "care.gap.stderr": headline.paired_stderr,
    "care.gap.t": headline.t_statistic,
    "care.gap.p": headline.p_value,
    "care.gap.bootstrap": headline.bootstrap,
    "care.anova.cells": variance.degrees_of_freedom,
    "care.anova.interaction": variance.effect,
    "care.anova.dominance": variance.dominance,
    "care.anova.shares": variance.shares,
    "care.temperature.gain": arithmetic.difference,
    "care.temperature.gain-exceeds": arithmetic.above,
    "care.temperature.none-stays-high": arithmetic.above,
    "care.moe.gain": arithmetic.difference,
    "care.leaderboard.spread": arithmetic.ratio,
    "care.leaderboard.models": arithmetic.total,
    "care.scope.citations": arithmetic.citations,
    "care.filter.bounds": arithmetic.filter_bounds,
    "care.humaneval.seed-stderr": arithmetic.integer_counts,
    "care.humaneval.binomial-stderr": arithmetic.binomial_stderr,
    "care.humaneval.noise": arithmetic.within_noise,
    "care.gsm8k.stderr": arithmetic.binomial_stderr,
    "genppl.theory.cross-entropy": languages.cross_entropy,
    "genppl.theory.collapsed-optimum": languages.collapsed_optimum,
    "genppl.theory.adjusted-score": languages.adjusted_score,
    "genppl.theory.data-processing": languages.data_processing,
    "genppl.entropy.order": languages.entropy_order,
    "genppl.entropy.distinct-rows": languages.distinct_rows,
    "genppl.iid.total-correlation": languages.independence,
    "genppl.mirror.copies": languages.mirror_copies,
    "genppl.mirror.joint-entropy": languages.mirror_entropy,
    "genppl.mirror.positions": languages.mirror_positions,
    "genppl.mirror.attack": languages.mirror_attack,
    "genppl.periodic.log-k": degenerate.periodic_entropy,
    "genppl.periodic.collapse": degenerate.periodic_collapse,
    "genppl.periodic.unigrams": degenerate.periodic_unigrams,
    "genppl.mauve.near-zero": degenerate.mauve_floor,
    "genppl.ctw.worked-tree": coding.worked_tree,
    "genppl.ctw.size": coding.tree_size,
    "genppl.ctw.prunings": coding.prunings,
    "genppl.jcd.plaid": coding.directions,
    "genppl.jcd.elf-m": coding.directions,
    "genppl.banks.generated": arithmetic.total,
    "genppl.periodic.below-data": arithmetic.below,
    "genppl.rank.cobit-m": arithmetic.last_in_all_columns,
    "genppl.spearman.attainable": arithmetic.attainable_correlations,
    "genppl.human.pairs": arithmetic.pairs,
    "genppl.human.comparisons": arithmetic.total,
    "genppl.human.matches": arithmetic.matches_per_source,
}


def check_claim(claim: Reported) -> Finding:
    """Computes what an exact claim says.

    Raises:
        InputError: there is no check for it, or the claim lacks a number that its check reads.
    """
    if claim.id not in CHECKS:
        raise InputError(f"claim {claim.id} has no check; its tag is {claim.tag!r}")
    return CHECKS[claim.id](claim)


def check_claims(claims: Iterable[Reported]) -> dict[str, Finding]:
    """Findings of all claims of tag "exact" that have a check, by id.

    Raises:
        InputError: a claim lacks a number that its check reads.
    """
    return {c.id: check_claim(c) for c in claims if c.tag == "exact" and c.id in CHECKS}
