"""-log p of rows under a causal network, without ever holding the logits of all positions."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from .family import NetworkConfig
from .network import Network, Params

# Logits that exist at a time. On CPU few are faster, down to some thousand ids a tile; elsewhere a
# matrix product should be large enough to keep the device busy.
_LOGITS = {"cpu": 1 << 22}
_LOGITS_ELSEWHERE = 1 << 28
# The gradient of the head is as large as the head, for every slice: there should be few.
_LOGITS_OF_A_GRADIENT = 1 << 24
# Tiles are multiples of it, as matrix products like them.
_LEAST_TILE = 256


def score_rows(
    network: Network,
    config: NetworkConfig,
    params: Params,
    ids: Int[Array, "b t"],
    token_mask: Bool[Array, "b t"],
    targets: Bool[Array, "b t"],
) -> Float[Array, "b"]:
    """Sums over the targets of -log p(id | earlier ids) in nats, float32 whatever the weights.

    The head runs over a tile of the vocabulary at a time, with a running log-sum-exp, so that few
    logits exist at once. For gradients see `row_nll`.
    """
    b, t = ids.shape
    hidden = network.hidden_states(config, params, ids, token_mask)[:, :-1]
    labels = ids[:, 1:]
    vocab = config.vocab_size
    limit = _LOGITS.get(jax.default_backend(), _LOGITS_ELSEWHERE)
    wanted = limit // max(b * (t - 1), 1) // _LEAST_TILE * _LEAST_TILE
    size = min(vocab, max(_LEAST_TILE, wanted))

    def tile(carry, number):
        largest, total, picked = carry
        # The last tile begins earlier, to be whole; what others had does not count again.
        start = jnp.minimum(number * size, vocab - size)
        logits = network.project(config, params, hidden, (start, size))
        logits = jnp.where(start + jnp.arange(size) >= number * size, logits, -jnp.inf)
        new = jnp.maximum(largest, logits.max(axis=-1))
        total = total * jnp.exp(largest - new) + jnp.exp(logits - new[..., None]).sum(axis=-1)
        index = jnp.clip(labels - start, 0, size - 1)
        here = jnp.take_along_axis(logits, index[..., None], axis=-1)[..., 0]
        mine = (labels >= number * size) & (labels < start + size)
        return (new, total, jnp.where(mine, here, picked)), None

    empty = jnp.zeros((b, t - 1), jnp.float32)
    carry = (empty - jnp.finfo(jnp.float32).max, empty, empty)
    (largest, total, picked), _ = jax.lax.scan(tile, carry, jnp.arange(-(-vocab // size)))
    surprisal = largest + jnp.log(total) - picked
    return jnp.where(targets[:, 1:], surprisal, 0.0).sum(axis=1)


def row_nll(
    network: Network,
    config: NetworkConfig,
    params: Params,
    ids: Int[Array, "b t"],
    token_mask: Bool[Array, "b t"],
    targets: Bool[Array, "b t"],
) -> Float[Array, "b"]:
    """As `score_rows`, for gradients: the head runs over a slice of positions at a time.

    Under a gradient each slice's logits and each layer are computed again, so memory stays that of
    one slice and one layer.
    """
    b, t = ids.shape
    hidden = network.hidden_states(config, params, ids, token_mask, remat=True)[:, :-1]
    labels = ids[:, 1:]
    size = _slice_size(config.vocab_size, b * (t - 1))
    count = -(-b * (t - 1) // size)

    def sliced(x):
        flat = x.reshape(b * (t - 1), *x.shape[2:])
        spare = ((0, count * size - len(flat)), *((0, 0),) * (flat.ndim - 1))
        return jnp.pad(flat, spare).reshape(count, size, *flat.shape[1:])

    @jax.checkpoint
    def one_slice(part):
        states, label = part
        logits = network.project(config, params, states[None])[0]
        picked = jnp.take_along_axis(logits, label[:, None], axis=-1)[:, 0]
        return jax.nn.logsumexp(logits, axis=-1) - picked

    surprisal = jax.lax.map(one_slice, (sliced(hidden), sliced(labels)))
    surprisal = surprisal.reshape(-1)[: b * (t - 1)].reshape(b, t - 1)
    return jnp.where(targets[:, 1:], surprisal, 0.0).sum(axis=1)


def _slice_size(vocab_size: int, positions: int) -> int:
    """Positions a slice: as many slices as needed, all of one size with little to spare."""
    most = max(1, _LOGITS_OF_A_GRADIENT // vocab_size)
    return max(1, -(-positions // -(-positions // most)) if positions else 1)
