"""Causal language models as scorers: exact log-likelihoods and hidden states of id rows."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ..metrics import GradientStats
from . import sources, text_tokens
from .decoder import DecoderConfig, Params, hidden_states, project
from .denoiser import load_network, logits_function
from .gradient_stats import stream_gradients

# Tokens in one launch: bounds memory (logits of 2^14 tokens over 32k ids take 2 GB).
_TOKENS_PER_LAUNCH = 1 << 14


class Scorer(NamedTuple):
    """A causal language model that judges text.

    Attributes:
        nll: (ids Int["n t"], lengths Int["n"], mask Bool["n t"] | None) -> (sums of
            -log p(id | earlier ids of the row) in nats Float["n"], scored targets Int["n"]).
            Ids are scored as given: no BOS is added, targets are positions 1..length-1 where
            `mask` (default: all) is True.
        hidden: (ids, lengths) -> final hidden states Float["n t d"]; zeros beyond a row's length.
        gradient_stats: (ids, lengths, mask=None, *, batch_size=1, reduction="sample",
            sketch=None, parameters=None) -> `metrics.GradientStats` of the parameter gradients,
            rows and targets as for `nll`. Rows are taken in order, `batch_size` at a time (a
            last batch may be short). A batch's loss is the mean over its rows of the mean over a
            row's targets (reduction "sample"), or the mean over all targets of the batch
            ("token"). All parameters count as trained, tied embeddings once, and gradients have
            the parameters' type: load float32. `sketch`: a width such as 65536, or a
            `metrics.CountSketch`, to keep a sketch a batch for standard errors. `parameters`: a
            regular expression searched for in names such as "embed" or "blocks.3.q_proj"; the
            sums are then a dict by those names and compare with no other choice.
        logits_fn, params: as in `Denoiser`; position i predicts token i + 1.
        eos_id, bos_id: special ids, or None.
        num_ids: ids below this are real tokens.
        tokenizer: None where the folder has no tokenizer file.
        card: source, digests, sizes.
    """

    nll: Callable[..., tuple[np.ndarray, np.ndarray]]
    hidden: Callable[..., np.ndarray]
    gradient_stats: Callable[..., GradientStats]
    logits_fn: Callable[..., Float[Array, "b l v"]]
    params: Params
    eos_id: int | None
    bos_id: int | None
    num_ids: int
    tokenizer: text_tokens.Tokenizer | None
    card: sources.ModelCard


def load_scorer(
    source: str, *, dtype: str = "float32", mesh: Any = None, architecture: str | None = None
) -> Scorer:
    """Loads a causal scorer; arguments and errors as `load_denoiser`."""
    loaded = load_network(source, "scorer", dtype, mesh, architecture)
    config = loaded.spec.network
    num_ids = loaded.spec.num_ids
    if loaded.tokenizer is not None:
        num_ids = min(num_ids, loaded.tokenizer.vocab_size)
    return Scorer(
        functools.partial(_nll, config, loaded.params),
        functools.partial(_hidden, config, loaded.params),
        functools.partial(_gradient_stats, config, loaded.params),
        logits_function(config),
        loaded.params,
        loaded.spec.eos_id,
        loaded.spec.bos_id,
        num_ids,
        loaded.tokenizer,
        loaded.card,
    )


def _nll(config, params, ids, lengths, mask=None):
    ids, lengths = _check_rows(config, ids, lengths)
    targets = _targets(ids, lengths, mask)
    sums = [_launch_nll(config, params, *rows) for rows in _launches(ids, lengths, targets)]
    nll = np.concatenate(sums)[: len(ids)]
    if not np.isfinite(nll).all():
        bad = int(np.flatnonzero(~np.isfinite(nll))[0])
        raise ValueError(f"the scorer gives row {bad} a log-likelihood that is not finite")
    return nll, targets.sum(axis=1).astype(np.int32)


def _hidden(config, params, ids, lengths):
    ids, lengths = _check_rows(config, ids, lengths)
    parts = [
        _launch_hidden(config, params, rows, token_mask)
        for rows, token_mask, _ in _launches(ids, lengths, np.zeros_like(ids, bool))
    ]
    return np.concatenate([np.asarray(part) for part in parts])[: len(ids)]


def _gradient_stats(config, params, ids, lengths, mask=None, **options):
    ids, lengths = _check_rows(config, ids, lengths)
    token_mask = np.arange(ids.shape[1]) < np.maximum(lengths, 1)[:, None]
    targets = _targets(ids, lengths, mask)
    return stream_gradients(_row_nll_of(config), params, ids, token_mask, targets, **options)


def _targets(ids, lengths, mask) -> Bool[np.ndarray, "n t"]:
    """The tokens to score: real ones, after the first of their row, that `mask` lets in."""
    targets = np.arange(ids.shape[1]) < lengths[:, None]
    targets[:, :1] = False
    if mask is not None:
        if np.shape(mask) != ids.shape:
            raise ValueError(f"mask has shape {np.shape(mask)}, ids {ids.shape}; they must agree")
        if np.asarray(mask).dtype.kind not in "biu":
            raise ValueError(f"mask must hold truth values, got dtype {np.asarray(mask).dtype}")
        targets &= np.asarray(mask, bool)
    return targets


def _launches(ids, lengths, targets):
    """Batches of one shape: as many rows as the launch holds, the last one filled up."""
    n, t = ids.shape
    rows = max(1, min(n, _TOKENS_PER_LAUNCH // t))
    padded = -(-n // rows) * rows
    token_mask = np.arange(t) < np.maximum(lengths, 1)[:, None]
    index = np.minimum(np.arange(padded), n - 1)
    for start in range(0, padded, rows):
        part = index[start : start + rows]
        yield ids[part], token_mask[part], targets[part]


def _row_nll(
    config: DecoderConfig,
    params: Params,
    ids: Int[Array, "b t"],
    token_mask: Bool[Array, "b t"],
    targets: Bool[Array, "b t"],
) -> Float[Array, "b"]:
    hidden = hidden_states(config, params, ids, token_mask)
    logits = project(config, params, hidden[:, :-1])
    log_p = jax.nn.log_softmax(logits)
    picked = jnp.take_along_axis(log_p, ids[:, 1:, None], axis=-1)[..., 0]
    return -jnp.where(targets[:, 1:], picked, 0.0).sum(axis=1)


_launch_nll = jax.jit(_row_nll, static_argnums=0)


@functools.cache
def _row_nll_of(config: DecoderConfig) -> Callable[..., Float[Array, "b"]]:
    """One object per shape of network, hence one trace of a gradient step."""
    return functools.partial(_row_nll, config)


@functools.partial(jax.jit, static_argnums=0)
def _launch_hidden(
    config: DecoderConfig,
    params: Params,
    ids: Int[Array, "b t"],
    token_mask: Bool[Array, "b t"],
) -> Float[Array, "b t d"]:
    hidden = hidden_states(config, params, ids, token_mask).astype(jnp.float32)
    return jnp.where(token_mask[..., None], hidden, 0.0)


def _check_rows(config: DecoderConfig, ids, lengths) -> tuple[np.ndarray, np.ndarray]:
    ids, lengths = np.asarray(ids), np.asarray(lengths)
    if ids.ndim != 2 or not np.issubdtype(ids.dtype, np.integer) or 0 in ids.shape:
        raise ValueError(f"ids must be a non-empty 2-D integer array, not {ids.dtype}{ids.shape}")
    if lengths.shape != (len(ids),) or not np.issubdtype(lengths.dtype, np.integer):
        raise ValueError(
            f"lengths must hold {len(ids)} integers, not {lengths.dtype}{lengths.shape}"
        )
    if lengths.min() < 0 or lengths.max() > ids.shape[1]:
        raise ValueError(
            f"lengths must lie in 0..{ids.shape[1]}, not {lengths.min()}..{lengths.max()}"
        )
    valid = ids[np.arange(ids.shape[1]) < lengths[:, None]]
    if valid.size and (valid.min() < 0 or valid.max() >= config.vocab_size):
        raise ValueError(
            f"ids must lie in 0..{config.vocab_size - 1}, not {valid.min()}..{valid.max()}"
        )
    # What lies beyond a row's length is the caller's business, but must index the embedding.
    clean = np.where(np.arange(ids.shape[1]) < lengths[:, None], ids, 0)
    return clean.astype(np.int32), lengths.astype(np.int32)
