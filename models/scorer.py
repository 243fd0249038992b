"""Causal language models as scorers: exact log-likelihoods and hidden states of id rows."""

import functools
from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Bool, Float

from ..metrics import GradientStats
from . import precision, sources, text_tokens
from .batches import check_rows
from .denoiser import logits_function
from .family import NetworkConfig
from .gradient_stats import stream_gradients
from .likelihood import row_nll, score_rows
from .loading import load_network
from .network import Network, Params
from .states import Bound, bind, stream_states
from .streaming import stream


class Scorer(NamedTuple):
    """A causal language model that judges text.

    Attributes:
        nll: (ids Int["n t"], lengths Int["n"], mask Bool["n t"] | None) -> (sums of
            -log p(id | earlier ids of the row) in nats Float["n"], scored targets Int["n"]).
            Ids are scored as given: no BOS is added, targets are positions 1..length-1 where
            `mask` (default: all) is True. Rows run in buckets of like lengths, in batches as
            large as memory allows; neither changes a row's number beyond float32 rounding.
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
            sums are then a dict by those names and compare with no other choice. Layers are
            recomputed in the backward pass: of each, only its input is kept.
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
    source: str,
    *,
    dtype: str = "float32",
    mesh: jax.sharding.Mesh | None = None,
    architecture: str | None = None,
    matmul_precision: str = "highest",
    digests: Mapping[str, str] | None = None,
) -> Scorer:
    """Loads a causal scorer; arguments and errors as `load_denoiser`."""
    loaded = load_network(
        source,
        "scorer",
        dtype,
        mesh,
        architecture,
        matmul_precision=matmul_precision,
        digests=digests,
    )
    bound = bind(loaded)
    return Scorer(
        functools.partial(_nll, bound),
        functools.partial(_hidden, bound),
        functools.partial(_gradient_stats, bound),
        logits_function(bound.network, bound.config, matmul_precision),
        loaded.params,
        loaded.spec.eos_id,
        loaded.spec.bos_id,
        loaded.num_ids,
        loaded.tokenizer,
        loaded.card,
    )


def _nll(bound: Bound, ids, lengths, mask=None):
    ids, lengths = check_rows(ids, lengths, bound.config.vocab_size, bound.config.max_length)
    targets = _targets(ids, lengths, mask)
    launch = functools.partial(_launch_nll, bound.network, bound.config, bound.precision)
    nll = stream(launch, bound.params, ids, lengths, targets)
    if not np.isfinite(nll).all():
        bad = int(np.flatnonzero(~np.isfinite(nll))[0])
        raise ValueError(f"the scorer gives row {bad} a log-likelihood that is not finite")
    return nll, targets.sum(axis=1).astype(np.int32)


def _hidden(bound: Bound, ids, lengths):
    ids, lengths = check_rows(ids, lengths, bound.config.vocab_size, bound.config.max_length)
    return stream_states(bound, ids, lengths)


def _gradient_stats(bound: Bound, ids, lengths, mask=None, **options):
    ids, lengths = check_rows(ids, lengths, bound.config.vocab_size, bound.config.max_length)
    token_mask = np.arange(ids.shape[1]) < np.maximum(lengths, 1)[:, None]
    targets = _targets(ids, lengths, mask)
    nll = _row_nll_of(bound.network, bound.config, bound.precision)
    return stream_gradients(nll, bound.params, ids, token_mask, targets, **options)


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


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _launch_nll(network, config, matmul_precision, params, ids, token_mask, targets):
    with precision.products(matmul_precision):
        return score_rows(network, config, params, ids, token_mask, targets)


@functools.cache
def _row_nll_of(network: Network, config: NetworkConfig, matmul_precision: str):
    """One object per shape of network, hence one trace of a gradient step."""

    def nll(params, ids, token_mask, targets):
        with precision.products(matmul_precision):
            return row_nll(network, config, params, ids, token_mask, targets)

    return nll
