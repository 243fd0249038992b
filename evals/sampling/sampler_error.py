"""How far a sampler is from the language when its network is perfect.

A `MarkovOracle` makes no error, so the total variation between what a sampler writes and the
language is the sampler's own. An empirical law is never at distance 0, not even that of samples
from the language itself; that floor is known in closed form and is given beside it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy import special, stats

from ...models import MarkovOracle
from ...samplers import SamplerConfig, get_strategy, sample, strategy_names
from ...samplers.registry import get_entry
from .exact_law import language_law, string_index


class GTest(NamedTuple):
    """Likelihood-ratio test of counts against a law: 2 sum O log(O / E), chi-square with df."""

    statistic: float
    df: int
    p: float


class SamplerError(NamedTuple):
    """What one setting of a sampler wrote, against the language.

    Attributes:
      strategy, kind: of the registry.
      network: what the network says of decided tokens: "copy" repeats them, "judge" gives what
        the others say, "quality" repeats them beside a perfect quality head.
      num_steps: nominal steps.
      nfe: mean network evaluations a sample.
      tv: total variation between all samples and the language. Biased upwards, by the floor where
        there is no error and by little where the error is large.
      floor: expected total variation of as many samples of the language itself.
      excess, excess_stderr: tv - floor, and its jackknife standard error over seeds. The true
        distance lies between excess and tv.
      surprisal, surprisal_stderr: mean nats per token by which the strings written are less
        probable than strings of the language; negative where probable ones are favoured. Over all
        samples; the error is theirs.
      test: all samples against the language.
      num_samples: over all seeds.
    """

    strategy: str
    kind: str
    network: str
    num_steps: int
    nfe: float
    tv: float
    floor: float
    excess: float
    excess_stderr: float
    surprisal: float
    surprisal_stderr: float
    test: GTest
    num_samples: int


def random_language(
    num_ids: int, *, order: int = 1, concentration: float = 0.5, seed: int = 0
) -> MarkovOracle:
    """A language whose laws are drawn from a symmetric Dirichlet; small values make it peaked.

    No law is stationary, so that no two positions tie.
    """
    if order not in (1, 2) or num_ids < 2 or not 0 < concentration < np.inf:
        raise ValueError(
            f"num_ids={num_ids}, {order=}, {concentration=}: expected at least 2 ids, order 1 or "
            "2, and a finite concentration above 0"
        )
    rng = np.random.default_rng(seed)
    initial = rng.dirichlet(np.full(num_ids**order, concentration)).reshape((num_ids,) * order)
    transition = rng.dirichlet(np.full(num_ids, concentration), size=(num_ids,) * order)
    return MarkovOracle(initial, transition)


def total_variation(p: Float[np.ndarray, "n"], q: Float[np.ndarray, "n"]) -> float:
    """Half the sum of absolute differences of two laws."""
    return float(0.5 * np.abs(np.asarray(p) - np.asarray(q)).sum())


def variation_floor(law: Float[np.ndarray, "n"], num_samples: int) -> float:
    """Expected total variation between a law and num_samples draws from it.

    Half the sum of the mean absolute deviations of Binomial(n, p) / n, by De Moivre's formula
    E|X - np| = 2 (1 - p) m binom(n, m) p^m (1 - p)^(n - m), m = floor(np) + 1.
    """
    n, p = num_samples, np.asarray(law, np.float64)
    p = p[(p > 0) & (p < 1)]
    m = np.floor(n * p) + 1
    log_binomial = special.gammaln(n + 1) - special.gammaln(m + 1) - special.gammaln(n - m + 1)
    log_term = log_binomial + m * np.log(p) + (n - m + 1) * np.log1p(-p)
    return float((m * np.exp(log_term)).sum() / n)


def g_test(
    counts: Int[np.ndarray, "n"], law: Float[np.ndarray, "n"], *, min_expected: float = 5.0
) -> GTest:
    """Tests counts against a law; cells of small expectation are pooled into one.

    A count where the law is 0 gives an infinite statistic and p = 0.
    """
    counts, law = np.asarray(counts, np.float64), np.asarray(law, np.float64)
    if counts.shape != law.shape or counts.ndim != 1 or counts.sum() <= 0:
        raise ValueError(
            f"counts has shape {list(counts.shape)} and sums to {counts.sum():g}, law has shape "
            f"{list(law.shape)}; expected one count a cell, not all of them 0"
        )
    if not (law >= 0).all() or abs(law.sum() - 1) > 1e-6:
        raise ValueError(f"law must be probabilities that sum to 1; it sums to {law.sum():.8g}")
    expected = law * counts.sum()
    if (counts[expected == 0] > 0).any():
        return GTest(np.inf, max(int((expected > 0).sum()) - 1, 1), 0.0)
    rare = expected < min_expected
    if rare.any():
        counts = np.append(counts[~rare], counts[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
        if expected[-1] == 0:
            counts, expected = counts[:-1], expected[:-1]
        elif expected[-1] < min_expected and len(expected) > 1:  # the pool itself is too small
            least = int(np.argmin(expected[:-1]))
            counts[least] += counts[-1]
            expected[least] += expected[-1]
            counts, expected = counts[:-1], expected[:-1]
    statistic = float(max(0.0, 2 * (special.xlogy(counts, counts / expected)).sum()))
    df = len(counts) - 1
    return GTest(statistic, df, float(stats.chi2.sf(statistic, df)) if df else 1.0)


def write_strings(
    oracle: MarkovOracle,
    config: SamplerConfig,
    num_samples: int,
    seed: int,
    *,
    network: str = "copy",
    batch_size: int = 1 << 12,
) -> tuple[Int[np.ndarray, "n l"], Int[np.ndarray, "n"]]:
    """Samples without a prompt: ids and NFE of each.

    Args:
      network: "copy", "judge" or "quality", as in `SamplerError`.
    """
    functions = {
        "copy": oracle.logits_fn,
        "judge": oracle.conditionals_fn,
        "quality": oracle.judged_fn,
    }
    if network not in functions:
        raise ValueError(f"network={network!r} is not one of {', '.join(functions)}")
    if num_samples < 1 or batch_size < 1:
        raise ValueError(f"{num_samples=} and {batch_size=} must be at least 1")
    batch = min(num_samples, batch_size)
    launches = -(-num_samples // batch)
    keys = jax.random.split(jax.random.key(seed), launches * batch)
    blank = jnp.zeros((batch, 0), jnp.int32)
    ids, nfe = [], []
    for i in range(launches):
        samples = sample(
            functions[network],
            oracle.params,
            blank,
            blank.astype(bool),
            keys[i * batch : (i + 1) * batch],
            config,
            mask_id=oracle.mask_id,
            num_ids=oracle.num_ids,
        )
        ids.append(np.asarray(samples.tokens))
        nfe.append(np.asarray(samples.nfe))
    return np.concatenate(ids)[:num_samples], np.concatenate(nfe)[:num_samples]


def measure(
    oracle: MarkovOracle,
    config: SamplerConfig,
    *,
    num_samples: int = 1 << 13,
    seeds: Sequence[int] = (0, 1, 2, 3),
    network: str = "copy",
) -> SamplerError:
    """Samples at every seed and compares with the language.

    Args:
      oracle: a language of at most 2^20 strings of config.gen_length tokens.
      num_samples: at each seed.
      seeds: at least two, for the standard error.

    Raises:
      ValueError: too many strings, or a sampler that left masks in its samples.
    """
    if len(set(seeds)) < max(2, len(seeds)):
        raise ValueError(
            f"seeds={tuple(seeds)}: at least two are needed for a standard error, each once"
        )
    length = config.gen_length
    law = language_law(oracle, length)
    counts, spent = [], []
    for seed in seeds:
        ids, nfe = write_strings(oracle, config, num_samples, seed, network=network)
        if (ids == oracle.mask_id).any():
            raise ValueError(f"strategy {config.strategy!r} left masks; its strings are unfinished")
        counts.append(np.bincount(string_index(ids, oracle.num_ids), minlength=len(law)))
        spent.append(nfe.mean())
    excess, excess_stderr = _jackknifed(np.array(counts), law)
    counts = np.sum(counts, axis=0)
    total = int(counts.sum())
    floor = variation_floor(law, total)
    with np.errstate(divide="ignore"):
        surprisal = -np.log(law)
    written = counts > 0
    mean = float((counts[written] * surprisal[written]).sum() / total)
    square = float((counts[written] * (surprisal[written] - mean) ** 2).sum() / total)
    return SamplerError(
        strategy=config.strategy,
        kind=get_entry(config.strategy).kind,
        network=network,
        num_steps=config.num_steps,
        nfe=float(np.mean(spent)),
        tv=excess + floor,
        floor=floor,
        excess=excess,
        excess_stderr=excess_stderr,
        surprisal=(mean - oracle.entropy(length)) / length,
        surprisal_stderr=float(np.sqrt(square / total) / length),
        test=g_test(counts, law),
        num_samples=total,
    )


def _jackknifed(
    counts: Int[np.ndarray, "seeds n"], law: Float[np.ndarray, "n"]
) -> tuple[float, float]:
    """Total variation beyond the floor of all counts, and its error from leaving out seeds."""

    def excess(pooled):
        return total_variation(pooled / pooled.sum(), law) - variation_floor(law, pooled.sum())

    total = counts.sum(axis=0)
    without = np.array([excess(total - row) for row in counts])
    spread = np.sqrt((len(counts) - 1) * np.mean((without - without.mean()) ** 2))
    return excess(total), float(spread)


def error_table(
    oracle: MarkovOracle,
    *,
    gen_length: int,
    num_steps: Sequence[int],
    strategies: Sequence[str] | None = None,
    unmask_temp: float = 1.0,
    remask_fraction: float = 0.2,
    num_samples: int = 1 << 13,
    seeds: Sequence[int] = (0, 1, 2, 3),
) -> list[SamplerError]:
    """`measure` for strategies (default: all that are registered) at each number of steps.

    Tokens are drawn at unmask_temp; Dream orders are then greedy (`alg_temp` 0). Strategies that
    look at decided tokens are run twice, on a network that copies them and on one that judges
    them by the others; those that need a quality head get the exact one.
    """
    rows = []
    for name in strategy_names() if strategies is None else strategies:
        for network in _networks(name):
            for steps in num_steps:
                config = temperate_config(name, gen_length, steps, unmask_temp, remask_fraction)
                rows.append(
                    measure(oracle, config, num_samples=num_samples, seeds=seeds, network=network)
                )
    return rows


def temperate_config(
    strategy: str, gen_length: int, num_steps: int, temp: float, remask_fraction: float
) -> SamplerConfig:
    """A config that draws tokens at `temp` whatever the family of the strategy calls it."""
    if get_strategy(strategy).traits.draw_temp == "token_temp":
        return SamplerConfig(gen_length, num_steps, strategy, 0.0, token_temp=temp)
    return SamplerConfig(gen_length, num_steps, strategy, temp, remask_fraction=remask_fraction)


def _networks(strategy: str) -> tuple[str, ...]:
    entry = get_entry(strategy)
    if entry.strategy.traits.needs_quality:
        return ("quality",)
    return ("copy", "judge") if entry.kind == "remask" else ("copy",)
