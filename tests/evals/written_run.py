"""Small finished runs for tests of the protocol: written through the public writers, not drawn.

Run as a script it writes one: python tests/evals/written_run.py WORKDIR
"""

import dataclasses
import json
import sys
from types import SimpleNamespace

import numpy as np

from dlmeval.evals import Cell, Sample, Score, Sources, write_bank
from dlmeval.evals.corpora.corpus import Corpus, documents_digest
from dlmeval.evals.scoring.score_settings import ScoreSettings
from dlmeval.evals.scoring.scores import CellScores, sealed, write_scores
from dlmeval.evals.storage import read_json, write_json
from dlmeval.evals.workdir.plan import PLAN, Plan, read_plan
from dlmeval.evals.workdir.sample_stage import bank_path, cell_manifest
from dlmeval.evals.workdir.score_stage import score_path

WORDS = "and the lord said unto moses speak thou of all this people in their land".split()
ROWS = 8
DIGEST = "ab" * 32
ARMS = tuple((s, t) for s in ("none", "high_entropy") for t in (0.0, 0.1, 0.25, 0.5))
METRICS = {
    "gen_ppl": ("perplexity/token", "down", "aggregate:token|ids:toy@ab|tokens:16", 40.0),
    "mauve": ("score", "up", "K:2|c:5.0|seeds:0-4|features:toy@ab", 0.6),
    "self_bleu": ("bleu", "down", "order:4|ids:toy@ab|tokens:16", 0.3),
    "distinct_3": ("fraction", "up", "order:3|ids:toy@ab|tokens:16", 0.7),
}


def sources():
    """Loads a denoiser of letters and a text; neither is ever run."""
    tokenizer = SimpleNamespace(encode=lambda text: [ord(letter) - 32 for letter in text])
    card = SimpleNamespace(digests={"config.json": "0" * 64, "model.safetensors": "1" * 64})
    model = SimpleNamespace(tokenizer=tokenizer, card=card, params={})
    documents = tuple(text(seed, 60) for seed in range(30))
    corpus = Corpus("toy:heldout", documents, documents_digest(documents))
    return Sources(load_denoiser=lambda _: model, load_corpus=lambda _: corpus)


def text(seed, count=4):
    return " ".join(np.random.default_rng(seed).choice(WORDS, count))


def cells(arms=ARMS, seeds=(1, 2, 3), num_steps=8, prefix_length=None, **changes):
    """A reference a seed, and every (strategy, temperature) at every seed."""
    shared = {"gen_length": 16, "num_samples": ROWS, "model": "toy", "model_digest": DIGEST}
    shared |= {"prefix_length": prefix_length}
    real = {"corpus": "toy:heldout", "corpus_digest": sources().corpus("toy:heldout").digest}
    found = []
    for place, seed in enumerate(seeds):
        fields = shared | real | {"offset": place * ROWS, "part": 0}
        fields |= {k: v for k, v in changes.items() if k in ("gen_length", "corpus_digest")}
        found.append(Cell(role="reference", strategy="reference", seed=seed, **fields))
    for strategy, temp in arms:
        for place, seed in enumerate(seeds):
            fields = shared | {"num_steps": num_steps, "noise": "inverse_cdf", "pace": "auto"}
            if prefix_length:
                fields |= real | {"offset": place * ROWS}
            fields |= {"strategy": strategy, "unmask_temp": temp, "seed": seed} | changes
            found.append(Cell(role="generated", **fields))
    return found


def write_run(workdir, found=None, *, value=None, nfe=None, match=None):
    """Writes plan, banks and scores of cells.

    Args:
        found: the cells; those of `cells()` by default.
        value: (metric, cell) -> number, for the scores.
        nfe: (cell, row) -> forwards of a sample.
        match: cell -> the manifest's record of how a target is met.
    """
    found = cells() if found is None else found
    loaded = sources()
    workdir.mkdir(parents=True, exist_ok=True)
    plan = Plan("toy", {}, tuple(found), ScoreSettings("toy", DIGEST, 16))
    write_json(workdir / PLAN, plan.record())
    digests = {}
    for cell in found:
        record = cell_manifest(cell, loaded)
        if match is not None and cell.role == "generated":
            record["match"] = match(cell)
        count = (nfe or default_nfe) if cell.role == "generated" else (lambda cell, row: 0)
        samples = [
            Sample([1, 2, 3], text([row, *bytes.fromhex(cell.fingerprint)]), count(cell, row), True)
            for row in range(cell.num_samples)
        ]
        digests[cell.fingerprint] = write_bank(bank_path(workdir, cell), record, samples)
        # The writer counts no launches of samples that it is handed.
        most = max(sample.nfe for sample in samples)
        edit(manifest_path(workdir, cell), lambda m, most=most: counted(m, most))
    (workdir / "scores").mkdir(exist_ok=True)
    for cell in found:
        reference = plan.reference_of(cell)
        digest = digests[reference.fingerprint] if reference else None
        scores = scores_of(cell, digest, value or default_value, count=nfe or default_nfe)
        write_scores(
            score_path(workdir, cell), CellScores(cell, digests[cell.fingerprint], digest, scores)
        )
    return workdir


def counted(manifest, launches):
    for entry in manifest["files"].values():
        entry["launches"] = launches
    manifest["measured"]["launches"] = launches


def scores_of(cell, reference, value, count):
    found = {}
    for name, (unit, direction, settings, _) in METRICS.items():
        if name == "mauve" and reference is None:
            continue
        signature = f"{name}|{settings}|n:{ROWS}|ref:{(reference or '')[:8]}|v:0.1.0"
        found[name] = Score(value(name, cell), 0.01, ROWS, unit, direction, signature)
    if cell.role == "generated":
        forwards = [count(cell, row) for row in range(ROWS)]
        found["nfe_mean"] = Score(float(np.mean(forwards)), 0.1, ROWS, "", None, "nfe_mean|n:8")
        found["launches"] = Score(float(max(forwards)), None, ROWS, "", None, "launches|n:8")
    found["acceptance"] = Score(1.0, 0.0, ROWS, "fraction", "up", "acceptance|n:8")
    return found


def default_nfe(cell, row):
    return 8 if cell.strategy == "none" else 13 + row % 3


def default_value(name, cell):
    """Metrics that differ between arms by an amount that the seed moves a little."""
    rng = np.random.default_rng([cell.seed, len(name)])
    shift = 0.0 if cell.strategy in ("none", "reference") else -0.1 - 0.05 * rng.random()
    return METRICS[name][3] + 0.1 * rng.random() + shift


def manifest_path(workdir, cell):
    return bank_path(workdir, cell) / "manifest.json"


def edit(path, change):
    """Changes a JSON file in place: `change` alters the object that it is given.

    A seal is renewed, so that what notices the edit is not the seal.
    """
    record = read_json(path)
    change(record)
    write_json(path, sealed(record) if "sha256" in record else record)


def drop_from_plan(workdir, unwanted):
    """Takes cells out of a plan, as if they had never been planned."""
    plan = read_plan(workdir)
    kept = tuple(cell for cell in plan.cells if not unwanted(cell))
    record = dataclasses.replace(plan, cells=kept).record()
    (workdir / PLAN).write_text(json.dumps(record), encoding="utf-8")


if __name__ == "__main__":
    import pathlib

    write_run(pathlib.Path(sys.argv[1]))
