"""The precision of products: recorded, checked, and the same whatever is set outside."""

import dataclasses
import json

import jax
import jax.extend
import jax.numpy as jnp
import pytest

from dlmeval.models import architectures, likelihood, load_denoiser, load_encoder, load_scorer
from dlmeval.models.denoiser import logits_function
from dlmeval.models.encoder import _launch_pooled
from dlmeval.models.scorer import _row_nll_of

DENOISERS = ("llada", "llada_moe", "dream", "mdlm", "sedd", "smdm")
SCORERS = ("llama", "gpt2")
ENCODERS = ("bert", "mpnet")
OVERRIDE = ("mdlm", "sedd", "smdm")


def read(golden, name, kind):
    config = json.loads(golden(f"{name}/config.json").read_text())
    family = architectures.architecture_of(config, name if name in OVERRIDE else None, name, kind)
    spec = architectures.read_config(config, family, name)
    return family.network, spec.network, family.network.abstract_params(spec.network)


def products(jaxpr):
    """Precisions of all matrix products of a program, however deep."""
    for equation in jaxpr.eqns:
        if equation.primitive.name in ("dot_general", "ragged_dot_general", "ragged_dot"):
            yield equation.params["precision"]
        for inner in jax.extend.core.jaxprs_in_params(equation.params):
            yield from products(inner)


def traced(function, *args):
    """All distinct precisions of a program traced where TF32-like products are the default."""
    with jax.default_matmul_precision("bfloat16"):
        found = list(products(jax.make_jaxpr(function)(*args).jaxpr))
    assert len(found) >= 4
    return {p for pair in found for p in (pair if isinstance(pair, tuple) else (pair,))}


HIGHEST, DEFAULT = {jax.lax.Precision.HIGHEST}, {jax.lax.Precision.DEFAULT}


# Each kind of network with short rows, and with rows long enough for attention by blocks.
LONG = ("llada", "mdlm", "llama", "bert")


@pytest.fixture
def rows(request):
    shape = (2, 200 if request.node.callspec.params.get("name") in LONG else 16)
    return jax.ShapeDtypeStruct(shape, jnp.int32), jax.ShapeDtypeStruct(shape, bool)


@pytest.mark.parametrize("name", DENOISERS)
def test_denoisers_ask_for_whole_products(golden, name, rows):
    network, config, params = read(golden, name, "denoiser")
    if name not in ("mdlm", "sedd"):
        config = dataclasses.replace(config, max_length=None)  # rows of any length
    region = slice(2, 5)

    def run(precision):
        logits = logits_function(network, config, precision)
        return traced(lambda params, *rows: logits(params, *rows, region), params, *rows)

    assert run("highest") == HIGHEST
    # But for the router of the experts, which is exact at any setting.
    assert run("default") - (HIGHEST if name == "llada_moe" else set()) == DEFAULT


@pytest.mark.parametrize("name", SCORERS)
def test_scorers_and_their_gradients_ask_for_whole_products(golden, name, rows):
    network, config, params = read(golden, name, "scorer")
    nll = _row_nll_of(network, config, "highest")

    def loss(params, ids, token_mask):
        return nll(params, ids, token_mask, token_mask).sum()

    assert traced(loss, params, *rows) == HIGHEST
    assert traced(jax.grad(loss), params, *rows) == HIGHEST


@pytest.mark.parametrize("name", ENCODERS)
def test_encoders_ask_for_whole_products(golden, name, rows):
    network, config, params = read(golden, name, "encoder")

    def features(params, *rows):
        return _launch_pooled(network, config, "highest", "mean", params, *rows)

    assert traced(features, params, *rows) == HIGHEST


@pytest.mark.parametrize("name", DENOISERS + SCORERS + ENCODERS)
def test_networks_stay_in_float32_where_float64_is_allowed(golden, name, rows):
    """As under the samplers' float64 noise."""
    kind = "denoiser" if name in DENOISERS else "scorer" if name in SCORERS else "encoder"
    network, config, params = read(golden, name, kind)

    def forward(params, ids, token_mask):
        if network.region_logits is not None:
            return network.region_logits(config, params, ids, token_mask, slice(2, 5))
        hidden = network.hidden_states(config, params, ids, token_mask)
        return hidden if kind == "encoder" else network.project(config, params, hidden[:, 2:5])

    with jax.enable_x64(True):
        traced = jax.make_jaxpr(forward)(params, *rows)
    assert traced.out_avals[0].dtype == jnp.float32
    # A number a row, position or frequency may be float64, never what is as large as a layer.
    wide = [v for v in values(traced.jaxpr) if v.dtype == jnp.float64 and v.ndim > 2]
    assert wide == []


def values(jaxpr):
    for equation in jaxpr.eqns:
        yield from (v.aval for v in equation.outvars if hasattr(v.aval, "dtype"))
        for inner in jax.extend.core.jaxprs_in_params(equation.params):
            yield from values(inner)


@pytest.mark.parametrize("name", ["llama"])
def test_without_its_context_a_forward_would_be_rounded(golden, name, rows):
    # The check above can fail: the same network outside of it takes what is set outside.
    network, config, params = read(golden, name, "scorer")

    def loss(params, ids, token_mask):
        return likelihood.row_nll(network, config, params, ids, token_mask, token_mask).sum()

    assert HIGHEST.isdisjoint(traced(loss, params, *rows))


@pytest.mark.parametrize(
    ("load", "name"), [(load_denoiser, "llada"), (load_scorer, "llama"), (load_encoder, "bert")]
)
def test_it_is_recorded_in_the_card_and_checked(golden, load, name):
    source = str(golden(name))
    assert load(source).card.precision == "highest"
    assert load(source, matmul_precision="high").card.precision == "high"
    with pytest.raises(ValueError, match="precision 'tf32' is not accepted; use one of highest,"):
        load(source, matmul_precision="tf32")
    with pytest.raises(ValueError, match="precision None is not accepted"):
        load(source, matmul_precision=None)
