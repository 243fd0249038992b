"""Random projections of gradients that keep inner products, without storing the projection."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, UInt32

from .token_rows import AnyArray

_CHUNK_ENTRIES = 2**22  # entries of a tensor that are hashed at a time


class SketchedGradients(NamedTuple):
    """One row a batch: the sketch of its gradient, or the gradient itself if that is small.

    Attributes:
      rows: Float["b m"].
      seed: of the `CountSketch`; rows of different seeds cannot be compared.
    """

    rows: Float[AnyArray, "b m"]
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class CountSketch:
    """A random linear map P from gradients to `num_buckets` numbers with E <Pa, Pb> = <a, b>.

    Every coordinate gets a random sign and a random bucket; a bucket holds the sum of its
    coordinates. Over seeds, <Pa, Pb> has the variance (|a|^2 |b|^2 + <a, b>^2) / num_buckets at
    most, so |Pa|^2 is within sqrt(2 / num_buckets) of |a|^2, 0.6 % by default. Signs and
    buckets are hashed from the seed, the tensor's name and the position, never stored, and the
    same on every platform: sketches made on different days and machines can be compared.

    Runs under `jax.jit`, `jax.vmap` and `jax.grad`. Cost: one pass over the gradient, some
    MiB of memory and at most a copy of the largest tensor. Blocks of `num_buckets` neighbours
    are rotated by a random amount each and added up, so accelerators need no scatter.

    >>> import numpy as np
    >>> sketch = CountSketch(num_buckets=4096, seed=1)
    >>> a = {"w": np.ones((300, 200), np.float32)}
    >>> row = sketch(a)
    >>> row.shape, bool(abs(row @ row / 60_000 - 1) < 0.1)
    ((4096,), True)

    Attributes:
      num_buckets: m, width of a sketch; 65,536 take 256 KiB a gradient.
      seed: of the hashes.

    Raises:
      ValueError: num_buckets below 1 or beyond 2^31, a seed outside [0, 2^63).

    Source: Charikar, Chen and Farach-Colton 2002; variance as in Weinberger et al. 2009.
    """

    num_buckets: int = 65_536
    seed: int = 0

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("num_buckets", self.num_buckets, 1, 2**31),
            ("seed", self.seed, 0, 2**63),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value < high:
                raise ValueError(f"{name} must be an integer in [{low}, {high}), got {value!r}")

    def __call__(self, gradient: Any) -> Float[Array, " m"]:
        """Sketch of a pytree of real arrays (or of one array); float32, float64 under x64.

        Leaves are told apart by their path in the tree, so a renamed tensor is another tensor.

        Raises:
          ValueError: a tree without arrays, or a leaf that is empty or has 2^32 entries and more.
        """
        leaves = jax.tree_util.tree_leaves_with_path(gradient)
        if not leaves:
            raise ValueError("gradient holds no arrays; there is nothing to sketch")
        sketch = None
        for path, leaf in leaves:
            name, tensor = jax.tree_util.keystr(path), jnp.asarray(leaf)
            if not 0 < tensor.size < 2**32:
                raise ValueError(
                    f"gradient{name} has {tensor.size} entries; 1 to 2^32 - 1 can be hashed"
                )
            digest = hashlib.sha256(f"{self.seed}/{name}".encode()).digest()
            keys = np.frombuffer(digest[:16], "<u4").astype(np.uint32)
            part = _sketch(tensor, keys, num_buckets=self.num_buckets)
            sketch = part if sketch is None else sketch + part
        return jnp.asarray(sketch)


@functools.partial(jax.jit, static_argnames="num_buckets")
def _sketch(tensor: Array, keys: UInt32[Array, " 4"], *, num_buckets: int) -> Float[Array, " m"]:
    m, flat = num_buckets, tensor.reshape(-1)
    flat = flat.astype(jnp.promote_types(tensor.dtype, jnp.float32))
    blocks = -(-flat.size // m)
    # A multiple of 32 blocks a chunk, so that every chunk begins with a fresh word of signs.
    chunk = min(blocks, 32 * max(1, _CHUNK_ENTRIES // (32 * m)))
    chunks = -(-blocks // chunk)
    rows = jnp.pad(flat, (0, chunks * chunk * m - flat.size)).reshape(chunks, chunk, m)
    words = -(-chunk * m // 32)

    def add(sketch, inputs):
        rows, index = inputs
        first_word, first_block = (index * jnp.uint32(count) for count in (words, chunk))
        coins = _hash(first_word + jnp.arange(words, dtype=jnp.uint32), keys[0], keys[1])
        coins = (coins[:, None] >> jnp.arange(32, dtype=jnp.uint32)) & jnp.uint32(1)
        coins = coins.reshape(-1)[: chunk * m].reshape(chunk, m).astype(bool)
        shifts = _hash(first_block + jnp.arange(chunk, dtype=jnp.uint32), keys[2], keys[3])
        shifts = shifts % jnp.uint32(m)
        source = (jnp.arange(m, dtype=jnp.uint32) + shifts[:, None]) % jnp.uint32(m)
        signed = jnp.where(coins, -rows, rows)
        rotated = jnp.take_along_axis(signed, source.astype(jnp.int32), axis=1)
        return sketch + rotated.sum(axis=0), None

    counter = jnp.arange(chunks, dtype=jnp.uint32)
    return lax.scan(add, jnp.zeros(m, flat.dtype), (rows, counter))[0]


def _hash(counter: UInt32[Array, " n"], key_in, key_out) -> UInt32[Array, " n"]:
    """A keyed pseudo-random word for every counter; integer arithmetic, alike everywhere."""
    return _mix(_mix(counter + key_in) ^ key_out)


def _mix(word: UInt32[Array, " n"]) -> UInt32[Array, " n"]:
    # Shifts and odd factors of a 32-bit bijection with near-ideal avalanche ("lowbias32").
    word = (word ^ (word >> 16)) * jnp.uint32(0x7FEB352D)
    word = (word ^ (word >> 15)) * jnp.uint32(0x846CA68B)
    return word ^ (word >> 16)
