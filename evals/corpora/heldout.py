"""How many bits a model needs for a byte of unseen text: the card's figures, for any model."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int

from ...models import Denoiser, Scorer, Tokenizer
from .corpus import Corpus


class CodeLength(NamedTuple):
    """Ideal code length of a corpus under a model, end-of-text tokens included.

    Attributes:
        bits_per_byte: all bits over the UTF-8 bytes of the documents.
        stderr: its standard error over rows (a ratio estimator, rows taken as independent).
        nats_per_token: all nats over the coded tokens.
        num_tokens, num_bytes: what was coded.
    """

    bits_per_byte: float
    stderr: float
    nats_per_token: float
    num_tokens: int
    num_bytes: int


def token_stream(corpus: Corpus, tokenizer: Tokenizer, eos_id: int) -> np.ndarray:
    """All documents in order, each behind one end-of-text token, and one more at the end."""
    ids = tokenizer.encode_batch(corpus.documents)
    return np.array([i for document in ids for i in (eos_id, *document)] + [eos_id], np.int32)


def causal_code_length(
    scorer: Scorer, corpus: Corpus, *, length: int = 128, stride: int = 64
) -> CodeLength:
    """Code length under a causal model; windows overlap, so each target sees length - stride or
    more earlier tokens (fewer only at the very start).

    Raises:
        ValueError: the scorer has no tokenizer or end-of-text id, or stride is out of 1..length-1.
    """
    if not 1 <= stride < length:
        raise ValueError(f"stride must lie in 1..{length - 1}, not {stride}")
    tokenizer, eos_id = _text_side(scorer)
    stream = token_stream(corpus, tokenizer, eos_id)
    starts = np.arange(0, max(len(stream) - length, 0) + stride, stride)
    rows = np.zeros((len(starts), length), np.int32)
    mask = np.zeros(rows.shape, bool)
    lengths = np.minimum(len(stream) - starts, length).astype(np.int32)
    for row, start in enumerate(starts):
        rows[row, : lengths[row]] = stream[start : start + length]
        mask[row, (1 if row == 0 else length - stride) : lengths[row]] = True
    nll, count = scorer.nll(rows, lengths, mask)
    return _summary(nll, count, corpus)


def masked_code_length(
    denoiser: Denoiser, corpus: Corpus, *, length: int = 128, draws: int = 8, seed: int = 0
) -> CodeLength:
    """Upper bound on the code length under a masked denoiser, windows coded independently.

    Monte Carlo over `draws` masks a window, their sizes stratified on 1..length (LLaDA eq. 14 in
    the form that fixes the count); the standard error covers windows and masks. The last, shorter
    window is padded on the right and coded at its own length.

    Raises:
        ValueError: the denoiser has no tokenizer or end-of-text id.
    """
    tokenizer, eos_id = _text_side(denoiser)
    stream = token_stream(corpus, tokenizer, eos_id)
    num_rows = -(-len(stream) // length)
    rows = np.resize(np.append(stream, np.zeros(length, np.int32)), (num_rows, length))
    lengths = np.minimum(len(stream) - np.arange(num_rows) * length, length).astype(np.int32)
    rng = np.random.default_rng(seed)
    total = np.zeros(num_rows)
    for draw in range(draws):
        share = (draw + rng.random(num_rows)) / draws
        counts = np.clip(np.ceil(share * lengths), 1, lengths).astype(np.int32)
        order = rng.random(rows.shape)
        order[np.arange(length) >= lengths[:, None]] = 2.0
        mask = order.argsort(axis=1).argsort(axis=1) < counts[:, None]
        losses = []
        for part, sizes, hidden in _batches(64, rows, lengths, mask):
            valid = jnp.arange(length) < sizes[:, None]
            loss = masked_loss(
                denoiser.logits_fn,
                denoiser.params,
                denoiser.mask_id,
                denoiser.num_ids,
                part,
                valid,
                hidden,
            )
            losses.append(np.asarray(loss))
        total += np.concatenate(losses)[:num_rows] * lengths / counts / draws
    return _summary(total, lengths, corpus)


@functools.partial(jax.jit, static_argnums=0)
def masked_loss(
    logits_fn: Callable[..., Float[Array, "b t v"]],
    params: Any,
    mask_id: int,
    num_ids: int,
    tokens: Int[Array, "b t"],
    token_mask: Bool[Array, "b t"],
    hidden: Bool[Array, "b t"],
) -> Float[Array, "b"]:
    """Summed nats of the hidden tokens of each row, all of them hidden at once.

    Ids that a sampler may not emit (the mask, and from num_ids on) take no probability.
    """
    canvas = jnp.where(hidden, mask_id, tokens)
    logits = logits_fn(params, canvas, token_mask, slice(0, tokens.shape[1]))
    logits = logits[0] if isinstance(logits, tuple) else logits  # beside a quality
    ids = jnp.arange(logits.shape[-1])
    never = (ids == mask_id) | (ids >= num_ids)
    logits = jnp.where(never, -jnp.inf, logits.astype(jnp.float32))
    loss = optax.softmax_cross_entropy_with_integer_labels(logits, tokens)
    return jnp.where(hidden, loss, 0.0).sum(axis=1)


def _batches(size, *arrays):
    n = len(arrays[0])
    for start in range(0, n, size):
        index = np.minimum(np.arange(start, start + size), n - 1)
        yield tuple(array[index] for array in arrays)


def _text_side(model: Scorer | Denoiser) -> tuple[Tokenizer, int]:
    if model.tokenizer is None or model.eos_id is None:
        raise ValueError(
            f"model {model.card.source!r} needs a tokenizer and an end-of-text id to code text"
        )
    return model.tokenizer, model.eos_id


def _summary(nats: np.ndarray, count: np.ndarray, corpus: Corpus) -> CodeLength:
    num_bytes = sum(len(document.encode("utf-8")) for document in corpus.documents)
    nats_per_token = nats.sum() / count.sum()
    residual = nats - nats_per_token * count
    relative = (len(nats) * residual.var(ddof=1)) ** 0.5 / nats.sum() if len(nats) > 1 else np.nan
    bits_per_byte = nats.sum() / np.log(2) / num_bytes
    return CodeLength(
        float(bits_per_byte),
        float(bits_per_byte * relative),
        float(nats_per_token),
        int(count.sum()),
        num_bytes,
    )
