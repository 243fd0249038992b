"""What a damage truly does: divergences between the language and the damaged law.

Closed forms where there are any. Elsewhere means over rows of both laws of functions of the two
exact likelihoods, with a standard error; with d = log p - log q,

    KL(P | Q) = E_P d,   KL(Q | P) = -E_Q d,   TV = (E_P |tanh(d / 2)| + E_Q |tanh(d / 2)|) / 2.

The last holds since half the sum of |p - q| is the mean of |p - q| / (p + q) under (p + q) / 2.
A row of one law that is impossible under the other proves that a divergence is infinite.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from .damage import Avoiding, Language, Law, Tempered
from .language import Chain, full_rows
from .mixture import Atoms, CutShort, Mixture

How = Literal["exact", "sampled", "infinite"]


class Known(NamedTuple):
    """A true value: exact (stderr 0), sampled, or infinite."""

    value: float
    stderr: float = 0.0
    how: How = "exact"


class Truth(NamedTuple):
    """What is known of a damaged law Q against the language P.

    Attributes:
        missed: KL(P | Q), nats per token of a full string: large where Q lacks what P writes.
        invented: KL(Q | P), nats per token: large where Q writes what P does not.
        variation: total variation over whole rows, in [0, 1].
        entropy: of Q, nats per token of a full string.
    """

    missed: Known
    invented: Known
    variation: Known
    entropy: Known


def truth(law: Law, language: Language, *, num: int, rng: np.random.Generator) -> Truth:
    """The truth about a law; `num` rows of each side where sampling is needed.

    Raises:
        ValueError: fewer than two rows.
    """
    if num < 2:
        raise ValueError(f"num={num}: at least 2 rows are needed for a standard error")
    if law is language:
        zero = Known(0.0)
        return Truth(zero, zero, zero, Known(_entropy(language)))
    if isinstance(law, Avoiding):
        return _avoiding(law)
    if isinstance(law, Mixture) and isinstance(law.other, Atoms):
        return _with_atoms(law, law.other)
    if isinstance(law, Mixture) and isinstance(law.other, CutShort):
        return _with_short_rows(law, law.other)
    found = _sampled(law, language, num, rng)
    return _tempered(law, found) if isinstance(law, Tempered) else found


def _tempered(law: Tempered, found: Truth) -> Truth:
    """Two chains: the next id's divergence, averaged over the states of the chain that leads."""
    length = law.language.length
    p, q = law.language.chain, law.chain
    log_p, log_q = _logs(p), _logs(q)
    gaps = Chain(log_p.initial - log_q.initial, log_p.transition - log_q.transition)
    return found._replace(
        missed=Known(_expected(p, gaps, length) / length),
        invented=Known(-_expected(q, gaps, length) / length),
        entropy=Known(-_expected(q, log_q, length) / length),
    )


def _avoiding(law: Avoiding) -> Truth:
    """With mass m dropped: KL(Q | P) = -log(1 - m), TV = m."""
    length = law.language.length
    kept, weighted = law.moments()
    return Truth(
        missed=Known(np.inf, how="infinite"),
        invented=Known(-np.log(kept) / length),
        variation=Known(1 - kept),
        entropy=Known((np.log(kept) - weighted / kept) / length),
    )


def _with_atoms(law: Mixture, atoms: Atoms) -> Truth:
    """Only the listed strings gain mass, everything else keeps 1 - share of it."""
    language, share = law.language, law.share
    strings, shares = atoms.shares()
    log_p = language.log_prob(full_rows(strings))
    p = np.exp(log_p)
    rest = 1 - p.sum()
    q = (1 - share) * p + share * shares
    log_q = np.log(q)
    if share == 1:
        missed = Known(np.inf, how="infinite")
        rest_log = 0.0
    else:
        rest_log = rest * np.log1p(-share)
        missed = Known(float(p @ (log_p - log_q) - rest_log) / language.length)
    invented = float(q @ (log_q - log_p) + (1 - share) * rest_log)
    elsewhere = _entropy(language) * language.length + p @ log_p  # -sum of p log p outside
    entropy = -(q @ log_q) + (1 - share) * (elsewhere - rest_log)
    return Truth(
        missed=missed,
        invented=Known(invented / language.length),
        variation=Known(float(share * np.maximum(shares - p, 0).sum())),
        entropy=Known(float(entropy) / language.length),
    )


def _with_short_rows(law: Mixture, cut: CutShort) -> Truth:
    """Rows of other lengths are impossible in the language: the two parts never meet."""
    share, length = law.share, law.language.length
    sizes = range(cut.shortest, length)
    short = np.log(len(sizes)) + np.mean([law.language.oracle.entropy(int(n)) for n in sizes])
    choice = -sum(p * np.log(p) for p in (share, 1 - share) if p > 0)
    entropy = choice + (1 - share) * _entropy(law.language) * length + share * short
    whole = share == 1
    return Truth(
        missed=Known(np.inf, how="infinite") if whole else Known(-np.log1p(-share) / length),
        invented=Known(np.inf, how="infinite"),
        variation=Known(share),
        entropy=Known(float(entropy) / length),
    )


def _sampled(law: Law, language: Language, num: int, rng: np.random.Generator) -> Truth:
    """Means over rows; a mixture's are taken part by part, which leaves less to chance."""
    if isinstance(law, Mixture):
        parts = [language.draw(num, rng), law.other.draw(num, rng)]
        of_damaged = np.array([1 - law.share, law.share])
    else:
        parts = [language.draw(num, rng), law.draw(num, rng)]
        of_damaged = np.array([0.0, 1.0])
    of_language = np.array([1.0, 0.0])
    log_p = [language.log_prob(rows) for rows in parts]
    log_q = [law.log_prob(rows) for rows in parts]

    def mean(value: Callable[[int], Float[np.ndarray, "n"]], weights: np.ndarray) -> Known:
        total, variance = 0.0, 0.0
        for part in np.flatnonzero(weights).tolist():
            values = value(part)
            if np.isinf(values).any():
                return Known(np.inf, how="infinite")
            total += weights[part] * values.mean()
            variance += weights[part] ** 2 * values.var(ddof=1) / len(values)
        return Known(float(total), float(np.sqrt(variance)), "sampled")

    def per_token(known: Known) -> Known:
        return known._replace(
            value=known.value / language.length, stderr=known.stderr / language.length
        )

    return Truth(
        missed=per_token(mean(lambda i: log_p[i] - log_q[i], of_language)),
        invented=per_token(mean(lambda i: log_q[i] - log_p[i], of_damaged)),
        variation=mean(
            lambda i: np.abs(np.tanh((log_p[i] - log_q[i]) / 2)), (of_language + of_damaged) / 2
        ),
        entropy=per_token(mean(lambda i: -log_q[i], of_damaged)),
    )


def _expected(chain: Chain, values: Chain, length: int) -> float:
    """Mean over strings of the chain of the sum of `values` at their pairs and triples."""
    state = chain.initial
    total = float((state * values.initial).sum())
    step = (chain.transition * values.transition).sum(axis=-1)
    for _ in range(length - 2):
        total += float((state * step).sum())
        state = np.einsum("ab,abc->bc", state, chain.transition)
    return total


def _logs(chain: Chain) -> Chain:
    return Chain(*(np.log(np.where(law > 0, law, 1.0)) for law in chain))


def _entropy(language: Language) -> float:
    """Nats per token."""
    return language.oracle.entropy(language.length) / language.length
