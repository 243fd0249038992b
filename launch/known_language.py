"""Measures every sampler against a language whose every probability is known.

    python launch/known_language.py --out=runs/known-language
    python launch/known_language.py --strategies=none,random --order=2 --num_steps=6,12

The network is exact, so the errors are those of the samplers. Writes `exact.csv` (strategy "none"
by enumeration), `measured.csv` (all strategies, by sampling) and `tables.md` with both. Exit
codes: 0 done, 2 for flags that have to be changed (one line on stderr says what).
"""

import csv
import pathlib
import sys
from collections.abc import Iterator, Sequence

import numpy as np
from absl import app, flags, logging

from dlmeval.evals.sampling.exact_law import language_law, sampler_law
from dlmeval.evals.sampling.sampler_error import (
    SamplerError,
    error_table,
    random_language,
    total_variation,
)
from dlmeval.models import MarkovOracle
from dlmeval.samplers import SamplerConfig, get_strategy, strategy_names

FLAGS = flags.FLAGS
flags.DEFINE_string("out", "runs/known-language", "Folder of the tables; made if missing.")
flags.DEFINE_list("strategies", None, "Strategies to measure; default: all.")
flags.DEFINE_integer("order", 1, "Tokens that the next one depends on: 1 or 2.")
flags.DEFINE_integer("num_ids", 3, "Tokens of the language.")
flags.DEFINE_float("concentration", 0.7, "Of the Dirichlet law of its rows; small is peaked.")
flags.DEFINE_integer("language_seed", 1, "Seed of the language.")
flags.DEFINE_integer("gen_length", 6, "Tokens a string.")
flags.DEFINE_list("num_steps", ["3", "6", "24", "48"], "Nominal steps.")
flags.DEFINE_float("unmask_temp", 1.0, "Temperature of the token draws.")
flags.DEFINE_float("remask_fraction", 0.2, "Share of the string that a strategy may remask.")
flags.DEFINE_integer("num_samples", 1 << 12, "Samples at a seed.")
flags.DEFINE_list("seeds", ["0", "1", "2", "3"], "Seeds of the samples.")

_EXACT_HEADS = ("order of reveals", "block_length", "num_steps", "tv", "surprisal")
_MEASURED_HEADS = (
    "strategy",
    "kind",
    "network",
    "num_steps",
    "nfe",
    "tv",
    "floor",
    "excess",
    "excess_stderr",
    "surprisal",
    "surprisal_stderr",
    "g",
    "df",
    "p",
    "num_samples",
)


def main(argv: Sequence[str]) -> int:
    """Measures, prints the tables and writes them; returns the exit code."""
    logging.set_verbosity(logging.WARNING)
    if len(argv) > 1:
        print(f"known_language.py: unexpected argument {argv[1]!r}", file=sys.stderr)
        return 2
    output = pathlib.Path(FLAGS.out)
    if (output / "measured.csv").exists():
        print(
            f"known_language.py: --out={output} already holds tables; choose another folder",
            file=sys.stderr,
        )
        return 2
    try:
        names = FLAGS.strategies or list(strategy_names())
        for name in names:
            get_strategy(name)
        num_steps, seeds = _whole("num_steps"), _whole("seeds")
        oracle = random_language(
            FLAGS.num_ids,
            order=FLAGS.order,
            concentration=FLAGS.concentration,
            seed=FLAGS.language_seed,
        )
        exact = list(exact_rows(oracle, num_steps))
        measured = []
        for name in names:
            rows = error_table(
                oracle,
                gen_length=FLAGS.gen_length,
                num_steps=num_steps,
                strategies=[name],
                unmask_temp=FLAGS.unmask_temp,
                remask_fraction=FLAGS.remask_fraction,
                num_samples=FLAGS.num_samples,
                seeds=seeds,
            )
            for row in rows:
                measured.append(row)
                print(
                    f"{row.strategy} ({row.network}) steps {row.num_steps}: excess "
                    f"{row.excess:.4f} ± {row.excess_stderr:.4f}",
                    flush=True,
                )
    except ValueError as error:
        print(f"known_language.py: {error}", file=sys.stderr)
        return 2
    output.mkdir(parents=True, exist_ok=True)
    _write_csv(output / "exact.csv", _EXACT_HEADS, exact)
    _write_csv(output / "measured.csv", _MEASURED_HEADS, [_flat(row) for row in measured])
    page = tables(oracle, exact, measured)
    (output / "tables.md").write_text(page, encoding="utf-8")
    print(page)
    return 0


