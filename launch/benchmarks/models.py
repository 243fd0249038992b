"""Scoring beside Hugging Face's PyTorch, compilation by depth, and loading beside reading."""

import pathlib
import statistics
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy

from dlmeval.launch.benchmarks.timing import Row, cpu_note, interleave, median_ratio
from dlmeval.models import Scorer, adapters, decoder, load_scorer, published, weight_table
from dlmeval.models.likelihood import score_rows

# Scored rows have this many tokens; HF takes them one at a time, which is its fastest on CPU.
_LENGTH = 1024


def run(repeats: int, small: bool) -> Iterator[Row]:
    """All rows of the suite; `small` shrinks every size."""
    yield scoring("GPT-2-small-sized", _gpt2_small, ">= 1.3", repeats, small)
    yield scoring("SmolLM2-135M-shaped", _smollm2, ">= 1.2", repeats, small)
    yield compile_by_depth(repeats, small)
    yield from loading(repeats, small)


def scoring(name: str, build, target: str, repeats: int, small: bool) -> Row:
    """Tokens a second of `Scorer.nll` and of HF's forward with labels, same weights and rows.

    The model is built by HF with random weights, saved, and loaded by us from that folder. Also
    timed are HF's linear layers alone and the same matrix products in JAX alone, one at a time:
    the latter bound what any float32 program of ours can gain.
    """
    rows, length = (1, 32) if small else (4, _LENGTH)
    title = f"NLL of {length}-token rows, {name}, float32"
    try:
        import torch
        from transformers.pytorch_utils import Conv1D
    except ImportError:
        return Row(title, "tokens/s", None, None, None, target, "torch is not installed: skipped")
    model = build(small).eval()
    ids = np.random.default_rng(0).integers(0, model.config.vocab_size, (rows, length))
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder, safe_serialization=True)
        scorer = load_scorer(folder)
    lengths = np.full(rows, length)

    def ours() -> np.ndarray:
        return scorer.nll(ids, lengths)[0]

    def peer() -> np.ndarray:
        with torch.inference_mode():
            batches = (torch.from_numpy(row[None]) for row in ids)
            return np.array([model(x, labels=x).loss.item() * (length - 1) for x in batches])

    layers = [m for m in model.modules() if isinstance(m, torch.nn.Linear | Conv1D)]
    inputs = {width: torch.rand(1, length, width) for width in {_width(m) for m in layers}}

    def products() -> None:
        with torch.inference_mode():
            for _ in range(rows):
                for layer in layers:
                    layer(inputs[_width(layer)])

    states = {width: jnp.asarray(x[0].numpy()) for width, x in inputs.items()}
    matrices = [(jnp.ones((_width(m), _outputs(m))), states[_width(m)]) for m in layers]

    def our_products() -> None:
        for _ in range(rows):
            for matrix, x in matrices:
                jax.block_until_ready(x @ matrix)

    difference = float(np.max(np.abs(ours() / peer() - 1)))
    sides = {"peer": peer, "ours": ours, "products": products, "our_products": our_products}
    seconds = interleave(sides, repeats, ready=("peer", "ours"))
    bound = median_ratio(seconds["peer"].wall, seconds["products"].wall)
    our_bound = median_ratio(seconds["peer"].wall, seconds["our_products"].wall)
    return Row(
        title,
        "tokens/s",
        rows * length / statistics.median(seconds["ours"].wall),
        rows * length / statistics.median(seconds["peer"].wall),
        median_ratio(seconds["peer"].wall, seconds["ours"].wall),
        target,
        f"ours / HF PyTorch, {cpu_note(seconds['peer'], seconds['ours'])}; HF over its own matrix "
        f"products alone {bound:.3g}, over the same products in JAX alone {our_bound:.3g}, which "
        f"is the most this ratio could be; NLLs agree to {difference:.1e} relative",
    )


