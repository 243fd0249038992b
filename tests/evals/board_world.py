"""Runs and submissions for tests of the leaderboard: written, not drawn.

Run as a script it writes a whole board's inputs: python tests/evals/board_world.py FOLDER
"""

import json
import pathlib
import sys

import numpy as np
import written_run as made

from dlmeval import __version__
from dlmeval.evals import leaderboard as boards
from dlmeval.evals.workdir.plan import read_plan
from dlmeval.evals.workdir.sample_stage import bank_path

LLADA = "hf:GSAI-ML/LLaDA-8B-Base@0f2787f2d87eac5eed8a087d5ecd24277e6255b2"
MOE = "hf:inclusionAI/LLaDA-MoE-7B-A1B-Base@" + "0" * 40
RUNS = ("best", "near", "far", "edited", "dream")
PAIR = [("none", 0.25), ("high_entropy", 0.25)]
HOSTILE = "<script>alert('x')</script> & \"quotes\" | a_b $5"


def quality(levels):
    """MAUVE of each arm: {(strategy, temperature): one value a seed}; other metrics as usual."""

    def value(name, cell):
        values = levels.get((cell.strategy, cell.unmask_temp))
        if name != "mauve" or values is None:
            return made.default_value(name, cell)
        return values[cell.seed - 1]

    return value


def write_model(folder, source, digit, levels=None, **changes):
    """A run of one model that meets all seven points.

    Args:
        source: what its manifests call the model.
        digit: makes up the digest of its weights.
        levels: see `quality`.
        **changes: of `written_run.cells`.
    """
    changes = {"model": source, "model_digest": digit * 64} | changes
    return made.write_run(folder, made.cells(**changes), value=quality(levels or {}))


def edit_text(workdir):
    """Changes one sample of a run without remasking, and nothing else; returns its bank."""
    cells = read_plan(workdir).cells
    bank = bank_path(
        workdir, next(c for c in cells if (c.strategy, c.unmask_temp) == ("none", 0.5))
    )
    shard = next(bank.glob("samples-*.jsonl"))
    first, *others = shard.read_text(encoding="utf-8").splitlines(keepends=True)
    row = json.loads(first)
    shard.write_text("".join([json.dumps(row | {"text": row["text"] + "!"}) + "\n", *others]))
    return bank


def submission(name="another-8b", mauve=0.9, **settings):
    """A valid file of one self-reported row; settings are those of `written_run`."""
    stated = {
        "gen_length": 16,
        "prefix_length": None,
        "num_steps": 8,
        "num_samples": made.ROWS,
        "reference": "toy:heldout",
        "reference_digest": made.sources().corpus("toy:heldout").digest,
        "scorer": "toy",
        "scorer_digest": made.DIGEST,
        "ascii_min": 0.85,
        "cjk_max": 0.02,
        "dlmeval": __version__,
    }
    drawn = np.array([-0.01, 0.0, 0.01])

    def arm(strategy, temp, level, nfe):
        return {
            "strategy": strategy,
            "unmask_temp": temp,
            "mauve": list(level + drawn),
            "perplexity": [20.0, 21.0, 22.0],
            "self_bleu": [0.3, 0.3, 0.31],
            "distinct_3": [0.7, 0.7, 0.71],
            "nfe": [nfe] * 3,
            "acceptance": [1.0, 1.0, 0.99],
        }

    row = {
        "model": {"name": name, "source": "hf:someone/another-8b", "params_total": 8 * 10**9},
        "settings": stated | settings,
        "seeds": [1, 2, 3],
        "arms": {
            "cold": arm("none", 0, mauve - 0.2, 8.0),
            "baseline": arm("none", 0.25, mauve, 8.0),
            "strategy": arm("high_entropy", 0.25, mauve - 0.1, 14.0),
        },
        "command": "theirs.py --all",
        "url": "https://example.org/ours",
    }
    return {"format": "dlmeval-leaderboard-1", "rows": [row]}


def write_world(folder):
    """Runs "best", "near", "far", "edited" and "dream", and "theirs.json"; returns their paths."""
    near = {("none", 0.25): (0.81, 0.78, 0.80), ("high_entropy", 0.25): (0.6, 0.61, 0.63)}
    best = {("none", 0.25): (0.80, 0.82, 0.81), ("high_entropy", 0.25): (0.5, 0.55, 0.52)}
    far = {("none", 0.25): (0.4, 0.41, 0.42)}
    paths = {
        "best": write_model(folder / "best", LLADA, "1", best),
        "near": write_model(folder / "near", MOE, "2", near),
        "far": write_model(folder / "far", "models/far", "3", far),
        "edited": write_model(folder / "edited", "models/edited", "4"),
        "dream": write_model(
            folder / "dream",
            "hf:Dream-org/Dream-v0-Base-7B@" + "0" * 40,
            "5",
            arms=[(s, t) for s in ("origin", "entropy") for t in (0.0, 0.1)],
            seeds=(1, 2),
        ),
        "theirs": folder / "theirs.json",
    }
    edit_text(paths["edited"])
    paths["theirs"].write_text(json.dumps(submission(name=HOSTILE[:80])), encoding="utf-8")
    return paths


def settings(paths, runs=RUNS, submissions=("theirs",), **changes):
    """Of a board of some of the inputs of `write_world`."""
    return boards.Settings(
        workdirs=tuple(str(paths[name]) for name in runs),
        submissions=tuple(str(paths[name]) for name in submissions),
        **changes,
    )


def row_of(board, name):
    return board.rows[board.names.index(name)]


def row_from(board, path):
    return next(row for row in board.rows if row.origin == str(path))


def more_steps(num_steps, **changes):
    """Generated cells of a pair of arms at another budget."""
    cells = made.cells(PAIR, num_steps=num_steps, **changes)
    return [cell for cell in cells if cell.role == "generated"]


if __name__ == "__main__":
    write_world(pathlib.Path(sys.argv[1]))
