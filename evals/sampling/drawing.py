"""How the samples of a cell come to be: by a network, by counting, or from the text itself.

Every function here returns a `Draw`: rows in, `Drawn` out. Row i is the same whatever rows are
asked for with it, so a bank can be drawn in any pieces.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from ... import samplers
from ...samplers.autoregressive import sample_autoregressive
from ..banks.bank import Sample
from ..banks.trajectory import first_samples, join_histories
from ..cell import Cell
from ..corpora.text_filter import english_filter
from ..corpora.windows import cut_windows, take_windows
from ..sources import Kind, Sources
from .matching import ComputeMatch, match_nfe, run_matched
from .network import sample_from

NAIVE = ("topk_iid", "mirror", "periodic", "phrase_bank")
# Samples of a search for num_steps, and what sets their keys apart from those of any bank.
_PILOT, _PILOT_SEED = 16, 2**31


class Drawn(NamedTuple):
    """Rows of a bank.

    Attributes:
        samples: one per row asked for.
        launches: batched forward calls that ran for them; 0 where no network did.
        history: canvases after each nominal step, where the cell records them.
    """

    samples: list[Sample]
    launches: int
    history: samplers.History | None


Draw = Callable[[range], Drawn]


def drawer(
    cell: Cell, sources: Sources, *, batch_size: int, match: ComputeMatch | None = None
) -> Draw:
    """The function that draws rows of a cell; `match` is what `find_match` gave."""
    if cell.role in ("generated", "trajectory"):
        return _denoised(cell, sources, batch_size, match)
    if cell.role == "autoregressive":
        return _autoregressive(cell, sources, batch_size)
    if cell.role == "heuristic":
        return _counted(cell, sources)
    return _windowed(cell, sources)


def find_match(cell: Cell, sources: Sources) -> ComputeMatch | None:
    """How a cell with a target spends its forwards, searched on a pilot; None without a target.

    The pilot's keys are none of the cell's own, and its prompts, if any, are the cell's first.

    Raises:
        ValueError: a target that the arm cannot cost, or a mode that it cannot take.
    """
    if cell.target_nfe is None:
        return None
    count = min(_PILOT, cell.num_samples)
    prompt = prompts(cell, sources)[:count]
    return match_nfe(
        sources.denoiser(str(cell.model)),
        sampler_config(cell),
        cell.target_nfe,
        mode=str(cell.match_mode),
        num_pilot=count,
        seed=cell.seed + _PILOT_SEED,
        prompt=prompt,
        prompt_mask=np.ones_like(prompt, bool),
    )


def prompts(cell: Cell, sources: Sources) -> Int[np.ndarray, "n p"]:
    """What each row of a cell continues: real text of `prefix_length` tokens; width 0 without."""
    if cell.prefix_length is None:
        return np.zeros((cell.num_samples, 0), np.int32)
    return _windows(cell, sources)[:, : cell.prefix_length]


def sampler_config(cell: Cell) -> samplers.SamplerConfig:
    """The sampler's settings of a cell; what the cell leaves None keeps the sampler's default.

    Raises:
        ValueError: settings that the sampler refuses.
    """
    names = {field for field in samplers.SamplerConfig.__dataclass_fields__ if hasattr(cell, field)}
    settings: dict[str, Any] = {
        name: value for name in sorted(names) if (value := getattr(cell, name)) is not None
    }
    if cell.target_nfe is not None:  # the fewest steps, until a search says how many
        settings["num_steps"] = cell.gen_length // (cell.block_length or cell.gen_length)
    return samplers.SamplerConfig(**settings)


def sample_keys(seed: int, rows: range) -> Array:
    """One key per sample, from the seed and the sample's index in the bank alone."""
    root = jax.random.key(seed)
    return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(root, jnp.arange(rows.start, rows.stop))


def _denoised(cell: Cell, sources: Sources, batch_size: int, match: ComputeMatch | None) -> Draw:
    denoiser = sources.denoiser(str(cell.model))
    config = sampler_config(cell) if match is None else match.config
    given = prompts(cell, sources)

    def launch(keys: Array, rows: Int[np.ndarray, "b"]) -> Any:
        prompt = given[rows]
        mask = np.ones_like(prompt, bool)
        if match is not None:
            return run_matched(denoiser, match, prompt, mask, keys)
        return sample_from(denoiser, config, prompt, mask, keys)

    return _batched(
        cell, launch, config.gen_length, denoiser.tokenizer, denoiser.eos_id, batch_size
    )


