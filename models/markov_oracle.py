"""A language whose likelihood, entropy and masked posteriors are known: a Markov chain.

As denoiser it makes no error of its own, so whatever samples differ from the language by is the
sampler's doing; as scorer it tells the exact likelihood of any string.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from .masked_posteriors import (
    ChainParams,
    judged_posteriors,
    log_conditionals,
    log_posteriors,
)
from .model_files import settled
from .sources import ModelCard

_MAX_VOCAB = 256
_MAX_DENSE = 1024  # states up to which powers of the whole matrix are taken
_MAX_STEPS = 20_000


@dataclasses.dataclass(frozen=True, eq=False)
class MarkovOracle:
    """A Markov chain of order 1 or 2, usable wherever a `Denoiser` or a `Scorer` is.

    `sample(oracle.logits_fn, oracle.params, ..., mask_id=oracle.mask_id)` draws from it; the
    functions are the same objects for all oracles, so that one compilation serves all languages
    of a shape. Oracles compare and hash by identity.

    Attributes:
      initial: order 1: Float["v"], law of the first token; order 2: Float["v v"], joint law of
        the first two. Sums to 1.
      transition: Float["v v"] or Float["v v v"]: law of the next token given the last one or two,
        oldest first; sums to 1 over the last axis. v is at most 256.

    Both are kept as read-only float64, rescaled to sum to 1 exactly.

    Raises:
      ValueError: a wrong shape, sums off by more than 1e-4, negative or non-finite entries.
    """

    initial: Float[np.ndarray, "..."]
    transition: Float[np.ndarray, "..."]

    def __post_init__(self) -> None:
        transition = _laws("transition", self.transition, axes=-1)
        if transition.ndim not in (2, 3) or len(set(transition.shape)) != 1:
            raise ValueError(
                f"transition has shape {list(transition.shape)}; expected [v, v] (order 1) or "
                "[v, v, v] (order 2)"
            )
        vocab, order = transition.shape[-1], transition.ndim - 1
        if vocab > _MAX_VOCAB:
            raise ValueError(
                f"transition has {vocab} tokens; at most {_MAX_VOCAB} are accepted, since a "
                f"position costs v^{order + 1} multiplications"
            )
        initial = _laws("initial", self.initial, axes=None)
        if initial.shape != (vocab,) * order:
            meaning = "the law of the first token" if order == 1 else "joint law of the first two"
            raise ValueError(
                f"initial has shape {list(initial.shape)}; a transition of shape "
                f"{list(transition.shape)} needs {[vocab] * order}, {meaning}"
            )
        object.__setattr__(self, "initial", initial)
        object.__setattr__(self, "transition", transition)

    @property
    def order(self) -> int:
        """How many tokens the next one depends on."""
        return self.transition.ndim - 1

    @property
    def num_ids(self) -> int:
        return self.transition.shape[-1]

    @property
    def mask_id(self) -> int:
        """The id after the last token; the logits have no column for it."""
        return self.num_ids

    eos_id = None
    bos_id = None
    pad_id = None
    tokenizer = None

    @property
    def logits_fn(self) -> Callable[..., Float[Array, "b l v"]]:
        """`log_posteriors`: exact, decided positions one-hot."""
        return log_posteriors

    @property
    def conditionals_fn(self) -> Callable[..., Float[Array, "b l v"]]:
        """`log_conditionals`: a logits_fn that judges decided positions by the others."""
        return log_conditionals

    @property
    def judged_fn(self) -> Callable[..., tuple[Array, dict[str, Array]]]:
        """`judged_posteriors`: a logits_fn with the quality head that some strategies need."""
        return judged_posteriors

    @functools.cached_property
    def params(self) -> ChainParams:
        """What the logits functions take, float32."""
        with jax.ensure_compile_time_eval():  # never a tracer, wherever it is first asked for
            return ChainParams(
                jnp.asarray(self._first, jnp.float32),
                jnp.asarray(self._second, jnp.float32),
                jnp.asarray(self.transition, jnp.float32),
            )

    @functools.cached_property
    def card(self) -> ModelCard:
        """Identity of the language: one digest over both arrays as little-endian float64."""
        content = b"".join(x.astype("<f8").tobytes() for x in (self.initial, self.transition))
        return ModelCard(
            source=f"markov:order={self.order},v={self.num_ids}",
            architecture="markov",
            dtype="float32",
            num_params=self.initial.size + self.transition.size,
            config={"order": self.order, "vocab_size": self.num_ids},
            precision="highest",
            hashing=settled({"language": hashlib.sha256(content).hexdigest()}),
        )

    def nll(
        self, ids: Int[np.ndarray, "n t"], lengths: Int[np.ndarray, "n"], mask=None
    ) -> tuple[Float[np.ndarray, "n"], Int[np.ndarray, "n"]]:
        """Sums of -log p(token | earlier tokens of the row) in nats, and how many were summed.

        As `Scorer.nll`: targets are positions 1 to length - 1 where `mask` Bool["n t"] (default:
        all) is True; the first token is given. Float64; inf for strings outside the language.

        Raises:
          ValueError: ids or lengths out of range or of the wrong shape.
        """
        ids, lengths = self._rows(ids, lengths)
        targets = np.arange(ids.shape[1]) < lengths[:, None]
        targets[:, :1] = False
        if mask is not None:
            if np.shape(mask) != ids.shape:
                raise ValueError(
                    f"mask has shape {list(np.shape(mask))}; ids have {list(ids.shape)}"
                )
            targets &= np.asarray(mask, bool)
        surprisal = np.where(targets, -self._log_steps(ids), 0.0)
        return surprisal.sum(axis=1), targets.sum(axis=1).astype(np.int32)

    def log_likelihood(
        self, ids: Int[np.ndarray, "n t"], lengths: Int[np.ndarray, "n"] | None = None
    ) -> Float[np.ndarray, "n"]:
        """log p of whole strings in nats, the first token included (float64, -inf if impossible).

        Over all strings of one length the probabilities sum to 1. Errors as `nll`.
        """
        lengths = np.full(len(ids), np.shape(ids)[1]) if lengths is None else lengths
        ids, lengths = self._rows(ids, lengths)
        inside = np.arange(ids.shape[1]) < lengths[:, None]
        return np.where(inside, self._log_steps(ids), 0.0).sum(axis=1)

    def entropy(self, length: int) -> float:
        """Entropy of strings of that many tokens, in nats."""
        if isinstance(length, bool) or not isinstance(length, int | np.integer) or length < 1:
            raise ValueError(f"length={length!r} must be a whole number of at least 1")
        if length < self.order:
            return _entropy(self._first)
        total, state = _entropy(self.initial), self.initial
        uncertainty = _row_entropies(self.transition)
        for _ in range(length - self.order):
            total += float((state * uncertainty).sum())
            state = self._advance(state)
        return total

    @functools.cached_property
    def entropy_rate(self) -> float:
        """Limit of entropy(n) / n in nats per token, exact up to rounding.

        The mean entropy of the next token under the long-run average law of the state, started
        from `initial`. That law exists for every chain: a periodic one is averaged over its
        period, a reducible one over the classes it may end in.

        Raises:
          ValueError: more than 1,024 states (order 2 with v > 32) that mix too slowly.
        """
        states = self.initial.size
        if states <= _MAX_DENSE:
            state = self._long_run().reshape(self.initial.shape)
        else:
            state = self.initial
            for _ in range(_MAX_STEPS):
                # Half a step at rest removes periods and leaves the average as it is.
                following = (state + self._advance(state)) / 2
                moved = np.abs(following - state).sum()
                state = following
                if moved < 1e-13:
                    break
            else:
                raise ValueError(
                    f"transition mixes too slowly over {states} states: the law still moves by "
                    f"{moved:.1e} after {_MAX_STEPS} steps; use a smaller vocabulary"
                )
        return float((state * _row_entropies(self.transition)).sum())

    @property
    def _first(self) -> Float[np.ndarray, "v"]:
        return self.initial if self.order == 1 else self.initial.sum(axis=1)

    @property
    def _second(self) -> Float[np.ndarray, "v v"]:
        """Law of the second token given the first; uniform after a first token that cannot be."""
        if self.order == 1:
            return self.transition
        first = self._first[:, None]
        uniform = np.full_like(self.initial, 1 / self.num_ids)
        return np.divide(self.initial, first, out=uniform, where=first > 0)

    def _advance(self, state):
        """The law of the state one token later."""
        if self.order == 1:
            return state @ self.transition
        return np.einsum("ab,abc->bc", state, self.transition, optimize=True)

    def _long_run(self) -> Float[np.ndarray, "s"]:
        """Average law of the state over infinite time, by squaring the matrix of lazy steps."""
        v = self.num_ids
        if self.order == 1:
            matrix = self.transition
        else:
            matrix = np.zeros((v, v, v, v))
            for b in range(v):
                matrix[:, b, b, :] = self.transition[:, b, :]
            matrix = matrix.reshape(v * v, v * v)
        matrix = (matrix + np.eye(len(matrix))) / 2
        for _ in range(60):
            squared = matrix @ matrix
            squared /= squared.sum(axis=1, keepdims=True)
            if np.abs(squared - matrix).max() < 1e-15:
                break
            matrix = squared
        return self.initial.reshape(-1) @ matrix

    def _log_steps(self, ids: Int[np.ndarray, "n t"]) -> Float[np.ndarray, "n t"]:
        """log p of every token given those before it."""
        with np.errstate(divide="ignore"):
            first, second = np.log(self._first), np.log(self._second)
            transition = np.log(self.transition)
        steps = [first[ids[:, :1]], second[ids[:, :-1], ids[:, 1:]]]
        if self.order == 2:
            steps[1] = steps[1][:, :1]
            steps.append(transition[ids[:, :-2], ids[:, 1:-1], ids[:, 2:]])
        return np.concatenate(steps, axis=1)

    def _rows(self, ids, lengths) -> tuple[np.ndarray, np.ndarray]:
        """Checked arrays; ids beyond a row's length become 0."""
        ids, lengths = np.asarray(ids), np.asarray(lengths)
        if ids.ndim != 2 or not np.issubdtype(ids.dtype, np.integer) or 0 in ids.shape:
            raise ValueError(
                f"ids must be a non-empty 2-D integer array, not {ids.dtype}{list(ids.shape)}"
            )
        if lengths.shape != (len(ids),) or not np.issubdtype(lengths.dtype, np.integer):
            raise ValueError(
                f"lengths must hold {len(ids)} integers, not {lengths.dtype}{list(lengths.shape)}"
            )
        if lengths.min() < 0 or lengths.max() > ids.shape[1]:
            raise ValueError(
                f"lengths must lie in 0..{ids.shape[1]}, not {lengths.min()}..{lengths.max()}"
            )
        inside = np.arange(ids.shape[1]) < lengths[:, None]
        valid = ids[inside]
        if valid.size and not (valid.min() >= 0 and valid.max() < self.num_ids):
            raise ValueError(
                f"ids must lie in 0..{self.num_ids - 1}, not {valid.min()}..{valid.max()}"
            )
        return np.where(inside, ids, 0), lengths


