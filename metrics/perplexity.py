"""Generative perplexity: which targets are scored, how rows are averaged, how sure one is."""

import math
import warnings
from typing import Literal, get_args

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from .token_rows import AnyArray, check_token_rows, is_traced, valid_positions

Policy = Literal["first_eos", "all"]
Aggregate = Literal["token", "sample", "macro"]


def target_mask(
    ids: Int[AnyArray, "n t"],
    lengths: Int[AnyArray, " n"] | None,
    eos_id: int | None,
    policy: Policy = "first_eos",
    *,
    pad_with_eos: bool = False,
) -> Bool[Array, "n t"]:
    """Which positions are scored as targets of a causal scorer.

    Position 0 is never a target (no BOS is prepended) and neither is anything at or beyond a
    row's length. Of the rest

    * "first_eos" leaves out every EOS but the first of the row. Tokens other than EOS are
      scored wherever they stand, also after an EOS; a row that starts with EOS scores no EOS
      at all. This is the mask of the MDLM family (`compute_generative_perplexity` of
      kuleshov-group/mdlm, the same in Duo, ReMDM and ELF).
    * "all" scores every valid target.

    The MDLM family pads with EOS and forgets that it did: a row without an EOS of its own has
    its first pad scored. `pad_with_eos=True` does as they do: positions at or beyond a row's
    length count as EOS tokens of the row. `perplexity_as` reproduces whole codes.

    Runs under `jax.jit`. Cost: one pass over the ids.

    Args:
      ids: Int[AnyArray, "n t"] scorer ids.
      lengths: Int[Array, "n"] valid tokens per row; None = full rows.
      eos_id: the end-of-text id; not used by "all".
      policy: "first_eos" or "all".
      pad_with_eos: compatibility; take padding for EOS tokens of the row.

    Returns:
      Bool[Array, "n t"], aligned with `ids` (entry t tells whether token t is scored).

    Raises:
      ValueError: an unknown policy, "first_eos" or `pad_with_eos` without an eos_id, or bad
        ids or lengths.

    >>> ids = np.array([[5, 0, 7, 0], [5, 6, 7, 8]])
    >>> target_mask(ids, np.array([4, 2]), eos_id=0).astype(int).tolist()
    [[0, 1, 1, 0], [0, 1, 0, 0]]
    >>> target_mask(ids, np.array([4, 2]), eos_id=0, pad_with_eos=True).astype(int).tolist()
    [[0, 1, 1, 0], [0, 1, 1, 0]]
    """
    if policy not in get_args(Policy):
        raise ValueError(f"policy must be one of {get_args(Policy)}, got {policy!r}")
    ids, lengths = check_token_rows(ids, lengths)
    check_eos(eos_id, policy, pad_with_eos)
    ids, lengths = jnp.asarray(ids), jnp.asarray(lengths)
    valid = jnp.asarray(valid_positions(lengths, ids.shape[1]))
    if pad_with_eos and eos_id is not None:
        ids, valid = jnp.where(valid, ids, eos_id), jnp.ones_like(valid)
    return scored_targets(jnp, ids, valid, eos_id, policy)


def scored_targets(xp, ids, valid, eos_id: int | None, policy: Policy):
    """`target_mask` of checked arrays, in NumPy or JAX as `xp` says."""
    scored = valid & (xp.arange(ids.shape[1]) > 0)
    if policy == "all":
        return scored
    is_eos = ids == eos_id
    first_eos = is_eos & (xp.cumsum(is_eos, axis=1) == 1)
    return scored & (first_eos | ~is_eos)


