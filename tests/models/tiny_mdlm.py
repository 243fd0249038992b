"""A third-party masked denoiser as its user would bring it: two functions, no class, no registry.

The characters' diffusion of tiny-diffusion: every norm is an RMSNorm without weights, there are
no biases, and each of 128 noise steps has an embedding that is added to the input.
"""

import jax
import jax.numpy as jnp
import numpy as np

MASK_ID, NUM_IDS, NUM_TIMES, CONTEXT, HEADS, LAYERS = 0, 128, 128, 64, 4, 5
MATRICES = [f"attn.c_{name}" for name in ("q", "k", "v", "proj")] + ["mlp.c_fc", "mlp.c_proj"]


def read_params(state):
    """The published {name: array}, matrices as [in, out] and stacked over layers."""
    rows = {n: [state[f"blocks.{i}.{n}.weight"].T for i in range(LAYERS)] for n in MATRICES}
    ends = {"tokens": "token_emb", "times": "time_emb", "head": "output_head"}
    ends = {ours: state[f"{theirs}.weight"] for ours, theirs in ends.items()}
    return ends | {"blocks": {name: np.stack(matrices) for name, matrices in rows.items()}}


def norm(x):
    return x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + jnp.finfo(x.dtype).eps)


def logits_fn(params, tokens, token_mask, region, time=None):
    """Float32 logits [b, l, 128]; position i predicts token i. Default time: the masked share's."""
    if time is None:  # at step t each character after the context is masked with (t + 1) / 128
        masked = (token_mask & (tokens == MASK_ID)).sum(axis=1)
        time = jnp.round(NUM_TIMES * masked / jnp.maximum(token_mask.sum(axis=1) - CONTEXT, 1)) - 1
    time = jnp.clip(jnp.asarray(time, jnp.int32), 0, NUM_TIMES - 1)
    position = jnp.cumsum(token_mask, axis=1)[..., None, None] - 1  # padding does not count
    angle = position * 10_000.0 ** -jnp.linspace(0, 1, 16, endpoint=False, dtype=jnp.float32)

    def turn(x):
        a, b = jnp.split(x, 2, axis=-1)
        cos, sin = jnp.cos(angle), jnp.sin(angle)
        return norm(jnp.concatenate([a * cos + b * sin, b * cos - a * sin], axis=-1))

    def block(x, w):
        q, k, v = (jnp.reshape(norm(x) @ w[n], (*x.shape[:2], HEADS, -1)) for n in MATRICES[:3])
        mixed = jax.nn.dot_product_attention(turn(q), turn(k), v, mask=token_mask[:, None, None])
        x = x + mixed.reshape(x.shape) @ w["attn.c_proj"]
        return x + jnp.square(jax.nn.relu(norm(x) @ w["mlp.c_fc"])) @ w["mlp.c_proj"], None

    start = norm(params["tokens"][tokens] + params["times"][time][:, None])
    return norm(jax.lax.scan(block, start, params["blocks"])[0][:, region]) @ params["head"].T
