"""Sparse mixture of experts as in LLaDA-MoE: every token's own choice, none dropped.

There is no capacity: a token's output is a function of that token alone, so padding and the other
rows of a batch change nothing beyond the rounding of a matrix product.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

# Rows of one product of the CPU's grouped matmul, least and most.
_LEAST_TILE, _MOST_TILE = 8, 256


def route(
    x: Float[Array, "n d"],
    router: Float[Array, "d e"],
    bias: Float[Array, "e"] | None,
    num_chosen: int,
) -> tuple[Float[Array, "n k"], Int[Array, "n k"]]:
    """Weights and numbers of the experts each token goes to, the heaviest first.

    Softmax over all experts in float32, plus the bias, then the largest k: as in the public code,
    the weights include the bias and are not renormalised. Equal weights go to the lower number
    (torch.topk promises no order there).
    """
    # Float32 products whatever the backend's default: a rounded logit may choose another expert.
    logits = jnp.matmul(x, router, precision="highest", preferred_element_type=jnp.float32)
    weights = jax.nn.softmax(logits, axis=-1)
    if bias is not None:
        weights = weights + bias.astype(jnp.float32)
    return jax.lax.top_k(weights, num_chosen)


def mix_experts(
    x: Float[Array, "n d"],
    weights: Float[Array, "n k"],
    chosen: Int[Array, "n k"],
    gate: Float[Array, "e d f"],
    up: Float[Array, "e d f"],
    down: Float[Array, "e f d"],
) -> Float[Array, "n d"]:
    """The weighted sum of the chosen experts' SwiGLU, summed in float32.

    Pairs of token and expert are sorted by expert, so that each expert multiplies its rows at
    once: n * k rows pass through an MLP of width f, whatever the number of experts.
    """
    n, k = chosen.shape
    order = jnp.argsort(chosen.reshape(-1))
    sizes = jnp.bincount(chosen.reshape(-1), length=gate.shape[0])
    rows = x[order // k]
    hidden = jax.nn.silu(grouped_matmul(rows, gate, sizes)) * grouped_matmul(rows, up, sizes)
    out = grouped_matmul(hidden, down, sizes)[jnp.argsort(order)].reshape(n, k, -1)
    return jnp.sum(out * weights[..., None], axis=1).astype(x.dtype)


def grouped_matmul(
    rows: Float[Array, "m a"], matrices: Float[Array, "e a c"], sizes: Int[Array, "e"]
) -> Float[Array, "m c"]:
    """Products of consecutive groups of rows, group g of `sizes[g]` rows with `matrices[g]`.

    `jax.lax.ragged_dot`, except on CPU, where XLA would multiply all rows with all matrices.
    """
    return jax.lax.platform_dependent(
        rows, matrices, sizes, cpu=tiled_matmul, default=jax.lax.ragged_dot
    )


def tiled_matmul(
    rows: Float[Array, "m a"], matrices: Float[Array, "e a c"], sizes: Int[Array, "e"]
) -> Float[Array, "m c"]:
    """`grouped_matmul` by tiles of one group each: at most one unfilled tile a group.

    A tile is about half the mean size of a group, which bounds both the number of products and
    the rows computed in vain.
    """
    (m, _), groups = rows.shape, len(matrices)
    tile = max(_LEAST_TILE, min(_MOST_TILE, (1 << (m // groups).bit_length()) // 4))
    tiles = -(-sizes // tile)  # of each group
    first_tile, end_tile = jnp.cumsum(tiles) - tiles, jnp.cumsum(tiles)
    start, end = jnp.cumsum(sizes) - sizes, jnp.cumsum(sizes)

    def product(number):
        group = jnp.minimum(jnp.sum(end_tile <= number), groups - 1)
        index = start[group] + (number - first_tile[group]) * tile + jnp.arange(tile)
        # Rows of the next group, or repetitions of the last row, fill a tile and go unused.
        return rows.at[index].get(mode="clip") @ matrices[group]

    products = jax.lax.map(product, jnp.arange(m // tile + min(groups, m)))
    row = jnp.arange(m)
    group = jnp.sum(end <= row[:, None], axis=1)
    place = first_tile[group] * tile + row - start[group]
    return products.reshape(-1, matrices.shape[-1])[place]
