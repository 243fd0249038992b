"""How exactly matrices are multiplied: a setting that is recorded, not left to the backend.

By default GPUs multiply float32 matrices in TF32 and TPUs in bfloat16, both with three decimal
digits; the same scores would come out differently on each. Under "highest", the default here,
float32 products are float32 products everywhere. Products of bfloat16 weights are not slowed.
"""

import contextlib

import jax

PRECISIONS = ("highest", "high", "default")


def check(precision: str) -> str:
    """The name itself.

    Raises:
        ValueError: not one of `PRECISIONS`.
    """
    if precision not in PRECISIONS:
        accepted = ", ".join(PRECISIONS)
        raise ValueError(f"precision {precision!r} is not accepted; use one of {accepted}")
    return precision


def products(precision: str) -> contextlib.AbstractContextManager:
    """The context to trace a forward in, whatever `jax_default_matmul_precision` says outside.

    Logits of order 1 from float32 weights should agree between CPU, GPU and TPU to 1e-5 under
    "highest". Under "high" (TF32 on GPUs, three bfloat16 passes on TPUs) and "default" (TF32, one
    pass) factors are rounded: expect 1e-2. On CPU all three are the same.
    """
    return jax.default_matmul_precision(precision)
