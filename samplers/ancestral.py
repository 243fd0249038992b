"""Ancestral samplers: the reverse of a masking process in time, and its remasking relatives.

Time t runs from 1 (all masked) to 0; a position is decided with probability alpha_t = 1 - t (the
log-linear schedule). A step from t to s = t - dt draws every position by itself:

    undecided   token v with probability reveal * p_x0(v), still the mask with 1 - reveal
    decided     kept with probability 1 - remask, back to the mask with remask

A strategy is the pair (reveal, remask) as a function of time. Without remasking (MDLM, Sahoo et
al., arXiv 2406.07524) reveal = (alpha_s - alpha_t) / (1 - alpha_t) = dt / t. ReMDM (Wang et al.,
arXiv 2503.00307) lets a decided position go back with probability sigma and reveals as much more,

    reveal = (alpha_s - (1 - sigma) alpha_t) / (1 - alpha_t),

which keeps the marginals of the process whatever sigma up to sigma_max = min(1, (1 - alpha_s) /
alpha_t). Laws follow the public code (kuleshov-group/mdlm and kuleshov-group/remdm, diffusion.py)
where it differs from the papers.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from .ancestral_checks import check_transition_arguments, is_known
from .registry import Entry, get_entry, register_strategy
from .truncation import keep_nucleus
from .types import Rates, RatesFn, Settings, Strategy, Traits


def _unmasking(t, dt, settings, committed) -> Rates:
    """Plain MDLM: nothing decided is put back."""
    return Rates(reveal=dt / t, remask=jnp.zeros_like(t))


def _remasking(t, dt, sigma) -> Rates:
    """ReMDM's reveal for a remasking probability; alpha_s - alpha_t = dt, 1 - alpha_t = t."""
    return Rates(reveal=(dt + sigma * (1 - t)) / t, remask=sigma)


def _sigma_max(t, dt):
    """The largest remasking probability that keeps the marginals; 1 at t = 1."""
    ratio = (t - dt) / jnp.where(t < 1, 1 - t, 1.0)
    return jnp.where(t < 1, jnp.minimum(1.0, ratio), 1.0)


@register_strategy("mdlm", kind="ancestral")
def mdlm() -> Strategy:
    """MDLM's cached sampler (`ddpm_cache`): a forward serves until the canvas changes."""
    return Strategy(rates=_unmasking, traits=Traits(fill="argmax", reuse_forward=True))


@register_strategy("mdlm_ddpm", kind="ancestral")
def mdlm_ddpm() -> Strategy:
    """MDLM's `ddpm`: a forward a step.

    It counts noise from a move chance (1 - 1e-3) t; the factor cancels in reveal, so that the
    law of a step is that of `mdlm` and only the cost differs.
    """
    return Strategy(rates=_unmasking, traits=Traits(fill="argmax", reuse_forward=False))


@register_strategy("mdlm_analytic", kind="ancestral")
def mdlm_analytic() -> Strategy:
    """MDLM's `analytic` (SEDD's Tweedie step): a forward a step, and a last draw for what is left.

    Under a network of probabilities (SUBS) its staggered score times transition is again the law
    of `mdlm`: with e^sigma = 1 / (1 - move chance) both reveal 1 - (move at s) / (move at t).
    """
    return Strategy(rates=_unmasking, traits=Traits(fill="draw", reuse_forward=False))


@register_strategy("remdm_cap", kind="ancestral")
def remdm_cap() -> Strategy:
    """sigma = min(eta, sigma_max)."""

    def rates(t, dt, settings, committed):
        return _remasking(t, dt, jnp.minimum(settings.eta, _sigma_max(t, dt)))

    return Strategy(rates=rates, traits=Traits(fill="argmax", eta=0.008))


@register_strategy("remdm_rescale", kind="ancestral")
def remdm_rescale() -> Strategy:
    """sigma = eta sigma_max."""

    def rates(t, dt, settings, committed):
        return _remasking(t, dt, settings.eta * _sigma_max(t, dt))

    return Strategy(rates=rates, traits=Traits(fill="argmax", eta=0.015))