def generative_perplexity(
    nll: Float[AnyArray, " n"], num_tokens: Int[AnyArray, " n"], aggregate: Aggregate = "token"
) -> Float[AnyArray, ""]:
    """Perplexity of samples under a scorer, from each row's summed NLL (nats).

    * "token": exp(sum_i nll_i / sum_i n_i), long rows weigh more (MDLM, Duo, ReMDM, ELF);
    * "sample": mean_i exp(nll_i / n_i), led by the worst rows (SEDD);
    * "macro": exp(mean_i nll_i / n_i), rows weigh alike; never above "sample" (Jensen), equal
      to "token" where all n_i agree.

    A low value shows that the scorer finds the text likely, not that the text is good: report
    an entropy beside it. Rows without a scored token add nothing to "token"; "sample" and
    "macro" leave them out with a warning that counts them.

    Concrete input is computed in NumPy float64. Inside `jax.jit` it is computed in JAX, where
    values cannot be checked: there an all-empty bank or a NaN gives NaN.

    Args:
      nll: Float[Array, "n"] NLL in nats summed over the scored targets of each row.
      num_tokens: Int[Array, "n"] number of scored targets of each row.
      aggregate: "token", "sample" or "macro".

    Returns:
      0-d array: perplexity per token; infinite if a row with infinite NLL counts.

    Raises:
      ValueError: an unknown aggregate, shapes that differ, NaN or -inf NLL, negative counts,
        NLL on a row without tokens, or no row with a scored token.

    Bias: "sample" has none; the exp of a mean is biased up by O(1/n). The choice between them
    weighs more: "sample" is about exp(s^2 / 2) times "token" where s is the standard deviation
    of the rows' NLL per token, 1.13 for s = 0.5.

    >>> nll, num_tokens = np.log([4.0, 8.0]) * [1, 3], np.array([1, 3])  # two rows
    >>> by = ("token", "sample", "macro")
    >>> [round(float(generative_perplexity(nll, num_tokens, a)), 4) for a in by]
    [6.7272, 6.0, 5.6569]
    """
    nll, num_tokens = check_nll_rows(nll, num_tokens, aggregate)
    if is_traced(nll, num_tokens):
        return _traced_perplexity(nll, num_tokens, aggregate)
    if aggregate == "token":
        return np.asarray(_exp(nll.sum() / num_tokens.sum()))
    scored = num_tokens > 0
    _warn_empty(int((~scored).sum()), aggregate)
    rates = nll[scored] / num_tokens[scored]
    return np.asarray(_exp(rates).mean() if aggregate == "sample" else _exp(rates.mean()))


def generative_perplexity_stderr(
    nll: Float[AnyArray, " n"], num_tokens: Int[AnyArray, " n"], aggregate: Aggregate = "token"
) -> Float[AnyArray, ""]:
    """Standard error of `generative_perplexity` over rows, by the delete-one jackknife.

    For "sample" this is exactly sd / sqrt(n) of the rows' perplexities; for "token" (a ratio)
    and "macro" it agrees with the delta method to first order. Rows are taken as independent
    draws, the scorer as fixed. "token" counts rows without tokens as draws, the others leave
    them out. O(n), NumPy float64; concrete arrays only.

    Args:
      nll: Float[Array, "n"] summed NLL (nats).
      num_tokens: Int[Array, "n"] scored targets.
      aggregate: as in `generative_perplexity`.

    Returns:
      0-d array, in perplexity units; infinite where the perplexity is.

    Raises:
      ValueError: as `generative_perplexity`, or fewer than two rows with scored tokens.

    >>> nll, num_tokens = np.log([4.0, 6.0, 8.0]) * 9, np.array([9, 9, 9])
    >>> round(float(generative_perplexity_stderr(nll, num_tokens, "sample")), 4)  # 2 / sqrt(3)
    1.1547
    """
    if is_traced(nll, num_tokens):
        raise ValueError("generative_perplexity_stderr needs concrete arrays; call it outside jit")
    nll, num_tokens = check_nll_rows(nll, num_tokens, aggregate)
    scored = num_tokens > 0
    if scored.sum() < 2:
        raise ValueError(
            f"a standard error needs at least 2 rows with scored tokens, got {scored.sum()}"
        )
    if np.isinf(nll).any():
        return np.asarray(math.inf)
    if aggregate == "token":
        without = _exp((nll.sum() - nll) / (num_tokens.sum() - num_tokens))
    else:
        rates = nll[scored] / num_tokens[scored]
        rows = _exp(rates) if aggregate == "sample" else rates
        without = (rows.sum() - rows) / (len(rows) - 1)
        without = without if aggregate == "sample" else _exp(without)
    if np.isinf(without).any():
        return np.asarray(math.inf)
    n = len(without)
    return np.asarray(np.sqrt((n - 1) / n * np.sum((without - without.mean()) ** 2)))


