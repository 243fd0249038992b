"""The family that docs/add_a_model.md adds, against Hugging Face's own Qwen3.

Random shapes and weights, odd sizes on purpose; the page's block is run as printed.
"""

# pyright: reportMissingImports=false

import pathlib
import re

import numpy as np
import pytest

from dlmeval.models import architectures, load_scorer

pytestmark = pytest.mark.parity
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "add_a_model.md"
LENGTHS = (13, 7, 1)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """Qwen3 as the page registers it, for this test alone."""
    before = {k: v for k, v in architectures.ARCHITECTURES.items() if k != "qwen3"}
    monkeypatch.setattr(architectures, "ARCHITECTURES", before)
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
    exec(compile(block, PAGE.name, "exec"), {})


def saved(config, folder):
    """A Qwen3 with every parameter drawn at random, norms too, in a folder of safetensors."""
    model = transformers.Qwen3ForCausalLM(config)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            width = 1 if "embed" in name else parameter.shape[-1]
            norm = parameter.dim() == 1
            parameter.copy_(1 + 0.3 * noise if norm else noise * width**-0.5)
    model.tie_weights()
    model.eval().save_pretrained(folder, max_shard_size="10KB")
    return model


@pytest.mark.parametrize(
    "shape",
    [
        dict(
            vocab_size=11,
            hidden_size=18,
            num_attention_heads=3,
            num_key_value_heads=3,
            head_dim=6,
            num_hidden_layers=1,
            tie_word_embeddings=False,
        ),
        dict(
            vocab_size=97,
            hidden_size=24,
            num_attention_heads=6,
            num_key_value_heads=2,
            head_dim=14,
            num_hidden_layers=3,
            tie_word_embeddings=True,
            rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        ),
        dict(
            vocab_size=97,
            hidden_size=20,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=10,
            num_hidden_layers=3,
            tie_word_embeddings=False,
            rope_parameters={"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0},
        ),
    ],
)
def test_logits_are_those_of_transformers(tmp_path, shape):
    config = transformers.Qwen3Config(
        intermediate_size=31, max_position_embeddings=64, rms_norm_eps=1e-6, **shape
    )
    model = saved(config, tmp_path)
    ids = np.random.default_rng(0).integers(1, config.vocab_size, (3, max(LENGTHS)))
    mask = np.arange(max(LENGTHS)) < np.array(LENGTHS)[:, None]
    ids = np.where(mask, ids, 0)
    with torch.no_grad():
        given = torch.as_tensor(ids), torch.as_tensor(mask).long()
        theirs = model(given[0], attention_mask=given[1]).logits.numpy()[mask]
    scorer = load_scorer(str(tmp_path))
    ours = np.asarray(scorer.logits_fn(scorer.params, ids, mask, slice(0, max(LENGTHS))))[mask]
    scale = max(1.0, float(np.sqrt(np.mean(theirs**2))))
    assert theirs.std() > 0.1
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * scale)
