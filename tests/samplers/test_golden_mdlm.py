"""Laws and trajectories recorded from the public MDLM and ReMDM codes."""

import json

import jax
import numpy as np
import pytest

from dlmeval.models import load_denoiser
from dlmeval.samplers import SamplerConfig, sample
from dlmeval.samplers.ancestral import transition_probabilities

TRANSITIONS = {
    "mdlm": "mdlm",
    "ddpm": "mdlm_ddpm",
    "analytic": "mdlm_analytic",
    "forward_backward": "remdm_forward_backward",
    "cap_eta0": "remdm_cap",
    "cap_eta05": "remdm_cap",
    "cap_eta60": "remdm_cap",
    "cap_nucleus09": "remdm_cap",
    "rescale_eta15": "remdm_rescale",
    "conf": "remdm_conf",
    "conf_bf16": "remdm_conf",
    "loop": "remdm_loop",
    "loop_wide": "remdm_loop",
}
TRAJECTORIES = {
    "mdlm_ddpm_cache_n8": "mdlm",
    "mdlm_ddpm_cache_n24": "mdlm",
    "mdlm_ddpm_n6": "mdlm_ddpm",
    "mdlm_analytic_n5": "mdlm_analytic",
    "remdm_cap_n12": "remdm_cap",
    "remdm_rescale_n12": "remdm_rescale",
    "remdm_loop_n16": "remdm_loop",
}


def load(folder, arrays):
    with np.load(folder / arrays) as file:
        return dict(file), json.loads((folder / "settings.json").read_text())


def options(settings, *names):
    return {name: settings[name] for name in names if name in settings}


@pytest.mark.parametrize("run", TRANSITIONS)
def test_transition_probabilities(run, golden):
    """Recorded rows, normalised; at copied positions the public code's rows have no meaning."""
    arrays, settings = load(golden("remdm"), "transitions.npz")
    name, tokens, mask = TRANSITIONS[run], arrays["x_t"], settings["mask_index"]
    given = options(settings[run], "eta", "t_on", "t_off", "alpha_on", "nucleus_p")
    p_x0 = arrays["conf_bf16/p_x0" if run == "conf_bf16" else "mdlm/p_x0"]  # before the nucleus
    wanted = arrays[f"{run}/q"].astype(np.float64)
    wanted /= wanted.sum(axis=-1, keepdims=True)
    for index, rows in zip(arrays["t_indices"], wanted, strict=True):
        t = arrays["timesteps"][index]
        window = name == "remdm_loop" and given["t_off"] < t <= given["t_on"]
        if name.startswith("mdlm") or (name == "remdm_loop" and not window):
            copied = np.eye(rows.shape[-1])[tokens]
            rows = np.where((tokens == mask)[..., None], rows, copied)
        got = transition_probabilities(
            name, p_x0, tokens, t, settings["dt"], mask_id=mask, confidence=arrays["conf"], **given
        )
        # In bfloat16 the public code's own rows sum to 0.989 ... 1.007.
        np.testing.assert_allclose(got, rows, rtol=0, atol=1e-2 if run == "conf_bf16" else 1e-6)
        np.testing.assert_allclose(np.sum(got, axis=-1), 1, atol=1e-6)


@pytest.fixture(scope="module")
def denoiser(golden):
    return load_denoiser(str(golden("mdlm_sampler")), architecture="mdlm")


@pytest.mark.parametrize("run", TRAJECTORIES)
def test_trajectories_with_stored_noise(run, denoiser, golden):
    """Every canvas, the tokens after noise removal, and the forwards of the public code."""
    arrays, settings = load(golden("mdlm_sampler"), "trajectories.npz")
    settings, canvases = settings[run], arrays[f"{run}/canvases"]
    batch, length = settings["batch"], settings["length"]

    def replay(**how):
        config = SamplerConfig(
            length,
            settings["steps"],
            TRAJECTORIES[run],
            1.0,
            noise="gumbel_fp64",
            **options(settings, "eta", "t_on", "t_off", "alpha_on", "nucleus_p"),
            **how,
        )
        return sample(
            denoiser.logits_fn,
            denoiser.params,
            np.zeros((batch, 0), np.int32),
            np.zeros((batch, 0), bool),
            jax.random.split(jax.random.key(0), batch),
            config,
            mask_id=denoiser.mask_id,
            uniforms=arrays[f"{run}/u"],
        )

    published = replay(skip_idle=False, record_history=True)
    np.testing.assert_array_equal(published.history.canvas[:-1], canvases[1:])
    np.testing.assert_array_equal(published.tokens, arrays[f"{run}/final"])
    assert int(published.launches) == settings["n_forward_calls"]
    np.testing.assert_array_equal(published.nfe, settings["n_forward_calls"])
    ours = replay()
    np.testing.assert_array_equal(ours.tokens, published.tokens)
    assert np.all(np.asarray(ours.nfe) <= published.nfe)
    if TRAJECTORIES[run] == "mdlm":
        assert int(ours.launches) < int(published.launches), "noise removal has nothing to do"
