"""The sampling loop: beside bare forwards, beside PyTorch, and its memory."""

import functools
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np

from dlmeval.launch.benchmarks.timing import Row, Seconds, cpu_note, interleave, median_ratio
from dlmeval.models import decoder
from dlmeval.samplers import SamplerConfig, Samples, sample

# The shape of SmolLM2-135M, bidirectional; the weights are random.
SMOLLM2_135M = decoder.DecoderConfig(
    vocab_size=49_152,
    hidden_size=576,
    num_layers=30,
    num_heads=9,
    num_kv_heads=3,
    intermediate_size=1536,
    causal=False,
    tie_embeddings=True,
)
# The embedded denoiser's.
KJV = decoder.DecoderConfig(
    vocab_size=2048,
    hidden_size=192,
    num_layers=4,
    num_heads=3,
    num_kv_heads=3,
    intermediate_size=576,
    causal=False,
    tie_embeddings=True,
)
# LLaDA's vocabulary on a network so small that the loop itself is what takes the time.
LLADA_HEAD = decoder.DecoderConfig(
    vocab_size=126_464,
    hidden_size=128,
    num_layers=2,
    num_heads=4,
    num_kv_heads=4,
    intermediate_size=512,
    causal=False,
)


class Case:
    """A network with random weights, prompts, and the calls that are timed.

    The mask id is the last column of the logits, which the sampler never emits.
    """

    def __init__(self, shape: decoder.DecoderConfig, batch: int, width: int, length: int):
        self.shape, self.length = shape, length
        self.mask_id = shape.vocab_size - 1
        self.params = jax.jit(functools.partial(decoder.init_params, shape))(jax.random.key(0))
        self.logits_fn = functools.partial(decoder.region_logits, shape)
        rng = np.random.default_rng(0)
        self.prompt = jnp.asarray(rng.integers(0, self.mask_id, (batch, width)), jnp.int32)
        self.keys = jax.random.split(jax.random.key(1), batch)

    def sample(self, strategy: str, steps: int, temp: float) -> Samples:
        config = SamplerConfig(
            gen_length=self.length, num_steps=steps, strategy=strategy, unmask_temp=temp
        )
        mask = jnp.ones(self.prompt.shape, bool)
        result = sample(
            self.logits_fn, self.params, self.prompt, mask, self.keys, config, mask_id=self.mask_id
        )
        return jax.block_until_ready(result)

    def bare(self, count: int) -> Callable[[], None]:
        """`count` jitted forwards of the same canvas and region, each waited for."""
        width, batch = self.prompt.shape[1], len(self.prompt)
        region = slice(width, width + self.length)
        masks = np.full((batch, self.length), self.mask_id, np.int32)
        canvas = jnp.asarray(np.concatenate([self.prompt, masks], axis=1))
        token_mask = jnp.ones(canvas.shape, bool)
        forward = jax.jit(functools.partial(self.logits_fn, region=region))

        def run():
            for _ in range(count):
                forward(self.params, canvas, token_mask).block_until_ready()

        return run


def run(repeats: int, small: bool) -> Iterator[Row]:
    """All rows of the suite; `small` shrinks every size."""
    yield loop_over_bare("SmolLM2-135M-shaped", _shrunk(SMOLLM2_135M, small), 8, repeats, small)
    yield loop_over_bare("embedded denoiser's shape", KJV, 8, repeats, small)
    yield refresh_passes(repeats, small)
    yield from llada_against_torch(repeats, small)
    yield from step_memory(small)


def loop_over_bare(
    name: str, shape: decoder.DecoderConfig, batch: int, repeats: int, small: bool
) -> Row:
    """The loop at T = 1 over as many bare forwards as it made."""
    length, steps = (32, 2) if small else (128, 8)
    case = Case(shape, batch, 0, length)
    launches = int(case.sample("none", steps, 1.0).launches)
    seconds = interleave(
        {"loop": lambda: case.sample("none", steps, 1.0), "bare": case.bare(launches)}, repeats
    )
    loop, bare = seconds["loop"], seconds["bare"]
    ratio = median_ratio(loop.wall, bare.wall)
    return Row(
        name=f"loop over bare forwards, {name}, {batch} x {length} tokens, T=1",
        unit="ms/forward",
        ours=_median_ms(loop.wall, launches),
        peer=_median_ms(bare.wall, launches),
        ratio=ratio,
        target="<= 1.05" if shape is SMOLLM2_135M else "",
        note=f"loop / bare, {cpu_note(loop, bare)}; "
        f"the sampler's own share is {max(0.0, 1 - 1 / ratio):.1%}",
    )


