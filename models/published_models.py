"""The registry's data: published models, one row each.

Shapes are the fields of their config.json that fix parameters and logits; numbers of parameters
are counted from them (a test does so again). Revisions are commits of the Hugging Face Hub that
public repositories pin for reproduction; none was fetched in making this table.

The leaderboard is that of the CaRE paper (arXiv 2607.24763): twelve models in two tiers. Its text
names three of them; the rest, and which variant of a family is meant, is our reading.
"""

from collections.abc import Mapping
from typing import Any

_GENERATE = ("generate", "loglik")
_SCORE = ("score", "features", "generate")

_LLADA_8B = {
    "model_type": "llada",
    "d_model": 4096,
    "n_layers": 32,
    "n_heads": 32,
    "n_kv_heads": 32,
    "mlp_hidden_size": 12288,
    "vocab_size": 126464,
    "embedding_size": 126464,
    "rope_theta": 500_000.0,
    "rms_norm_eps": 1e-5,
    "weight_tying": False,
    "mask_token_id": 126336,
    "eos_token_id": 126081,
    "pad_token_id": 126081,
}
_LLADA_MOE = {
    "model_type": "lladamoe",
    "hidden_size": 2048,
    "num_hidden_layers": 16,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "num_experts": 64,
    "num_experts_per_tok": 8,
    "expert_intermediate_size": 1024,
    "dense_intermediate_size": 8192,
    "moe_layer_freq": [1] * 16,
    "moe_router_enable_expert_bias": False,
    "qk_layernorm": True,
    "vocab_size": 157184,
    "max_position_embeddings": 8192,
    "rope_theta": 50_000.0,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "mask_token_id": 156895,
    "eos_token_id": 156892,
    "pad_token_id": 156892,
}
_DREAM_7B = {
    "model_type": "Dream",
    "hidden_size": 3584,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "intermediate_size": 18944,
    "vocab_size": 152064,
    "rope_theta": 1_000_000.0,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "mask_token_id": 151666,
    "eos_token_id": 151643,
    "pad_token_id": 151643,
}
_OPEN_DCODER = {
    "model_type": "qwen2",
    "hidden_size": 896,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "intermediate_size": 4864,
    "vocab_size": 151936,
    "rope_theta": 1_000_000.0,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
    "eos_token_id": 151643,
}
_MDLM_OWT = {
    "model_type": "mdlm",
    "hidden_dim": 768,
    "cond_dim": 128,
    "n_blocks": 12,
    "n_heads": 12,
    "model_length": 1024,
    "vocab_size": 50258,
    "time_conditioning": False,
}
_SEDD_SMALL = {
    "model_type": "sedd",
    "model": {
        "hidden_size": 768,
        "cond_dim": 128,
        "n_blocks": 12,
        "n_heads": 12,
        "length": 1024,
        "scale_by_sigma": True,
    },
    "graph": {"type": "absorb"},
    "tokens": 50257,
}
_SMDM_1028M = {
    "model_type": "smdm",
    "n_embd": 1792,
    "n_layer": 20,
    "n_head": 14,
    "n_query_groups": 14,
    "intermediate_size": 7168,
    "block_size": 2048,
    "vocab_size": 32000,
    "padded_vocab_size": 32000,
    "rotary_percentage": 1.0,
    "parallel_residual": False,
    "bias": False,
    "norm_eps": 1e-5,
    "_norm_class": "RMSNorm",
    "_mlp_class": "LLaMAMLP",
    "mask_token_id": 32000,
    "eos_token_id": 2,
}
_LLAMA3_8B = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "rope_theta": 500_000.0,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "bos_token_id": 128000,
    "eos_token_id": 128001,
}
_SMOLLM2_135M = {
    "model_type": "llama",
    "hidden_size": 576,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "intermediate_size": 1536,
    "vocab_size": 49152,
    "max_position_embeddings": 8192,
    "rope_theta": 100_000.0,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
}


def _gpt2(width: int, layers: int, heads: int) -> dict[str, Any]:
    shape = {"n_embd": width, "n_layer": layers, "n_head": heads, "n_positions": 1024}
    return {
        "model_type": "gpt2",
        **shape,
        "vocab_size": 50257,
        "layer_norm_epsilon": 1e-5,
        "eos_token_id": 50256,
    }


def _bert(kind: str, width: int, layers: int, vocab_size: int, **more: Any) -> dict[str, Any]:
    return {
        "model_type": kind,
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": 12,
        "intermediate_size": 4 * width,
        "vocab_size": vocab_size,
        "max_position_embeddings": 512,
        **more,
    }