@register_strategy("remdm_conf", kind="ancestral")
def remdm_conf() -> Strategy:
    """sigma_max times the softmax over the decided positions of minus their probability.

    The probability is that of the token when it was revealed. As in the public code the softmax
    runs over the sequence (here: over the current block), so that the expected number of
    positions put back is at most one a step; eta is not read.
    """

    def rates(t, dt, settings, committed):
        peak = jnp.max(committed, axis=-1, keepdims=True)
        weight = jnp.exp(committed - jnp.where(jnp.isfinite(peak), peak, 0.0))
        share = weight / jnp.maximum(jnp.sum(weight, axis=-1, keepdims=True), 1e-30)
        return _remasking(t, dt, share * _sigma_max(t, dt))

    return Strategy(rates=rates, traits=Traits(fill="argmax"))


@register_strategy("remdm_loop", kind="ancestral")
def remdm_loop() -> Strategy:
    """MDLM up to alpha_on, then remasking at a constant level, then MDLM again.

    For t > t_on time is rescaled so that alpha reaches alpha_on at t_on; for t_off < t <= t_on
    alpha stays there while sigma = eta; from t_off on the rest is revealed. Where a coarse step
    crosses t_on, more than all is revealed: the mask's entry is negative and never wins.
    """

    def rates(t, dt, settings, committed):
        alpha, eta = settings.alpha_on, settings.eta
        pace = alpha / jnp.where(settings.t_on < 1, 1 - settings.t_on, 1.0)
        before = dt * pace / (1 - (1 - t) * pace)
        inside = (t <= settings.t_on) & (t > settings.t_off)
        reveal = jnp.where(t > settings.t_on, before, dt / t)
        return Rates(
            reveal=jnp.where(inside, eta * alpha / (1 - alpha), reveal),
            remask=jnp.where(inside, eta, 0.0),
        )

    return Strategy(rates=rates, traits=Traits(fill="argmax", eta=0.02))


@register_strategy("remdm_forward_backward", kind="ancestral")
def remdm_forward_backward() -> Strategy:
    """sigma = (alpha_s - alpha_t) / alpha_t, a forward corrector of equal size; eta is not read.

    At the last step the reveal is 2 and the mask's entry -1, which never wins a draw.
    """

    def rates(t, dt, settings, committed):
        ratio = dt / jnp.where(t < 1, 1 - t, 1.0)  # 1 after the first step, but for rounding
        return _remasking(t, dt, jnp.where(t < 1, jnp.minimum(1.0, ratio), 1.0))

    return Strategy(rates=rates, traits=Traits(fill="argmax"))


def transition_probabilities(
    name: str,
    p_x0: Float[Array, "b l v"],
    tokens: Int[Array, "b l"],
    t: Float[Array, ""] | float,
    dt: Float[Array, ""] | float,
    *,
    mask_id: int,
    eta: float | None = None,
    t_on: float = 0.55,
    t_off: float = 0.05,
    alpha_on: float = 0.9,
    nucleus_p: float = 1.0,
    confidence: Float[Array, "b l"] | None = None,
) -> Float[Array, "b l v"]:
    """The law each position is drawn from in a step of an ancestral sampler.

    Rows sum to 1: public code hands some of them to its sampler unnormalised. Where the sampler
    copies a token the row is one-hot. The mask's entry of an undecided position is negative where
    the published law is (see `remdm_forward_backward`, `remdm_loop`); such an entry never wins.

    Runs under `jax.jit` (`name` static) and costs one pass over p_x0, with a nucleus a sort.

    Args:
      name: a strategy of kind "ancestral".
      p_x0: float, the network's probabilities for undecided positions, before a nucleus; rows are
        normalised without the mask's column. Rows of decided positions are not read.
      tokens: integer canvas, `mask_id` where undecided.
      t: time before the step, in (0, 1]; 1 is all masked.
      dt: length of the step, at most t.
      mask_id: column of the mask.
      eta: strength of remasking in [0, 1]; None is the published default of the strategy.
      t_on, t_off, alpha_on: window and level of "remdm_loop".
      nucleus_p: keep the most likely tokens whose mass is at most p; 1 is off.
      confidence: for "remdm_conf": minus the probability of each token when it was revealed, -inf
        where undecided.

    Raises:
      ValueError: an argument is out of range, not finite or of the wrong shape. Values of traced
        arrays are not looked at.
    """
    entry = get_entry(name)
    rates_fn = entry.strategy.rates
    if rates_fn is None:
        raise ValueError(
            f"name={name!r} is of kind {entry.kind!r}; transition probabilities belong to "
            "strategies of kind 'ancestral'"
        )
    eta = entry.strategy.traits.eta if eta is None else eta
    check_transition_arguments(
        p_x0,
        tokens,
        confidence,
        mask_id,
        {"t": t, "dt": dt, "eta": eta, "t_on": t_on, "t_off": t_off}
        | {"alpha_on": alpha_on, "nucleus_p": nucleus_p},
    )
    if confidence is None and reads_committed(rates_fn):
        raise ValueError(
            f"strategy {name!r} needs confidence, Float['b l']: minus the probability of each "
            "token when it was revealed, -inf where undecided"
        )
    p_x0 = jnp.asarray(p_x0)
    dtype = jnp.promote_types(p_x0.dtype, jnp.float32)
    p_x0, tokens = p_x0.astype(dtype), jnp.asarray(tokens)
    values = {"eta": eta, "t_on": t_on, "t_off": t_off, "alpha_on": alpha_on}
    zero = jnp.zeros((), dtype)
    settings = Settings(*[zero] * len(Settings._fields))._replace(
        **{field: jnp.asarray(value, dtype) for field, value in values.items()}
    )
    if confidence is None:
        committed = jnp.full(tokens.shape, -jnp.inf, dtype)
    else:
        committed = jnp.asarray(confidence, dtype)
    committed = jnp.where(tokens == mask_id, -jnp.inf, committed)
    rates = checked_rates(entry, jnp.asarray(t, dtype), jnp.asarray(dt, dtype), settings, committed)
    if not is_known(nucleus_p) or nucleus_p < 1:
        p_x0 = jnp.where(jnp.arange(p_x0.shape[-1]) == mask_id, 0.0, p_x0)
        p_x0 = p_x0 / jnp.sum(p_x0, axis=-1, keepdims=True)
        # At 1 rounding of the running mass must not drop the least likely.
        kept = keep_nucleus(jnp.log(p_x0), jnp.asarray(nucleus_p, dtype)) | (nucleus_p >= 1)
        p_x0 = jnp.where(kept, p_x0, 0.0)
    return step_law(rates, p_x0, tokens, mask_id)