def refresh_passes(repeats: int, small: bool) -> Row:
    """Passes whose logits no strategy reads cost what other passes cost: they really run."""
    length, steps = (32, 4) if small else (128, 8)
    case = Case(KJV, 8, 0, length)
    count = {name: int(case.sample(name, steps, 0.0).nfe[0]) for name in ("random", "none")}
    seconds = interleave(
        {name: functools.partial(case.sample, name, steps, 0.0) for name in count}, repeats
    )
    per_pass = {
        name: Seconds(*([s / count[name] for s in clock] for clock in seconds[name]))
        for name in count
    }
    return Row(
        name=f"time per NFE with refresh passes (random, {count['random']} NFE) over without "
        f"(none, {count['none']} NFE)",
        unit="ms/NFE",
        ours=_median_ms(per_pass["random"].wall, 1),
        peer=_median_ms(per_pass["none"].wall, 1),
        ratio=median_ratio(per_pass["random"].wall, per_pass["none"].wall),
        target=">= 0.75",
        note=f"random / none, {cpu_note(per_pass['random'], per_pass['none'])}; "
        "about 0.5 if refresh passes were compiled away",
    )


def llada_against_torch(repeats: int, small: bool) -> Iterator[Row]:
    """ms per NFE of LLaDA's loop, gen 128, prompt 64, batch 1, here and in PyTorch."""
    shape = _shrunk(LLADA_HEAD, small)
    width, length, steps = (8, 16, 2) if small else (64, 128, 8)
    case = Case(shape, 1, width, length)
    targets = {1.0: ">= 4", 0.0: ">= 1.3"}
    sides: dict[str, Callable[[], object]] = {}
    try:
        from dlmeval.launch.benchmarks import llada_torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        note = "PyTorch is not installed: pip install 'dlmeval[bench]'"
    else:
        model = llada_torch.TorchDecoder(shape, case.params)
        prompt = np.asarray(case.prompt)
        for temp in targets:
            sides[f"torch {temp}"] = functools.partial(
                llada_torch.generate, model, prompt, length, steps, temp, case.mask_id
            )
        theirs = np.asarray(sides["torch 0.0"]())[:, width:]
        ours = np.asarray(case.sample("none", steps, 0.0).tokens)[:, width:]
        note = f"tokens at T=0 agree at {np.mean(theirs == ours):.1%} of positions"
    for temp in targets:
        sides[f"ours {temp}"] = functools.partial(case.sample, "none", steps, temp)
    seconds = interleave(sides, repeats)
    for temp, target in targets.items():
        ours, theirs = seconds[f"ours {temp}"], seconds.get(f"torch {temp}")
        row = Row(
            name=f"LLaDA loop, V={shape.vocab_size:,}, d={shape.hidden_size}, "
            f"{shape.num_layers} layers, T={temp:.0f}",
            unit="ms/NFE",
            ours=_median_ms(ours.wall, steps),
            peer=None,
            ratio=None,
            target=target,
            note=note,
        )
        if theirs is not None:
            row = row._replace(
                peer=_median_ms(theirs.wall, steps),
                ratio=median_ratio(theirs.wall, ours.wall),
                note=f"torch / ours, {cpu_note(theirs, ours)}; {note}",
            )
        yield row


def step_memory(small: bool) -> Iterator[Row]:
    """Temporaries of the compiled loop, in buffers of float32 logits of the generated region."""
    shape = _shrunk(LLADA_HEAD, small)
    width, length = (8, 16) if small else (64, 128)
    for strategy, temp in (("none", 1.0), ("low_confidence", 1.0)):
        case = Case(shape, 1, width, length)
        jax.clear_caches()  # what is alive afterwards was compiled for this run
        case.sample(strategy, 2, temp)
        alive = jax.devices()[0].client.live_executables()
        loops = [x for x in alive if x.hlo_modules()[0].name == "jit_run"]
        peak = max(x.get_compiled_memory_stats().temp_size_in_bytes for x in loops)
        buffer = 4 * length * shape.vocab_size
        yield Row(
            name=f"memory of a step, {strategy}, V={shape.vocab_size:,}, {length} tokens",
            unit="MiB",
            ours=peak / 2**20,
            peer=buffer / 2**20,
            ratio=peak / buffer,
            target="<= 2.5",
            note="temporaries of the compiled loop / one buffer of the region's logits",
        )


def _median_ms(seconds: list[float], count: int) -> float:
    return 1e3 * float(np.median(seconds)) / count


def _shrunk(shape: decoder.DecoderConfig, small: bool) -> decoder.DecoderConfig:
    if not small:
        return shape
    return decoder.DecoderConfig(
        vocab_size=512,
        hidden_size=48,
        num_layers=2,
        intermediate_size=64,
        num_heads=3,
        num_kv_heads=1,
        causal=False,
        tie_embeddings=shape.tie_embeddings,
    )