def adjusted_perplexity(
    perplexity: Float[AnyArray, "..."], pos_entropy: Float[AnyArray, "..."]
) -> Float[AnyArray, "..."]:
    """Perplexity over exp of the per-position entropy of the same ids.

    Its log is (KL(G || R) - TC) / L for samples of G scored by R: the per-position entropy
    takes back what a generator gains by lacking variety at each position, but dependence
    between positions (copying, repeating a block) is rewarded. Values below 1 are possible.
    A plug-in `pos_entropy` is biased down (at most log n), so this is biased up.

    Args:
      perplexity: per token, > 0.
      pos_entropy: nats per position, >= 0 (`Entropies.pos` or `.pos_mm`).

    Returns:
      Array of the broadcast shape.

    Raises:
      ValueError: perplexity NaN or not positive, pos_entropy NaN, infinite or negative.

    Source: "Hacking Generative Perplexity: Why Unconditional Text Evaluation Needs New
    Metrics", its adjusted score.

    >>> round(float(adjusted_perplexity(20.0, np.log(10.0))), 4)
    2.0
    """
    if is_traced(perplexity, pos_entropy):
        return jnp.asarray(perplexity) / jnp.exp(pos_entropy)
    perplexity = np.asarray(perplexity, np.float64)
    pos_entropy = np.asarray(pos_entropy, np.float64)
    if not np.all(perplexity > 0):
        raise ValueError(f"perplexity must be positive and not NaN, got {perplexity}")
    if not np.all((pos_entropy >= 0) & (pos_entropy < np.inf)):
        raise ValueError(f"pos_entropy must be finite, >= 0 and in nats, got {pos_entropy}")
    return np.asarray(perplexity / np.exp(pos_entropy))


def check_nll_rows(nll, num_tokens, aggregate: str):
    """Validates; concrete input becomes NumPy float64 and int64."""
    if aggregate not in get_args(Aggregate):
        raise ValueError(f"aggregate must be one of {get_args(Aggregate)}, got {aggregate!r}")
    traced = is_traced(nll, num_tokens)
    if not traced:
        nll, num_tokens = real_array("nll", nll), np.asarray(num_tokens)
    if np.ndim(nll) != 1 or np.shape(num_tokens) != np.shape(nll):
        raise ValueError(
            "nll and num_tokens must be 1-D with one entry a row, got shapes "
            f"{np.shape(nll)} and {np.shape(num_tokens)}"
        )
    if np.size(nll) == 0:
        raise ValueError("nll has no rows: an empty bank has no perplexity; pass scored samples")
    if traced:
        return jnp.asarray(nll), jnp.asarray(num_tokens)
    if not np.issubdtype(num_tokens.dtype, np.integer):
        raise ValueError(f"num_tokens must be integers, got dtype {num_tokens.dtype}")
    num_tokens = num_tokens.astype(np.int64)
    _refuse(np.isnan(nll) | (nll == -np.inf), nll, "nll", "nats, neither NaN nor -inf")
    _refuse(num_tokens < 0, num_tokens, "num_tokens", "a count >= 0")
    _refuse((num_tokens == 0) & (nll != 0), nll, "nll", "0 where num_tokens is 0")
    if not num_tokens.any():
        raise ValueError(
            "num_tokens are all 0: no token was scored; check lengths and the target mask "
            "(rows of one token have no target)"
        )
    return nll, num_tokens


def real_array(name: str, values) -> np.ndarray:
    """Concrete real numbers as NumPy float64, or `ValueError` naming the argument."""
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must be a rectangular array of numbers ({error})") from error
    if array.dtype.kind not in "fiu" and array.dtype != jnp.bfloat16:
        raise ValueError(f"{name} must hold real numbers, got dtype {array.dtype}")
    return array.astype(np.float64)


def check_eos(eos_id: int | None, policy: Policy, pad_with_eos: bool) -> None:
    """`ValueError` where an EOS id is needed and no integer was passed."""
    if (policy != "first_eos" and not pad_with_eos) or is_traced(eos_id):
        return
    value = np.asarray(eos_id)
    if value.ndim or value.dtype.kind not in "iu":
        asks = 'policy "first_eos"' if policy == "first_eos" else "pad_with_eos"
        raise ValueError(f"{asks} needs the integer eos_id of the scorer, got {eos_id!r}")


def _refuse(wrong: np.ndarray, values: np.ndarray, name: str, accepted: str) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            f"{name}[{row}] = {values[row]} ({wrong.sum()} of {len(values)} rows); "
            f"it must be {accepted}"
        )


def _traced_perplexity(nll, num_tokens, aggregate: str):
    if aggregate == "token":
        return jnp.exp(jnp.sum(nll) / jnp.sum(num_tokens))
    scored = num_tokens > 0
    rates = jnp.where(scored, nll / jnp.maximum(num_tokens, 1), 0.0)
    rows = jnp.exp(rates) if aggregate == "sample" else rates
    mean = jnp.sum(jnp.where(scored, rows, 0.0)) / jnp.sum(scored)
    return mean if aggregate == "sample" else jnp.exp(mean)


def _exp(x):
    """exp whose overflow is the documented infinity, not a NumPy warning."""
    with np.errstate(over="ignore"):
        return np.exp(x)


def _warn_empty(count: int, aggregate: str) -> None:
    if count:
        warnings.warn(
            f'{count} rows have no scored token; aggregate="{aggregate}" leaves them out',
            stacklevel=3,
        )
