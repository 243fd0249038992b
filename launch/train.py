"""Trains the embedded world on King James text: tokenizer, causal scorer, masked denoiser.

    python launch/train.py --part=tokenizer --output=models/embedded/kjv-scorer
    python launch/train.py --part=scorer --output=models/embedded/kjv-scorer --steps=800 \\
        --copy_rows=4
    python launch/train.py --part=denoiser --output=models/embedded/kjv-denoiser --seed=1 \\
        --tokenizer=models/embedded/kjv-scorer/tokenizer.json --steps=3600 --causal_steps=400

A killed run continues from its last checkpoint when the same command is given again. The cards
beside the published weights hold the commands, times and curves of the runs that made them.
"""

import dataclasses
import functools
import pathlib
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from absl import app, flags, logging

from dlmeval.evals import corpora
from dlmeval.launch import publish
from dlmeval.models import decoder, objectives, text_tokens

FLAGS = flags.FLAGS
flags.DEFINE_enum(
    "part", None, ["tokenizer", "scorer", "denoiser"], "What to train.", required=True
)
flags.DEFINE_string("output", None, "Folder that receives the model.", required=True)
flags.DEFINE_string("tokenizer", None, "tokenizer.json to use; default: the one in --output.")
flags.DEFINE_string("checkpoints", "checkpoints", "Folder of the resumable training states.")
flags.DEFINE_integer("vocab_size", 2047, "Entries of the tokenizer, end-of-text included.")
flags.DEFINE_integer("hidden_size", 192, "Width of the residual stream.")
flags.DEFINE_integer("num_layers", 4, "Number of blocks.")
flags.DEFINE_integer("num_heads", 3, "Attention heads.")
flags.DEFINE_integer("intermediate_size", 576, "Width of the SwiGLU layer.")
flags.DEFINE_integer("length", 128, "Tokens a row.")
flags.DEFINE_integer("batch_size", 32, "Rows a step.")
flags.DEFINE_integer("steps", 1200, "Optimizer steps.")
flags.DEFINE_integer(
    "causal_steps", 0, "First steps of a denoiser that predict the next token: a warm start."
)
flags.DEFINE_integer("copy_rows", 0, "Rows a step that repeat one span, to teach copying; 0: none.")
flags.DEFINE_integer("short_every", 8, "Every n-th step cuts its rows in half; 0: never.")
flags.DEFINE_float("learning_rate", 6e-3, "Peak learning rate of Muon (consistent RMS 0.2).")
flags.DEFINE_float("adam_learning_rate", 4e-3, "Peak learning rate of the embedding and norms.")
flags.DEFINE_float("weight_decay", 0.1, "Decoupled weight decay of the matrices.")
flags.DEFINE_float("ema_decay", 0.995, "Decay of the averaged weights.")
flags.DEFINE_integer("warmup", 60, "Steps of linear warm-up; a linear decay to zero follows.")
flags.DEFINE_integer("evaluate_every", 200, "Steps between validation losses and checkpoints.")
flags.DEFINE_integer("seed", 0, "Seed of weights, order and masks.")

_EOS_ID = 0
_RECIPE = (
    "adam_learning_rate batch_size causal_steps copy_rows ema_decay hidden_size intermediate_size"
    " learning_rate length num_heads num_layers part seed short_every steps vocab_size warmup"
    " weight_decay"
).split()


def main(argv):
    del argv
    logging.set_verbosity(logging.WARNING)
    output = pathlib.Path(FLAGS.output)
    if FLAGS.part == "tokenizer":
        documents = corpora.load_corpus("kjv:train").documents
        text_tokens.train_bpe(documents, FLAGS.vocab_size).save(output / "tokenizer.json")
        return
    tokenizer = text_tokens.load(pathlib.Path(FLAGS.tokenizer or output / "tokenizer.json"))
    config = decoder.DecoderConfig(
        vocab_size=FLAGS.vocab_size + 1,
        hidden_size=FLAGS.hidden_size,
        num_layers=FLAGS.num_layers,
        num_heads=FLAGS.num_heads,
        num_kv_heads=FLAGS.num_heads,
        intermediate_size=FLAGS.intermediate_size,
        causal=FLAGS.part == "scorer",
        tie_embeddings=True,
    )
    state, record = train(config, tokenizer)
    publish.publish(output, config, state["ema"], tokenizer, record)


