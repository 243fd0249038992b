"""Generative perplexity as public codes compute it, each quirk a named option.

Papers compare numbers that were averaged and masked in different ways. The table here says
how each code does it; the functions turn one pass of a scorer into any of those numbers.
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int

from .perplexity import (
    Policy,
    check_eos,
    check_nll_rows,
    generative_perplexity,
    real_array,
    scored_targets,
)
from .token_rows import AnyArray, check_token_rows, is_traced, valid_positions


@dataclass(frozen=True)
class Convention:
    """How one code gets from scored tokens to a perplexity.

    Attributes:
      source: the code, as repository and function.
      aggregate: "token", "sample", "macro" as in `generative_perplexity`; "half_batch" is the
        exp of the mean over half batches of their NLL per token.
      policy: which EOS targets are scored, as in `target_mask`.
      pad_with_eos: pads are EOS tokens, and a row without an EOS of its own has its first pad
        scored. Pads reach to the width of the arrays.
      drops_partial_batch: the last n % batch_size rows are not scored.
      prepends_bos: a BOS stands before every row, so position 0 is scored as well.
      context: longer rows are split into chunks of so many tokens, each masked by itself and
        its first token not scored; None = rows are not split.
      ids: "scorer" if the text is encoded anew for the scorer, "native" if the generator's
        ids are scored.
      entropy_ids: the ids of the unigram entropy that the code prints beside it; None = none.
      dtype: in which the code runs its scorer. It does not enter the functions below.
      note: what else differs.
    """

    source: str
    aggregate: Literal["token", "sample", "macro", "half_batch"] = "token"
    policy: Policy = "first_eos"
    pad_with_eos: bool = False
    drops_partial_batch: bool = False
    prepends_bos: bool = False
    context: int | None = None
    ids: Literal["scorer", "native"] = "scorer"
    entropy_ids: Literal["scorer", "native"] | None = None
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    note: str = ""


CONVENTIONS = MappingProxyType(
    {
        "dlmeval": Convention(
            source="dlmeval: target_mask, generative_perplexity",
            entropy_ids="scorer",
            note="long rows: scoring_windows; pads are never scored, no row is dropped",
        ),
        "mdlm": Convention(
            source="kuleshov-group/mdlm c112c52: diffusion.py, compute_generative_perplexity",
            pad_with_eos=True,
            drops_partial_batch=True,
            context=1024,
            note="called for each batch of samples, which pads to its own longest row",
        ),
        "remdm": Convention(
            source="kuleshov-group/remdm: diffusion.py and main.py",
            pad_with_eos=True,
            drops_partial_batch=True,
            context=1024,
            entropy_ids="native",
            note="called once for the whole bank, which pads to its longest row",
        ),
        "duo": Convention(
            source="s-sahoo/duo 7c9b498: metrics.py, record_generative_perplexity",
            pad_with_eos=True,
            drops_partial_batch=True,
            context=1024,
            entropy_ids="native",
            note="FLM uses the same function",
        ),
        "elf": Convention(
            source="ELF: src/utils/metrics_utils.py, record_generative_perplexity",
            pad_with_eos=True,
            context=1024,
            entropy_ids="scorer",
            dtype="bfloat16",
            note="as duo, but keeps the last batch; forks differ in the mask",
        ),
        "langflow": Convention(
            source="nealchen2003/LangFlow a712b08: gen_ppl.py, compute_generated_ppl",
            policy="all",
            entropy_ids="native",
            dtype="float16",
            note="float32 without a GPU; rows are cut at 1,024 tokens",
        ),
        "cobit": Convention(
            source="CoBit: evaluation/external_perplexity.py, score_texts",
            policy="all",
            dtype="bfloat16",
            note="each text by itself; long texts by windows that end at multiples of the stride",
        ),
        "sedd": Convention(
            source="louaaron/Score-Entropy-Discrete-Diffusion 0605786: run_train.py",
            aggregate="sample",
            policy="all",
            drops_partial_batch=True,
            ids="native",
            note="rows are full; fewer rows than one batch divide by zero there, not here",
        ),
        "gradient_moment_ids": Convention(
            source="ehoogeboom/gradient-moment 9155ddb: huggingface.py, causal_lm_forward",
            aggregate="half_batch",
            policy="all",
            ids="native",
            entropy_ids="native",
            note="rows are full, so equal batches give the token-weighted value",
        ),
        "gradient_moment_text": Convention(
            source="ehoogeboom/gradient-moment 9155ddb: huggingface.py, text_causal_lm_forward",
            aggregate="half_batch",
            pad_with_eos=True,
            entropy_ids="scorer",
            note="texts are stripped, empty ones become one EOS; pads to 1,024 always",
        ),
        "hf_evaluate": Convention(
            source="huggingface/evaluate: metrics/perplexity/perplexity.py",
            aggregate="sample",
            policy="all",
            prepends_bos=True,
            note="add_start_token=True, its default",
        ),
    }
)


def perplexity_as(
    name: str | Convention,
    token_nll: Float[AnyArray, "n t"],
    ids: Int[AnyArray, "n t"],
    lengths: Int[AnyArray, " n"] | None = None,
    *,
    eos_id: int | None = None,
    batch_size: int | None = None,
) -> Float[AnyArray, ""]:
    """The generative perplexity that a public code would print, from NLLs token by token.

    Targets are chosen by `targets_as`, rows put together by `aggregate_as`. Two things are the
    caller's, since they were decided when the scorer ran: conventions with `pad_with_eos` need
    rows as wide as that code pads them (see `note`), padded with EOS and with the NLL of the
    pads; rows beyond `context` need NLLs of chunks (`scoring_windows` without a stride).

    Bias as `generative_perplexity`. For a standard error, sum `token_nll` over `targets_as`
    and take `generative_perplexity_stderr`. O(n t), NumPy float64, concrete arrays only.

    Args:
      name: a key of `CONVENTIONS`, or a `Convention` of your own.
      token_nll: Float[Array, "n t"] nats; entry t is -log p(ids[t] | ids[:t]). What is not
        scored is not looked at; column 0 counts only where a BOS is prepended.
      ids: Int[Array, "n t"] the ids that were scored.
      lengths: Int[Array, "n"] valid tokens per row, pads left out; None = full rows.
      eos_id: end-of-text id; not needed by policy "all".
      batch_size: rows per scorer batch of that code; None = one batch of all rows.

    Returns:
      0-d float64 array, perplexity per token.

    Raises:
      ValueError: an unknown name, shapes that differ, NaN or -inf among scored tokens, a
        scored pad that is not EOS, no scored token, an odd batch for "half_batch", or bad ids,
        lengths or batch_size.

    Source: `Convention.source` of each.

    >>> ids = np.array([[5, 6, 7, 0], [5, 6, 0, 0]])  # id 0 is EOS and padding
    >>> token_nll = np.log([[1, 2, 4, 1], [1, 8, 64, 1]])
    >>> for name in ("dlmeval", "mdlm", "sedd"):
    ...     print(name, round(float(perplexity_as(name, token_nll, ids, [3, 2], eos_id=0)), 4))
    dlmeval 4.0
    mdlm 5.278
    sedd 5.4142
    """
    convention = _find(name)
    targets = targets_as(convention, ids, lengths, eos_id=eos_id)
    ids, lengths = check_token_rows(ids, lengths)
    token_nll = real_array("token_nll", token_nll)
    if token_nll.shape != ids.shape:
        raise ValueError(
            f"token_nll must have the shape of ids {ids.shape}, an entry a token (column 0 may "
            f"hold zeros), got {token_nll.shape}"
        )
    wrong = targets & (np.isnan(token_nll) | (token_nll == -np.inf))
    if wrong.any():
        row, position = np.argwhere(wrong)[0]
        raise ValueError(
            f"token_nll[{row}, {position}] = {token_nll[row, position]} is scored "
            f"({wrong.sum()} such entries); score those rows again or set their lengths"
        )
    lengths = np.asarray(lengths)
    foreign = targets & ~valid_positions(lengths, ids.shape[1]) & (np.asarray(ids) != eos_id)
    if foreign.any():
        row, position = np.argwhere(foreign)[0]
        raise ValueError(
            f"ids[{row}, {position}] = {ids[row, position]} is beyond the row's length "
            f"{lengths[row]}, but this convention pads with EOS and scores that pad; fill it "
            f"with eos_id = {eos_id} and score the rows again"
        )
    nll = np.where(targets, token_nll, 0.0).sum(axis=1)
    return aggregate_as(convention, nll, targets.sum(axis=1), batch_size=batch_size)


def targets_as(
    name: str | Convention,
    ids: Int[AnyArray, "n t"],
    lengths: Int[AnyArray, " n"] | None = None,
    *,
    eos_id: int | None = None,
) -> Bool[np.ndarray, "n t"]:
    """Which tokens a public code scores; the mask to hand to a scorer that sums by itself.

    Args, errors: as `perplexity_as`.

    Returns:
      Bool[np.ndarray, "n t"], entry t tells whether token t is scored.

    >>> ids = np.array([[5, 6, 7, 0], [5, 6, 0, 0]])
    >>> targets_as("duo", ids, np.array([3, 2]), eos_id=0).astype(int).tolist()
    [[0, 1, 1, 1], [0, 1, 1, 0]]
    """
    convention = _find(name)
    if is_traced(ids, lengths):
        raise ValueError("conventions need concrete arrays; inside jit call target_mask")
    ids, lengths = (np.asarray(x) for x in check_token_rows(ids, lengths))
    check_eos(eos_id, convention.policy, convention.pad_with_eos)
    valid = valid_positions(lengths, ids.shape[1])
    if convention.pad_with_eos and eos_id is not None:
        ids, valid = np.where(valid, ids, eos_id), np.ones_like(valid)
    width = convention.context or ids.shape[1]
    chunks = [slice(start, start + width) for start in range(0, ids.shape[1], width)]
    targets = np.concatenate(
        [scored_targets(np, ids[:, c], valid[:, c], eos_id, convention.policy) for c in chunks],
        axis=1,
    )
    if convention.prepends_bos:
        targets[:, 0] = lengths > 0
    return targets


def aggregate_as(
    name: str | Convention,
    nll: Float[AnyArray, " n"],
    num_tokens: Int[AnyArray, " n"],
    *,
    batch_size: int | None = None,
) -> Float[AnyArray, ""]:
    """The perplexity a public code prints, from sums over the targets of each row.

    Args:
      name, batch_size: as in `perplexity_as`. At most n rows make a batch.
      nll: Float[Array, "n"] nats summed over the targets (`targets_as`) of each row.
      num_tokens: Int[Array, "n"] how many they are.

    Returns:
      0-d float64 array.

    Raises:
      ValueError: as `generative_perplexity`; a bad batch_size.

    >>> nll, num_tokens = np.log([2.0, 8.0, 9.0]), np.array([1, 1, 1])
    >>> round(float(aggregate_as("sedd", nll, num_tokens, batch_size=2)), 4)  # drops the third
    5.0
    >>> round(float(aggregate_as("mdlm", nll, num_tokens, batch_size=2)), 4)
    4.0
    """
    convention = _find(name)
    if is_traced(nll, num_tokens):
        raise ValueError("conventions need concrete arrays; inside jit call generative_perplexity")
    aggregate = convention.aggregate
    nll, num_tokens = check_nll_rows(nll, num_tokens, "token")
    n = len(nll)
    if batch_size is None:
        batch_size = n
    if isinstance(batch_size, bool) or not isinstance(batch_size, int | np.integer):
        raise ValueError(f"batch_size must be an integer or None, got {batch_size!r}")
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    batch_size = min(batch_size, n)
    if convention.drops_partial_batch:
        n -= n % batch_size
    nll, num_tokens = np.asarray(nll)[:n], np.asarray(num_tokens)[:n]
    if aggregate == "half_batch":
        rates = _half_batch_rates(nll, num_tokens, batch_size)
        return generative_perplexity(rates, np.ones(len(rates), np.int64), "macro")
    return generative_perplexity(nll, num_tokens, aggregate)


def _half_batch_rates(nll: np.ndarray, num_tokens: np.ndarray, batch_size: int) -> np.ndarray:
    """NLL per token of both halves of every batch; 0 for a half without scored tokens."""
    n = len(nll)
    if batch_size % 2 or n % batch_size % 2:
        raise ValueError(
            f"this convention halves its batches, so they must be even: got batch_size = "
            f"{batch_size} for {n} rows; drop a row or choose another batch_size"
        )
    starts = np.arange(0, n, batch_size)
    middles = (starts + np.minimum(starts + batch_size, n)) // 2
    edges = np.stack([starts, middles], axis=1).ravel()
    return np.add.reduceat(nll, edges) / np.maximum(np.add.reduceat(num_tokens, edges), 1)


def _find(name: str | Convention) -> Convention:
    if isinstance(name, Convention):
        return name
    if name not in CONVENTIONS:
        raise ValueError(f"name must be one of {sorted(CONVENTIONS)}, got {name!r}")
    return CONVENTIONS[name]