_BERT_BASE = _bert("bert", 768, 12, 30522, type_vocab_size=2, pad_token_id=0)
_MINILM = _bert("bert", 384, 6, 30522, type_vocab_size=2, pad_token_id=0)
_OFFSET = {"max_position_embeddings": 514, "layer_norm_eps": 1e-5, "pad_token_id": 1}
_ROBERTA_BASE = _bert("roberta", 768, 12, 50265, type_vocab_size=1, **_OFFSET)
_MPNET_BASE = _bert("mpnet", 768, 12, 30527, relative_attention_num_buckets=32, **_OFFSET)


def _row(
    name: str,
    repository: str,
    revision: str | None,
    *,
    kind: str = "denoiser",
    active: int | None = None,
    params: int,
    modes: tuple[str, ...] = _GENERATE,
    tier: str = "",
    status: str = "fixture",
    **more: Any,
) -> Mapping[str, Any]:
    pin = "" if revision is None else f"@{revision}"
    return {
        "name": name,
        "kind": kind,
        "source": f"hf:{repository}{pin}",
        "params_total": params,
        "params_active": params if active is None else active,
        "tier": tier,
        "modes": modes,
        "revision": revision,
        "status": status,
        **more,
    }


def _llada(name: str, repository: str, revision: str | None, tier: str) -> Mapping[str, Any]:
    shape = {"architecture": "llada", "config": _LLADA_8B, "params": 8_015_581_184}
    return _row(name, repository, revision, tier=tier, licence="MIT", **shape)


def _moe(name: str, repository: str, revision: str | None, tier: str) -> Mapping[str, Any]:
    return _row(
        name,
        repository,
        revision,
        tier=tier,
        licence="Apache-2.0",
        architecture="llada_moe",
        config=_LLADA_MOE,
        params=7_356_880_896,
        active=1_719_736_320,
        notes="Its config.json may say model_type llada: give architecture=llada_moe. The 1.4 B"
        " active parameters of its authors leave out the input embedding.",
    )


def _dream(
    name: str,
    repository: str,
    revision: str | None,
    tier: str,
    licence: str = "Apache-2.0",
    notes: str = "",
    **more: Any,
) -> Mapping[str, Any]:
    shape = {"architecture": "dream", "config": _DREAM_7B, "params": 7_615_616_512}
    return _row(
        name, repository, revision, tier=tier, licence=licence, notes=notes, **shape, **more
    )


_DREAM_INSTRUCT = ("Dream-org/Dream-v0-Instruct-7B", "05334cb9faaf763692dcf9d8737c642be2b2a6ae")
_DREAM_CODER = ("Dream-org/Dream-Coder-v0-Instruct-7B", "5d9e88c723af9045f362748b5284bdf43d9c501e")
_GPT2_LARGE = ("openai-community/gpt2-large", "32b71b12589c2f8d625668d2335a01cac3249519")
_VARIANT = "The leaderboard does not say which variant it ran; this is our reading."
_SOFT = (
    "Adapter weights (LoRA and soft-masking parameters) are not published: train them with"
    " github.com/IBM/soft-masked-diffusion-language-models, merge them and name the folder."
    " Stateful: likelihoods are not defined."
)

