"""What a profile says and does not say, in sentences that hold whichever way it turns out."""

import dataclasses
import math
from collections.abc import Sequence

from ..scoring import heuristics
from ..scoring.scores import values_of
from .data import Arm, ReportData
from .profile import PROFILE, Column, with_mean_ranks
from .rounding import plain_text


def perplexity_finding(data: ReportData, metric: str = "gen_ppl") -> str:
    """How many naive samplers beat the trained arm of the best mean rank in gen-PPL.

    The arm of the lowest gen-PPL is named too: it is often a collapsed one.
    """
    trained = _valued(data.with_role("generated"), metric)
    naive = _valued(data.with_role("heuristic"), metric)
    if not trained or not naive:
        return ""
    ranked = _valued(with_mean_ranks(data).with_role("generated"), "mean_rank")
    best = ranked[0][1] if ranked else trained[0][1]
    best_value = dict((arm.label, value) for value, arm in trained).get(best.label, math.inf)
    ahead = [arm.label for value, arm in naive if value < best_value]
    lowest = trained[0][1]
    text = (
        f"{len(ahead)} of {len(naive)} naive samplers have a lower generative perplexity than the "
        f"best diffusion arm ({best.label}: {plain_text(best.score(metric))})"
    )
    if ahead:
        text += f": {', '.join(ahead)}. Generative perplexity alone would prefer them."
    else:
        text += ": on this run the number was not gamed."
    if lowest.label != best.label:
        text += (
            f" It would prefer most of all {lowest.label} ({plain_text(lowest.score(metric))}),"
            f" whose unigram entropy is {plain_text(lowest.score('h_uni'))} nats."
        )
    return text


def heuristics_last(
    data: ReportData,
    columns: Sequence[Column] = PROFILE,
    *,
    trained: Sequence[Arm] | None = None,
) -> list[tuple[str, str, str]]:
    """Pairs that break the order "every naive sampler is worse than every trained arm".

    Returns:
        (metric, naive label, trained label) for each ranked column and pair in which the naive
        sampler is as good or better; empty when the profile resists all of them.
    """
    arms = data.with_role("generated") if trained is None else trained
    naive = data.with_role("heuristic")
    directions = {}
    for metric in (column.metric for column in columns if column.ranked):
        numbers = [arm.score(metric) for arm in arms]
        if found := [n.direction for n in numbers if n.value is not None and n.direction]:
            directions[metric] = found[0]
    broken = heuristics.heuristics_last(
        values_of({arm.label: arm.scores for arm in (*naive, *arms)}),
        directions,
        heuristics=[arm.label for arm in naive],
        trained=[arm.label for arm in arms],
    )
    return [(one.column, one.heuristic, one.trained) for one in broken]


def ranking_finding(
    data: ReportData,
    columns: Sequence[Column] = PROFILE,
    *,
    trained: Sequence[Arm] | None = None,
    which: str = "every diffusion arm",
) -> str:
    """Whether the distributional columns place all naive samplers below the trained arms."""
    arms = data.with_role("generated") if trained is None else tuple(trained)
    ranked = (column for column in columns if column.ranked)
    present = [c for c in ranked if any(arm.score(c.metric).value is not None for arm in arms)]
    if not arms or not present or not data.with_role("heuristic"):
        return ""
    broken = heuristics_last(data, present, trained=arms)
    failed = dict.fromkeys(metric for metric, _, _ in broken)
    titles = {c.metric: c.title for c in present}
    if not broken:
        names = ", ".join(titles.values())
        return f"Every distributional column ({names}) places all naive samplers below {which}."
    held = [titles[m] for m in titles if m not in failed]
    pairs = "; ".join(
        f"{titles[metric]}: {naive} is not worse than {arm}" for metric, naive, arm in broken[:4]
    )
    more = f"; and {len(broken) - 4} more" if len(broken) > 4 else ""
    kept = f" ({', '.join(held)})" if held else ""
    return (
        f"{len(held)} of {len(titles)} distributional columns{kept} place all naive samplers below "
        f"{which}. Exceptions: {pairs}{more}."
    )


def introduced(data: ReportData, *caveats: str) -> ReportData:
    """The data with the lead of a run of a profile, its caveats, and further ones behind those."""
    return dataclasses.replace(data, lead=run_lead(data), caveats=(*run_caveats(data), *caveats))


def run_lead(data: ReportData) -> tuple[str, ...]:
    """What was run: how many arms of which kind, and their size."""
    config = data.provenance.config
    kinds = (
        ("generated", f"of the diffusion model {config.get('denoiser', '')}"),
        ("autoregressive", f"of the causal model {config.get('scorer', '')}"),
        ("external", "drawn elsewhere"),
        ("heuristic", "naive samplers that know no language"),
    )
    found = [(len(data.with_role(role)), text.strip()) for role, text in kinds]
    listed = ", ".join(f"{count} {text}" for count, text in found if count)
    length = f" of {config['gen_length']} tokens" if "gen_length" in config else ""
    return (f"{_size(data).capitalize()}{length} an arm: {listed}, beside real text.",)


def run_caveats(data: ReportData) -> tuple[str, ...]:
    """What any run of a profile leaves open: noise, sample size, the scorer's own taste."""
    seeds = data.provenance.config.get("seeds", ())
    draws = f" from {len(seeds)} seeds" if isinstance(seeds, tuple) and len(seeds) > 1 else ""
    caveats = [
        f"{_size(data).capitalize()} an arm{draws} give rough standard errors: arms marked ≈ are "
        "not separated from the best, and no finer order is claimed.",
        "Distances are not zero for real text at this sample size: compare them with the null "
        "band, and only with runs of the same signatures.",
        "Likelihoods and features come from one scorer; another may order close arms differently.",
    ]
    if data.with_role("autoregressive"):
        caveats.append("If the AR arm is drawn from that scorer, its perplexity is flattered.")
    return tuple(caveats)


def _size(data: ReportData) -> str:
    counts = {arm.score("gen_ppl").n for arm in data.with_role("generated", "external")} - {0}
    return f"{max(counts)} samples" if counts else "the samples"


def _valued(arms: Sequence[Arm], metric: str) -> list[tuple[float, Arm]]:
    """(value, arm) of the arms that have the metric, lowest first."""
    found = [(value, arm) for arm in arms if (value := arm.score(metric).value) is not None]
    return sorted(found, key=lambda pair: pair[0])
