"""How values scatter, exactly 0 where they are all equal: on the host and under `jax.jit`."""

from typing import Any

from jaxtyping import Float

from .token_rows import AnyArray


def deviation(values: Float[AnyArray, " n"]) -> Any:
    """Sample standard deviation (ddof = 1) of a vector, in its own kind: NumPy or JAX.

    >>> import numpy as np
    >>> float(deviation(np.array([1.0, 3.0]))) ** 2, float(deviation(np.full(10, 0.1)))
    (2.0000000000000004, 0.0)
    """
    # Around one of them: the mean of equal floats can differ from them in the last digit.
    return (values - values[0]).std(ddof=1)


def mean_stderr(values: Float[AnyArray, " n"]) -> Any:
    """Standard error of the mean of one value a row, in the kind of the vector.

    Raises:
      ValueError: fewer than two rows.

    >>> import numpy as np
    >>> float(mean_stderr(np.array([1.0, 3.0])))
    1.0
    """
    if len(values) < 2:
        raise ValueError(f"a standard error needs at least 2 rows, got {len(values)}")
    return deviation(values) / len(values) ** 0.5