ROWS: tuple[Mapping[str, Any], ...] = (
    # Tier 1.
    _llada(
        "llada-8b-base", "GSAI-ML/LLaDA-8B-Base", "0f2787f2d87eac5eed8a087d5ecd24277e6255b2", "1"
    ),
    _llada(
        "llada-8b-instruct",
        "GSAI-ML/LLaDA-8B-Instruct",
        "08b83a6feb34df1a6011b80c3c00c7563e963b07",
        "1",
    ),
    _llada("llada-1.5", "GSAI-ML/LLaDA-1.5", "84346fd91ba60252d260022201ad6fc5a3468fb2", "1"),
    _moe("llada-moe-7b-a1b-base", "inclusionAI/LLaDA-MoE-7B-A1B-Base", None, "1"),
    _dream(
        "dream-7b-base",
        "Dream-org/Dream-v0-Base-7B",
        "6572adb5535263e4d1a337b56942ba48b6dee2a9",
        "1",
    ),
    _dream("dream-7b-instruct", *_DREAM_INSTRUCT, "1"),
    # Tier 2.
    _dream("dream-coder-7b-instruct", *_DREAM_CODER, "2", notes=_VARIANT),
    _dream(
        "diffucoder-7b-instruct",
        "apple/DiffuCoder-7B-Instruct",
        "4fdd4580064ca5d11808069ce78f88d068753c96",
        "2",
        "Apple (see repository)",
        _VARIANT,
    ),
    _row(
        "open-dcoder-0.5b",
        "fredzzp/open-dcoder-0.5B",
        None,
        tier="2",
        licence="see repository",
        architecture="open_dcoder",
        config=_OPEN_DCODER,
        params=494_032_768,
        status="untested",
        notes="config.json is Qwen2's: give architecture=open_dcoder to a denoiser. The mask is the"
        " tokenizer's own; where that has none the model is refused.",
    ),
    _dream(
        "dream-7b-soft-masked",
        *_DREAM_INSTRUCT,
        "2",
        notes=_SOFT,
        modes=("generate",),
        status="unpublished",
    ),
    _dream(
        "dream-coder-7b-soft-masked",
        *_DREAM_CODER,
        "2",
        notes=_SOFT,
        modes=("generate",),
        status="unpublished",
    ),
    _row(
        "mdlm-owt",
        "kuleshov-group/mdlm-owt",
        "d0958fa851335ece6c15260ce0025f030673c0fb",
        tier="2",
        licence="Apache-2.0",
        architecture="mdlm",
        config=_MDLM_OWT,
        params=169_627_218,
        notes="GPT-2's tokenizer, of another repository; the mask is id 50257, beyond it.",
    ),
    # Beside the leaderboard.
    _moe(
        "llada-moe-7b-a1b-instruct",
        "inclusionAI/LLaDA-MoE-7B-A1B-Instruct",
        "783d3467f108d28ac0a78d3e41af16ab05cabd8d",
        "extra",
    ),
    _dream(
        "dream-coder-7b-base",
        "Dream-org/Dream-Coder-v0-Base-7B",
        "2346ccd3be517d0d314152b988a3b9bafa7d6d63",
        "extra",
    ),
    _dream(
        "diffucoder-7b-base",
        "apple/DiffuCoder-7B-Base",
        "a2c33054cbe99b9ab7af074f09b1d13943157ff1",
        "extra",
        "Apple (see repository)",
    ),
    _dream(
        "diffucoder-7b-cpgrpo",
        "apple/DiffuCoder-7B-cpGRPO",
        "98bc42bfd871eeec92fd0a8439ab34f75b405204",
        "extra",
        "Apple (see repository)",
    ),
    _dream(
        "dreamon-7b",
        "Dream-org/DreamOn-v0-7B",
        "8ccc74750e43177327f29dab9e91882ba759e194",
        "extra",
        notes="Dream's shape; its tokens that lengthen and shorten a canvas are ordinary ids here.",
    ),
    _row(
        "illada-8b-base",
        "GSAI-ML/iLLaDA-8B-Base",
        None,
        tier="extra",
        licence="Apache-2.0",
        architecture="illada",
        params=8_000_000_000,
        status="untested",
        notes="Its shape is not on record: the number of parameters is the one in its name.",
    ),
    _row(
        "smdm-1028m",
        "nieshen/SMDM",
        None,
        tier="extra",
        licence="see repository",
        architecture="smdm",
        config=_SMDM_1028M,
        params=1_142_367_744,
        notes="Bare weights of many models in one repository (mdm_safetensors/): put the one file"
        " into a folder with a config.json of lit-gpt's fields and TinyLlama's tokenizer. Its 1028"
        " M leave out the embeddings.",
    ),
    _row(
        "sedd-small",
        "louaaron/sedd-small",
        None,
        tier="extra",
        licence="MIT (code)",
        architecture="sedd",
        config=_SEDD_SMALL,
        params=169_627_218,
        modes=("generate",),
        notes="GPT-2's tokenizer; the mask is id 50257. Conditioned on the noise level.",
    ),
    # Scorers.
    _row(
        "llama-3-8b",
        "meta-llama/Meta-Llama-3-8B",
        "8cde5ca8380496c9a6cc7ef3a8b46a0372a1d920",
        kind="scorer",
        licence="Llama-3",
        architecture="llama",
        config=_LLAMA3_8B,
        params=8_030_261_248,
        modes=_SCORE,
        notes="Gated: its licence has to be accepted on its page before it can be fetched.",
    ),
    _row(
        "gpt2",
        "openai-community/gpt2",
        "607a30d783dfa663caf39e06633721c8d4cfcd7e",
        kind="scorer",
        licence="MIT",
        architecture="gpt2",
        config=_gpt2(768, 12, 12),
        params=124_439_808,
        modes=_SCORE,
    ),
    _row(
        "gpt2-large",
        *_GPT2_LARGE,
        kind="scorer",
        licence="MIT",
        architecture="gpt2",
        config=_gpt2(1280, 36, 20),
        params=774_030_080,
        modes=_SCORE,
    ),
    _row(
        "gpt2-xl",
        "openai-community/gpt2-xl",
        "15ea56dee5df4983c59b2538573817e1667135e2",
        kind="scorer",
        licence="MIT",
        architecture="gpt2",
        config=_gpt2(1600, 48, 25),
        params=1_557_611_200,
        modes=_SCORE,
    ),
    _row(
        "smollm2-135m",
        "HuggingFaceTB/SmolLM2-135M",
        "93efa2f097d58c2a74874c7e644dbc9b0cee75a2",
        kind="scorer",
        licence="Apache-2.0",
        architecture="llama",
        config=_SMOLLM2_135M,
        params=134_515_008,
        modes=_SCORE,
    ),
    _row(
        "smollm2-135m-instruct",
        "HuggingFaceTB/SmolLM2-135M-Instruct",
        "12fd25f77366fa6b3b4b768ec3050bf629380bac",
        kind="scorer",
        licence="Apache-2.0",
        architecture="llama",
        config=_SMOLLM2_135M,
        params=134_515_008,
        modes=_SCORE,
        status="real weights",
        notes="Checked as Q4_1: launch/fetch_weights.py --only=smollm2, then gguf:FILE.",
    ),
    # Encoders.
    _row(
        "gpt2-large-encoder",
        *_GPT2_LARGE,
        kind="encoder",
        licence="MIT",
        architecture="gpt2",
        config=_gpt2(1280, 36, 20),
        params=774_030_080,
        modes=("features",),
        recipe={"pooling": "last", "normalize": False, "max_length": 512},
        notes="The last token's state behind the final norm, as MAUVE takes it.",
    ),
    _row(
        "bert-base-uncased",
        "google-bert/bert-base-uncased",
        "86b5e0934494bd15c9632b12f734a8a67f723594",
        kind="encoder",
        licence="Apache-2.0",
        architecture="bert",
        config=_BERT_BASE,
        params=108_891_648,
        modes=("features",),
        recipe={"pooling": "cls", "normalize": False, "max_length": 512},
    ),
    _row(
        "roberta-base",
        "FacebookAI/roberta-base",
        "e2da8e2f811d1448a5b465c236feacd80ffbac7b",
        kind="encoder",
        licence="MIT",
        architecture="roberta",
        config=_ROBERTA_BASE,
        params=124_055_040,
        modes=("features",),
        recipe={"pooling": "cls", "normalize": False, "max_length": 512},
    ),
    _row(
        "all-mpnet-base-v2",
        "sentence-transformers/all-mpnet-base-v2",
        "e8c3b32edf5434bc2275fc9bab85f82640a19130",
        kind="encoder",
        licence="Apache-2.0",
        architecture="mpnet",
        config=_MPNET_BASE,
        params=108_895_872,
        modes=("features",),
        status="real weights",
        recipe={"pooling": "mean", "normalize": True, "max_length": 512},
        notes="Its own files cut texts at 384 tokens; here 512, as for all. launch/fetch_weights.py"
        " --only=mpnet.",
    ),
    _row(
        "e5-base-v2",
        "intfloat/e5-base-v2",
        "f52bf8ec8c7124536f0efb74aca902b2995e5bcd",
        kind="encoder",
        licence="MIT",
        architecture="bert",
        config=_BERT_BASE,
        params=108_891_648,
        modes=("features",),
        recipe={"pooling": "mean", "normalize": True, "max_length": 512, "prefix": "query: "},
    ),
    _row(
        "all-minilm-l6-v2",
        "sentence-transformers/all-MiniLM-L6-v2",
        "c9745ed1d9f207416be6d2e6f8de32d1f16199bf",
        kind="encoder",
        licence="Apache-2.0",
        architecture="bert",
        config=_MINILM,
        params=22_565_376,
        modes=("features",),
        status="real weights",
        recipe={"pooling": "mean", "normalize": True, "max_length": 512},
        notes="Its own files cut texts at 256 tokens; here 512, as for all. launch/fetch_weights.py"
        " --only=minilm.",
    ),
)