def train(config, tokenizer):
    """Runs all steps, resuming from the newest checkpoint, and returns (state, record)."""
    stream = Stream("kjv:train", tokenizer, FLAGS.length, FLAGS.batch_size, FLAGS.seed)
    validation = Stream("kjv:validation", tokenizer, FLAGS.length, FLAGS.batch_size, 0)
    optimizer = make_optimizer()
    params = decoder.init_params(config, jax.random.key(FLAGS.seed))
    state = {
        "params": params,
        "ema": jax.tree.map(jnp.copy, params),  # the step donates both
        "optimizer": optimizer.init(params),
        "step": jnp.zeros((), jnp.int32),
    }
    options = ocp.CheckpointManagerOptions(max_to_keep=2)
    folder = pathlib.Path(FLAGS.checkpoints).resolve() / FLAGS.part
    with ocp.CheckpointManager(folder, options=options) as manager:
        record = {"curve": [], "seconds": 0.0, "flags": recipe()}
        if manager.latest_step() is not None:
            saved = manager.restore(
                manager.latest_step(),
                args=ocp.args.Composite(
                    state=ocp.args.StandardRestore(state), record=ocp.args.JsonRestore()
                ),
            )
            state, record = saved["state"], saved["record"]
            if record["flags"] != recipe():
                raise app.UsageError(
                    f"--checkpoints={FLAGS.checkpoints} holds a run with other flags"
                    f" ({record['flags']}); choose another folder or the same flags"
                )
            print(f"resumed at step {int(state['step'])}", flush=True)
        step_fn = make_step(config, optimizer)
        warm_fn = make_step(dataclasses.replace(config, causal=True), optimizer)
        evaluate = make_evaluate(config)
        begin = time.time()
        while (step := int(state["step"])) < FLAGS.steps:
            rows = stream.batch(step)
            if FLAGS.copy_rows:
                rng = np.random.default_rng([FLAGS.seed, step])
                rows = repeat_spans(rows, FLAGS.copy_rows, rng)
            if FLAGS.short_every and step % FLAGS.short_every == FLAGS.short_every - 1:
                rows = rows.reshape(-1, FLAGS.length // 2)
            state, loss = (warm_fn if step < FLAGS.causal_steps else step_fn)(state, rows)
            done = step + 1
            if done % FLAGS.evaluate_every == 0 or done == FLAGS.steps:
                loss, valid = float(loss), evaluate(state["ema"], validation)
                record["seconds"] += time.time() - begin
                begin = time.time()
                record["curve"].append([done, loss, *valid])
                rate = done * FLAGS.batch_size * FLAGS.length / record["seconds"]
                left = (FLAGS.steps - done) * FLAGS.batch_size * FLAGS.length / rate
                print(
                    f"step {done}/{FLAGS.steps}  train {loss:.3f}  validation {valid[0]:.4f}"
                    f" ± {valid[1]:.4f} nats/token = {valid[0] * validation.bits_factor:.4f}"
                    f" bits/byte  {rate:.0f} tokens/s  ETA {left / 60:.0f} min",
                    flush=True,
                )
                manager.save(
                    done,
                    args=ocp.args.Composite(
                        state=ocp.args.StandardSave(state), record=ocp.args.JsonSave(record)
                    ),
                )
        manager.wait_until_finished()
    return state, record


class Stream:
    """Rows of a corpus: each chapter behind an end-of-text token, cut anew every epoch."""

    def __init__(self, corpus: str, tokenizer, length: int, batch_size: int, seed: int):
        documents = corpora.load_corpus(corpus).documents
        self.chapters = [np.array([_EOS_ID, *tokenizer.encode(d)], np.int32) for d in documents]
        tokens = sum(map(len, self.chapters))
        num_bytes = sum(len(d.encode("utf-8")) for d in documents)
        self.bits_factor = tokens / num_bytes / np.log(2)
        self.length, self.batch_size, self.seed = length, batch_size, seed
        self.batches = max(1, (tokens // length - 1) // batch_size)
        self._epoch = functools.lru_cache(maxsize=1)(self._cut)

    def batch(self, step: int) -> np.ndarray:
        epoch, index = divmod(step, self.batches)
        return self._epoch(epoch)[index * self.batch_size : (index + 1) * self.batch_size]

    def _cut(self, epoch: int) -> np.ndarray:
        rng = np.random.default_rng([self.seed, epoch])
        order = rng.permutation(len(self.chapters))
        stream = np.concatenate([self.chapters[i] for i in order])
        stream = stream[rng.integers(self.length) :]
        rows = stream[: len(stream) // self.length * self.length].reshape(-1, self.length)
        return rows[rng.permutation(len(rows))]


def repeat_spans(rows: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Replaces the last rows by spans of 4 tokens to half a row, repeated until the row is full.

    Every other span is text, the rest are tokens drawn one by one from the batch. Language models
    trained on the web learn to copy from their data; a million tokens of one book do not teach it.
    """
    rows, length = rows.copy(), rows.shape[1]
    for index in range(count):
        span = rng.integers(4, length // 2 + 1)
        source = rows[index] if index % 2 else rng.choice(rows[:-count].reshape(-1), length)
        start = rng.integers(length - span + 1)
        rows[len(rows) - 1 - index] = np.resize(source[start : start + span], length)
    return rows


def recipe() -> dict:
    """The flags that shape the result."""
    return {name: FLAGS[name].value for name in _RECIPE}


def make_optimizer() -> optax.GradientTransformation:
    """Muon for the matrices of the blocks, Adam for embedding and norms."""

    def schedule(peak):
        rise = optax.linear_schedule(0.0, peak, FLAGS.warmup)
        fall = optax.linear_schedule(peak, 0.0, max(FLAGS.steps - FLAGS.warmup, 1))
        return optax.join_schedules([rise, fall], [FLAGS.warmup])

    def dimensions(params):
        # Blocks are stacked on axis 0; their matrices map axis 1 to axis 2.
        spec = optax.contrib.MuonDimensionNumbers(reduction_axis=1, output_axis=2)
        blocks = jax.tree.map(lambda x: spec if x.ndim == 3 else None, params["blocks"])
        return {**dict.fromkeys(params), "blocks": blocks}

    muon = optax.contrib.muon(
        schedule(FLAGS.learning_rate),
        adam_learning_rate=schedule(FLAGS.adam_learning_rate),
        weight_decay=FLAGS.weight_decay,
        muon_weight_dimension_numbers=dimensions,
        consistent_rms=0.2,
    )
    return optax.chain(optax.clip_by_global_norm(1.0), muon)


def make_step(config, optimizer):
    """One jitted optimizer step; keys follow from the step, so a resumed run repeats itself."""

    def loss_fn(params, rows, key):
        if config.causal:
            return objectives.causal_nll(config, params, rows).mean()
        return objectives.masked_bound(config, params, rows, key, config.vocab_size - 1).mean()

    @functools.partial(jax.jit, donate_argnums=0)
    def step_fn(state, rows):
        key = jax.random.fold_in(jax.random.key(FLAGS.seed + 1), state["step"])
        loss, gradient = jax.value_and_grad(loss_fn)(state["params"], rows, key)
        updates, optimizer_state = optimizer.update(gradient, state["optimizer"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        decay = jnp.minimum(FLAGS.ema_decay, (1.0 + state["step"]) / (10.0 + state["step"]))
        ema = optax.incremental_update(params, state["ema"], 1.0 - decay)
        step = state["step"] + 1
        return {"params": params, "ema": ema, "optimizer": optimizer_state, "step": step}, loss

    return step_fn


def make_evaluate(config):
    """Validation loss in nats a token with the standard error over rows; fixed masks."""

    @jax.jit
    def rows_loss(params, rows, key):
        if config.causal:
            return objectives.causal_nll(config, params, rows).mean(axis=1)
        return objectives.masked_bound(config, params, rows, key, config.vocab_size - 1)

    def evaluate(params, stream):
        losses = np.concatenate(
            [rows_loss(params, stream.batch(i), jax.random.key(i)) for i in range(stream.batches)]
        )
        return [float(losses.mean()), float(losses.std(ddof=1) / len(losses) ** 0.5)]

    return evaluate


if __name__ == "__main__":
    app.run(main)