def exact_rows(oracle: MarkovOracle, num_steps: Sequence[int]) -> Iterator[tuple]:
    """Rows of the exact table: strategy "none" by what orders its reveals.

    Steps beyond one a token change nothing and are left out.
    """
    length = FLAGS.gen_length
    law = language_law(oracle, length)
    possible = law > 0
    steps = sorted({min(n, length) for n in num_steps})
    settings = [(kind, None) for kind in ("probability", "entropy", "margin")]
    for kind, block_length in [*settings, ("probability", 1)]:
        for n in [length] if block_length else steps:
            config = SamplerConfig(
                length, n, "none", FLAGS.unmask_temp, confidence=kind, block_length=block_length
            )
            written = sampler_law(oracle, config)
            change = (law - written)[possible] @ np.log(law[possible]) / length
            surprisal = change if not (written[~possible] > 0).any() else np.inf
            yield kind, block_length or length, n, total_variation(written, law), surprisal


def tables(oracle: MarkovOracle, exact: Sequence[tuple], measured: Sequence[SamplerError]) -> str:
    """Both tables in Markdown, with the language they belong to."""
    length = FLAGS.gen_length
    lines = [
        f"Language: order {oracle.order}, {oracle.num_ids} ids, strings of {length} tokens, "
        f"entropy {oracle.entropy(length) / length:.4f} nats per token, entropy rate "
        f"{oracle.entropy_rate:.4f}; tokens drawn at temperature {FLAGS.unmask_temp:g}.",
        "",
        "Strategy `none` by enumeration:",
        "",
        "| revealed first | block | steps | TV | surprisal |",
        "| :--- | ---: | ---: | ---: | ---: |",
    ]
    what = {
        "probability": "most probable drawn token",
        "entropy": "position of least entropy",
        "margin": "position of largest margin",
    }
    for kind, block, n, tv, surprisal in exact:
        lines.append(f"| {what[kind]} | {block} | {n} | {tv:.4f} | {surprisal:+.4f} |")
    steps = sorted({row.num_steps for row in measured})
    titles = [f"TV, {n} steps" for n in steps]
    last = ["surprisal", "NFE", "p"]
    lines += [
        "",
        f"All strategies, {measured[0].num_samples:,} samples each; samples of the language itself "
        f"would be at {measured[0].floor:.4f}. The last columns are those of {steps[-1]} steps.",
        "",
        "| " + " | ".join(["strategy", "kind", "network", *titles, *last]) + " |",
        "| :--- | :--- | :--- |" + " ---: |" * (len(steps) + len(last)),
    ]
    for group in _groups(measured):
        end = group[-1]
        distances = [f"{row.tv:.3f} ± {row.excess_stderr:.3f}" for row in group]
        surprisal = f"{end.surprisal:+.3f} ± {end.surprisal_stderr:.3f}"
        cells = [f"`{end.strategy}`", end.kind, end.network, *distances, surprisal]
        lines.append("| " + " | ".join([*cells, f"{end.nfe:.2f}", _p(end.test.p)]) + " |")
    return "\n".join(lines) + "\n"


def _groups(measured: Sequence[SamplerError]) -> list[list[SamplerError]]:
    """The rows of a strategy and network by rising steps.

    One group where what the network says of decided tokens made no difference at all.
    """
    groups: dict[tuple[str, str], list[SamplerError]] = {}
    for row in sorted(measured, key=lambda row: row.num_steps):
        groups.setdefault((row.strategy, row.network), []).append(row)
    merged = []
    for strategy, network in dict.fromkeys((row.strategy, row.network) for row in measured):
        group = groups[strategy, network]
        other = groups.get((strategy, "judge" if network == "copy" else "copy"))
        if other is not None and other == [row._replace(network=other[0].network) for row in group]:
            if network == "judge":
                continue
            group = [row._replace(network="either") for row in group]
        merged.append(group)
    return merged


def _p(value: float) -> str:
    return "< 1e-6" if value < 1e-6 else f"{value:.2g}"


def _whole(name: str) -> list[int]:
    values: list[str] = list(FLAGS[name].value or ())
    if not values:
        raise ValueError(f"--{name} is empty; give at least one whole number")
    try:
        return [int(value) for value in values]
    except ValueError:
        raise ValueError(f"--{name}={','.join(values)}: expected whole numbers") from None


def _flat(row: SamplerError) -> tuple:
    values = row._asdict()
    test = values.pop("test")
    values |= {"g": test.statistic, "df": test.df, "p": test.p}
    return tuple(values[name] for name in _MEASURED_HEADS)


def _write_csv(path: pathlib.Path, heads: Sequence[str], rows: Sequence[tuple]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(heads)
        writer.writerows(rows)


if __name__ == "__main__":
    app.run(main)