def _laws(name: str, values, axes: int | None) -> np.ndarray:
    """A read-only float64 copy whose sums over `axes` (None: over everything) are 1."""
    try:
        array = np.array(values, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array of probabilities: {error}") from error
    if array.ndim == 0 or array.size == 0:
        raise ValueError(f"{name} has shape {list(array.shape)}; expected probabilities")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds NaN or infinite values; expected probabilities")
    if array.min() < 0:
        raise ValueError(f"{name} holds {array.min():.3g}; probabilities are at least 0")
    sums = array.sum(axis=axes, keepdims=True)
    off = np.abs(sums - 1)
    if off.max() > 1e-4:
        what = "it" if axes is None else f"row {[int(i) for i in np.argwhere(off > 1e-4)[0][:-1]]}"
        worst = sums.reshape(-1)[np.argmax(off.reshape(-1) > 1e-4)]
        raise ValueError(f"{name} must sum to 1; {what} sums to {worst:.6g}")
    array /= sums
    array.setflags(write=False)
    return array


def _row_entropies(laws: Float[np.ndarray, "... v"]) -> Float[np.ndarray, "..."]:
    """Entropy of each last-axis row in nats; 0 log 0 is 0."""
    logs = np.log(np.where(laws > 0, laws, 1.0))
    return -(laws * logs).sum(axis=-1)


def _entropy(law: Float[np.ndarray, "..."]) -> float:
    return float(_row_entropies(law.reshape(-1)))
