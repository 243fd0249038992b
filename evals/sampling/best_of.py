"""Best of n: the baseline that spends compute on more samples instead of more steps."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from ... import samplers
from ..corpora.heldout import masked_loss
from .network import Network, sample_from

DRAWS = 4  # masks a candidate is judged by


def sample_best_of(
    network: Network,
    config: samplers.SamplerConfig,
    prompt: Int[Array, "b p"] | Any,
    prompt_mask: Bool[Array, "b p"] | Any,
    keys: Array,
    num_candidates: int,
) -> samplers.Samples:
    """Draws several samples for each key and keeps the one the network finds most likely.

    Likelihood is the Monte Carlo bound of `likelihood_bound`; every candidate of a sample is judged
    by the same masks. `nfe` counts all candidates and `DRAWS` forwards for judging each, and
    `launches` likewise; the history is that of the sample kept, without notes.
    """
    batch = len(keys)
    generated = jnp.ones((batch, config.gen_length), bool)
    mask = jnp.concatenate([jnp.asarray(prompt_mask, bool), generated], axis=1)
    fold = jax.vmap(jax.random.fold_in, in_axes=(0, None))
    runs, bounds = [], []
    for candidate in range(num_candidates):
        run = sample_from(network, config, prompt, prompt_mask, fold(keys, candidate))
        runs.append(run)
        bounds.append(likelihood_bound(network, run.tokens, mask, config.gen_length, keys))
    best = np.argmax(np.stack(bounds), axis=0)
    rows = np.arange(batch)
    history = None
    if runs[0].history is not None:
        canvases = np.stack([np.asarray(run.history.canvas) for run in runs])
        history = samplers.History(
            jnp.asarray(canvases[best, :, rows].transpose(1, 0, 2)), network.mask_id
        )
    judged = DRAWS * num_candidates
    return samplers.Samples(
        tokens=jnp.asarray(np.stack([np.asarray(run.tokens) for run in runs])[best, rows]),
        nfe=jnp.sum(jnp.stack([run.nfe for run in runs]), axis=0) + judged,
        launches=jnp.sum(jnp.stack([run.launches for run in runs])) + judged,
        history=history,
    )


def likelihood_bound(
    network: Network,
    tokens: Int[Array, "b t"],
    token_mask: Bool[Array, "b t"],
    gen_length: int,
    keys: Array,
) -> Float[np.ndarray, "b"]:
    """Monte Carlo lower bound on log p(last gen_length tokens | rest), nats, `DRAWS` masks a row.

    Numbers of masked tokens are stratified over 1..length and the loss of each draw weighs
    length / number, as LLaDA's likelihood does (ML-GSAI/LLaDA, get_log_likelihood.py). Unbiased
    for the bound, without guidance; noise between candidates is reduced by judging them under the
    same keys.
    """
    losses = []
    for draw in range(DRAWS):
        hidden, count = _masks(keys, jnp.int32(draw), gen_length, tokens.shape[1])
        loss = masked_loss(
            network.logits_fn,
            network.params,
            network.mask_id,
            network.num_ids,
            tokens,
            token_mask,
            hidden,
        )
        losses.append(np.asarray(loss * gen_length / count))
    return -np.mean(losses, axis=0)


@functools.partial(jax.jit, static_argnums=(2, 3))
def _masks(keys, draw, length, width):
    """Which of the last `length` of `width` positions a draw hides, and how many."""
    # The sampler folds in steps and candidates, which are not negative and far below this.
    own = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, 2**31 - 1 - draw)

    def masked(key):
        share_key, order_key = jax.random.split(key)
        share = (draw + jax.random.uniform(share_key)) / DRAWS
        count = jnp.clip(jnp.ceil(share * length), 1, length).astype(jnp.int32)
        rank = jnp.argsort(jax.random.uniform(order_key, (length,))).argsort()
        return rank < count, count

    hidden, count = jax.vmap(masked)(own)
    return jnp.pad(hidden, ((0, 0), (width - length, 0))), count