def step_law(
    rates: Rates, p_x0: Float[Array, "b l v"], tokens: Int[Array, "b l"], mask_id: int
) -> Float[Array, "b l v"]:
    """The rows of a step, from its rates and the network's probabilities."""
    ids = jnp.arange(p_x0.shape[-1])
    is_mask = ids == mask_id
    p_x0 = jnp.where(is_mask, 0.0, p_x0)
    p_x0 = p_x0 / jnp.sum(p_x0, axis=-1, keepdims=True)
    reveal, remask = (jnp.broadcast_to(rate, tokens.shape)[..., None] for rate in rates)
    undecided = jnp.where(is_mask, 1 - reveal, reveal * p_x0)
    held = jnp.where(ids == tokens[..., None], 1 - remask, 0.0)
    decided = jnp.where(is_mask, remask, held)
    return jnp.where((tokens == mask_id)[..., None], undecided, decided)


def checked_rates(
    entry: Entry,
    t: Float[Array, ""],
    dt: Float[Array, ""],
    settings: Settings,
    committed: Float[Array, "b l"],
) -> Rates:
    """The strategy's rates broadcast to [b, l]; ValueError naming it if they do not fit."""
    assert entry.strategy.rates is not None
    rates = entry.strategy.rates(t, dt, settings, committed)
    if not isinstance(rates, Rates):
        raise ValueError(f"strategy {entry.name!r}: rates returned {type(rates).__name__}")
    for field, rate in rates._asdict().items():
        shape, dtype = jnp.shape(rate), jnp.result_type(rate)
        fits = len(shape) <= 2 and all(
            n in (1, m) for n, m in zip(shape[::-1], committed.shape[::-1], strict=False)
        )
        if not (fits and jnp.issubdtype(dtype, jnp.floating)):
            raise ValueError(
                f"strategy {entry.name!r}: {field} is {dtype}{list(shape)}; expected floating "
                f"point that broadcasts to {list(committed.shape)}"
            )
    return Rates(*[jnp.broadcast_to(rate, committed.shape) for rate in rates])


def reads_committed(rates: RatesFn) -> bool:
    """Whether a law looks at the probabilities of past reveals; others need not keep them."""
    half = jnp.float32(0.5)
    settings = Settings(*[half] * len(Settings._fields))
    traced = jax.make_jaxpr(rates)(half, half, settings, jnp.zeros((1, 1))).jaxpr
    committed = traced.invars[-1]
    readers = [var for equation in traced.eqns for var in equation.invars] + list(traced.outvars)
    return any(var is committed for var in readers)