def compile_by_depth(repeats: int, small: bool) -> Row:
    """Seconds to trace and compile the scoring of a row, 32 layers over 4."""
    width = 64 if small else 576
    shapes = {
        layers: decoder.DecoderConfig(4096, width, layers, 9 if not small else 2, 1, 96, True)
        for layers in (32, 4)
    }
    ids, mask = jnp.zeros((1, 256), jnp.int32), jnp.ones((1, 256), bool)

    def compiles(layers: int):
        def once() -> None:
            jax.clear_caches()
            config = shapes[layers]

            def score(params, ids, mask):
                return score_rows(decoder.NETWORK, config, params, ids, mask, mask)

            params = decoder.abstract_params(config)
            jax.jit(score).lower(params, ids, mask).compile()

        return once

    seconds = interleave({"deep": compiles(32), "shallow": compiles(4)}, repeats)
    deep, shallow = seconds["deep"], seconds["shallow"]
    return Row(
        "compile scoring, 32 layers / 4 layers",
        "s",
        statistics.median(deep.wall),
        statistics.median(shallow.wall),
        median_ratio(deep.wall, shallow.wall),
        "<= 1.5",
        f"32 / 4 layers, {cpu_note(deep, shallow)}",
    )


def loading(repeats: int, small: bool) -> Iterator[Row]:
    """Seconds to load a checkpoint, beside reading its bytes, both from the page cache."""
    layers, width = (2, 64) if small else (24, 1024)
    config = decoder.DecoderConfig(
        50_000 if not small else 300, width, layers, 16, 16, 4 * width, causal=True
    )
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place) / "model"
        _write_random(folder, config)
        path = folder / "model.safetensors"
        size = path.stat().st_size / 1e9
        waits: list[float] = []

        def ours() -> Scorer:
            scorer = load_scorer(str(folder))
            begin = time.perf_counter()
            # The next run must not compete with the hashing of this one.
            _ = scorer.card.digests
            waits.append(time.perf_counter() - begin)
            return scorer

        seconds = interleave({"read": path.read_bytes, "load": ours}, repeats)
    read, load = seconds["read"].wall, seconds["load"].wall
    ready = [whole - wait for whole, wait in zip(load, waits[-len(load) :], strict=True)]
    name = f"load a {size:.2g} GB float32 checkpoint"
    yield Row(
        name,
        "s",
        statistics.median(ready),
        statistics.median(read),
        median_ratio(ready, read),
        "<= 1.3",
        "until the model can be used / reading the file",
    )
    yield Row(
        f"{name}, digest included",
        "s",
        statistics.median(load),
        statistics.median(read),
        median_ratio(load, read),
        "",
        "until its sha256 is known too, which a thread computes after loading",
    )


def _write_random(folder: pathlib.Path, config: decoder.DecoderConfig) -> None:
    """A Llama checkpoint in float32, larger than `published` writes (bfloat16)."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    written = adapters.llama.write_shape(config, {})
    published.write_json(folder / "config.json", {"model_type": "llama", **written})
    tensors = {
        name: rng.random(shape, np.float32)
        for name, shape in weight_table.expected_tensors(adapters.LLAMA, config).items()
    }
    safetensors.numpy.save_file(tensors, folder / "model.safetensors")


def _width(layer: Any) -> int:
    """Inputs of a linear layer: PyTorch's stores [out, in], GPT-2's [in, out]."""
    return getattr(layer, "in_features", None) or layer.weight.shape[0]


def _outputs(layer: Any) -> int:
    """Outputs of the same layers."""
    return getattr(layer, "out_features", None) or layer.weight.shape[1]


def _gpt2_small(small: bool):
    import transformers

    sizes: dict[str, Any] = {}
    if small:
        sizes = {"n_layer": 2, "n_embd": 64, "n_head": 2, "vocab_size": 300}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes))


def _smollm2(small: bool):
    import transformers

    sizes: dict[str, Any] = {
        "vocab_size": 49_152,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "tie_word_embeddings": True,
        "rope_theta": 100_000.0,
        "max_position_embeddings": 8192,
    }
    if small:
        sizes |= {"vocab_size": 300, "num_hidden_layers": 2}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes))