def _autoregressive(cell: Cell, sources: Sources, batch_size: int) -> Draw:
    """Text of the causal model: on from the prompt, in its own tokens, or else from a random token.

    A random one because a window of real text begins anywhere.
    """
    if cell.unmask_temp is None:
        raise ValueError("an autoregressive cell needs unmask_temp")
    temp, noise = cell.unmask_temp, cell.noise or "inverse_cdf"
    scorer = sources.scorer(str(cell.model))
    documents = sources.encoded(str(cell.corpus), str(cell.model), kind="scorer")
    stream = jnp.asarray(np.concatenate(documents))
    given = prompts(cell, sources)

    def first_token(key: Array) -> Array:
        # The sampler folds in steps below gen_length, so this key is its own.
        own = jax.random.fold_in(key, cell.gen_length)
        return stream[jax.random.randint(own, (1,), 0, len(stream))]

    def launch(keys: Array, rows: Int[np.ndarray, "b"]) -> Any:
        start = jnp.asarray(given[rows]) if cell.prefix_length else jax.vmap(first_token)(keys)
        return sample_autoregressive(
            scorer.logits_fn,
            scorer.params,
            start,
            jnp.ones_like(start, bool),
            keys,
            gen_length=cell.gen_length - (0 if cell.prefix_length else 1),
            unmask_temp=temp,
            num_ids=scorer.num_ids,
            noise=noise,
        )

    return _batched(cell, launch, cell.gen_length, scorer.tokenizer, scorer.eos_id, batch_size)


def _batched(
    cell: Cell,
    launch: Callable[[Array, Int[np.ndarray, "b"]], Any],
    length: int,
    tokenizer: Any,
    eos_id: int | None,
    batch_size: int,
) -> Draw:
    """Runs `launch` on full batches; a short last batch is filled with rows that are dropped.

    One batch shape means one compilation.
    """

    def draw(rows: range) -> Drawn:
        samples, histories, launches = [], [], 0
        for start in range(rows.start, rows.stop, batch_size):
            wanted = min(batch_size, rows.stop - start)
            places = np.minimum(np.arange(start, start + batch_size), cell.num_samples - 1)
            out = launch(sample_keys(cell.seed, range(start, start + batch_size)), places)
            tokens = np.asarray(out.tokens)[:wanted, -length:]
            for row, nfe in zip(tokens, np.asarray(out.nfe)):
                ids = truncate(row, eos_id) if cell.eos_policy != "keep" else row
                samples.append(finished(cell, ids, tokenizer, int(nfe)))
            launches += int(out.launches)
            if out.history is not None:
                histories.append(first_samples(out.history, wanted))
        history = join_histories(histories) if histories else None
        return Drawn(samples, launches, history)

    return draw


def _counted(cell: Cell, sources: Sources) -> Draw:
    counts = sources.counts(str(cell.corpus), str(cell.model), vocabulary(cell))
    ids = naive_sampler(cell.strategy)(
        counts,
        cell.size,
        length=cell.gen_length,
        num_samples=cell.num_samples,
        seed=cell.seed,
    )
    return _stored(cell, np.asarray(ids), sources)


def naive_sampler(name: str) -> Callable[..., Int[np.ndarray, "n length"]]:
    """The naive sampler of a name of `NAIVE`."""
    return {name: getattr(samplers, name) for name in NAIVE}[name]


def _windowed(cell: Cell, sources: Sources) -> Draw:
    """Real or external text; behind its prefix where the cell has one."""
    return _stored(cell, _windows(cell, sources)[:, cell.prefix_length or 0 :], sources)


def _windows(cell: Cell, sources: Sources) -> Int[np.ndarray, "n length"]:
    """The cell's windows of its corpus, prefix and rest, in the tokens of its network."""
    documents = sources.encoded(str(cell.corpus), str(cell.model), vocabulary(cell))
    windows = cut_windows(documents, (cell.prefix_length or 0) + cell.gen_length)
    return take_windows(windows, int(cell.offset or 0), cell.num_samples)


def vocabulary(cell: Cell) -> Kind:
    """Which kind of network a cell's `model` is."""
    if cell.vocabulary is not None:
        return cell.vocabulary  # type: ignore[return-value]
    return "scorer" if cell.role == "autoregressive" else "denoiser"


def _stored(cell: Cell, ids: Int[np.ndarray, "n length"], sources: Sources) -> Draw:
    tokenizer = sources.network(str(cell.model), vocabulary(cell)).tokenizer

    def draw(rows: range) -> Drawn:
        samples = [finished(cell, row, tokenizer, 0) for row in ids[rows.start : rows.stop]]
        return Drawn(samples, 0, None)

    return draw


def truncate(ids: Int[np.ndarray, "t"], eos_id: int | None) -> Int[np.ndarray, "s"]:
    """The ids before the first end-of-sequence token; all of them without one."""
    if eos_id is None:
        return ids
    hits = np.flatnonzero(ids == eos_id)
    return ids[: hits[0]] if hits.size else ids


def finished(cell: Cell, ids: Int[np.ndarray, "t"], tokenizer: Any, nfe: int) -> Sample:
    """Decodes and filters one row."""
    text = tokenizer.decode([int(token) for token in ids])
    accepted = english_filter(text, cell.ascii_min, cell.cjk_max).accepted
    return Sample(ids, text, nfe, accepted)
