"""Quantised tensors: the block formats of ggml, and what they mean in float32.

A block is a run of weights along a row that share a scale d, and in some formats a minimum m:

    Q8_0    32 weights   34 bytes   d, 32 signed bytes q                  d * q
    Q4_0    32 weights   18 bytes   d, 32 nibbles q                       d * (q - 8)
    Q4_1    32 weights   20 bytes   d, m, 32 nibbles q                    d * q + m
    Q6_K   256 weights  210 bytes   256 six-bit q, 16 signed bytes s, d   d * s * (q - 32)

d and m are float16. Values equal those of ggml's reference code (github.com/ggml-org/llama.cpp,
ggml-quants.c) to the last bit: the same float32 operations in the same order.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import ml_dtypes
import numpy as np
from jaxtyping import Float32, UInt8

# Blocks converted at a time: their float32 values stay in the processor's cache.
_CHUNK = 2048


class Format(NamedTuple):
    """How a type of tensor lies in a file.

    Attributes:
        weights: weights in a block.
        nbytes: bytes of a block, little-endian.
        dtype: the type it is read as.
        decode: blocks UInt8["n nbytes"] -> writes Float32["n weights"]; None for plain numbers.
    """

    weights: int
    nbytes: int
    dtype: np.dtype
    decode: Callable[[np.ndarray, np.ndarray], None] | None = None


def dequantize(
    blocks: UInt8[np.ndarray, "n bytes"], form: Format, out: Float32[np.ndarray, "n weights"]
) -> None:
    """Writes the float32 values of some blocks into an array, with little memory of its own.

    Raises:
        ValueError: the arrays do not have the shapes that this many blocks need.
    """
    count = len(blocks)
    if form.decode is None or blocks.shape[1:] != (form.nbytes,):
        raise ValueError(f"{blocks.shape[1:]} bytes are no block of {form.nbytes} bytes to decode")
    if out.shape != (count, form.weights) or out.dtype != np.float32:
        raise ValueError(
            f"out is {out.dtype}{list(out.shape)}; {count} blocks need"
            f" float32{[count, form.weights]}"
        )
    for start in range(0, count, _CHUNK):
        form.decode(blocks[start : start + _CHUNK], out[start : start + _CHUNK])


def _half(blocks: np.ndarray, at: int) -> np.ndarray:
    """The float16 at an offset of each block, as float32[n, 1]."""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view("<f2").astype(np.float32)


def _q8_0(blocks: np.ndarray, out: np.ndarray) -> None:
    np.multiply(blocks[:, 2:].view(np.int8), _half(blocks, 0), out=out)


def _nibbles(packed: np.ndarray, out: np.ndarray) -> None:
    """32 nibbles of 16 bytes: the low ones are the first half of the block."""
    np.bitwise_and(packed, 15, out=out[:, :16])
    np.right_shift(packed, 4, out=out[:, 16:])


def _q4_0(blocks: np.ndarray, out: np.ndarray) -> None:
    _nibbles(blocks[:, 2:], out)
    out -= 8
    out *= _half(blocks, 0)


def _q4_1(blocks: np.ndarray, out: np.ndarray) -> None:
    _nibbles(blocks[:, 4:], out)
    out *= _half(blocks, 0)
    out += _half(blocks, 2)


def _q6_k(blocks: np.ndarray, out: np.ndarray) -> None:
    count = len(blocks)
    # Two halves of 128 weights: 64 bytes hold the low nibbles of quarters 0, 1 and, in their high
    # nibbles, those of quarters 2, 3; 32 bytes hold the upper two bits of all four quarters.
    low = blocks[:, :128].reshape(count, 2, 1, 2, 32)
    high = blocks[:, 128:192].reshape(count, 2, 1, 32)
    low = (low >> np.array([0, 4], np.uint8)[:, None, None]) & 15
    high = (high >> np.array([0, 2, 4, 6], np.uint8)[:, None]) & 3
    q = low.reshape(count, 2, 4, 32) | (high << 4)
    scale = _half(blocks, 208) * blocks[:, 192:208].view(np.int8)
    values = out.reshape(count, 16, 16)
    np.subtract(q.reshape(count, 16, 16), np.float32(32), out=values)
    values *= scale[:, :, None]


_F32 = np.dtype(np.float32)

FORMATS: Mapping[str, Format] = {
    "F32": Format(1, 4, _F32),
    "F16": Format(1, 2, np.dtype(np.float16)),
    "BF16": Format(1, 2, np.dtype(ml_dtypes.bfloat16)),
    "Q8_0": Format(32, 34, _F32, _q8_0),
    "Q4_0": Format(32, 18, _F32, _q4_0),
    "Q4_1": Format(32, 20, _F32, _q4_1),
    "Q6_K": Format(256, 210, _F32, _q6_k),
}
