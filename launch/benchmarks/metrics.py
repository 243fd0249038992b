"""The metrics: beside their peers where there is one, in seconds where there is none."""

import contextlib
import importlib
import os
import pathlib
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from dlmeval.launch.benchmarks.timing import (
    PeakMemory,
    Row,
    cpu_note,
    interleave,
    median_ratio,
)
from dlmeval.metrics import (
    energy_distance,
    entropies,
    frechet_distance,
    jeffreys_coding_divergence,
    mauve,
    self_bleu,
)

VOCABULARY = 50_257
NOT_INSTALLED = "{} is not installed: pip install 'dlmeval[bench]'"

IMPORT = """
from time import perf_counter, process_time
clocks = [(perf_counter(), process_time())]
import jax
clocks.append((perf_counter(), process_time()))
import dlmeval.metrics
clocks.append((perf_counter(), process_time()))
for before, after in zip(clocks, clocks[1:]):
    print(after[0] - before[0], after[1] - before[1])
"""


class Sizes(NamedTuple):
    rows: int  # of every bank
    width: int  # of feature vectors
    length: int  # tokens a row
    document: int  # bytes a document


FULL = Sizes(rows=1024, width=1280, length=1024, document=4600)
SMALL = Sizes(rows=48, width=24, length=32, document=200)


def run(repeats: int, small: bool) -> Iterator[Row]:
    """All rows of the suite; `small` shrinks every size."""
    sizes = SMALL if small else FULL
    jax.devices()  # the start of the backend belongs to no metric
    yield import_time(repeats)
    reference, generated = features(sizes)
    yield mauve_against_mauve_text(reference, generated, repeats)
    yield energy_against_cdist(reference, generated, repeats)
    yield frechet_against_sqrtm(reference, generated, repeats)
    ids = tokens(sizes)
    yield entropies_alone(ids, repeats)
    yield coding_divergence_alone(sizes, repeats)
    # Last: what fast-bleu leaves on the heap would hide the memory of what follows.
    yield from self_bleu_against_fast_bleu(ids, repeats)


def features(sizes: Sizes) -> tuple[np.ndarray, np.ndarray]:
    """Two banks like an encoder's: an offset, few strong directions, a long tail of weak ones."""
    rng = np.random.default_rng(0)
    n, d = sizes.rows, sizes.width
    rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
    scales = np.arange(1, d + 1) ** -0.6
    banks = [((rng.normal(size=(n, d)) + shift) * scales) @ rotation + 0.1 for shift in (0.0, 0.1)]
    return banks[0].astype(np.float32), banks[1].astype(np.float32)


def tokens(sizes: Sizes) -> np.ndarray:
    """Int32["n t"] Zipf ids with 40 phrases of five tokens planted in every row."""
    rng = np.random.default_rng(1)
    n, length = sizes.rows, sizes.length
    law = np.cumsum(1 / np.arange(1, VOCABULARY + 1))
    law /= law[-1]

    def zipf(*shape):
        return np.searchsorted(law, rng.random(shape)).astype(np.int32)

    ids, phrases = zipf(n, length), zipf(2000, 5)
    for row in ids:
        starts = rng.integers(0, length - 5, 40)
        chosen = phrases[rng.integers(0, len(phrases), 40)]
        row[starts[:, None] + np.arange(5)] = chosen
    return ids


def documents(sizes: Sizes, seed: int) -> list[bytes]:
    """Byte strings of exactly the given size: Zipf words of letters as frequent as in English."""
    rng = np.random.default_rng(2)
    letters = np.frombuffer(b"etaoinshrdlucmfwypvbgkjqxz", np.uint8)
    share = np.array([12.7, 9.1, 8.2, 7.5, 7.0, 6.7, 6.3, 6.1, 6.0, 4.3, 4.0, 2.8, 2.8])
    share = np.concatenate([share, np.linspace(2.6, 0.1, 13)])
    words = [
        bytes(rng.choice(letters, size, p=share / share.sum()))
        for size in rng.integers(1, 10, 10_000)
    ]
    draw = np.random.default_rng(seed)
    law = np.cumsum(1 / np.arange(1, len(words) + 1))

    def document():
        chosen = np.searchsorted(law / law[-1], draw.random(sizes.document // 2 + 1))
        return b" ".join(words[i] for i in chosen)[: sizes.document]

    return [document() for _ in range(sizes.rows)]


def import_time(repeats: int) -> Row:
    """`import dlmeval.metrics` after `import jax`, each time in a new process."""
    seconds = []
    for _ in range(1 + repeats):  # the first fills the caches of the file system
        done = subprocess.run(
            [sys.executable, "-c", IMPORT], check=True, capture_output=True, text=True
        )
        seconds.append([float(part) for part in done.stdout.split()])
    framework, framework_cpu, ours, ours_cpu = np.median(seconds[1:], axis=0)
    return Row(
        name="import dlmeval.metrics, after import jax",
        unit="s",
        ours=float(ours),
        peer=float(framework),
        ratio=float(ours),
        target="<= 0.3",
        note=f"seconds over import jax (peer), fresh processes; {ours_cpu:.2g} over "
        f"{framework_cpu:.2g} CPU seconds",
    )


def mauve_against_mauve_text(reference: np.ndarray, generated: np.ndarray, repeats: int) -> Row:
    def ours():
        return float(mauve(reference, generated, seeds=range(10)).value)

    def theirs(package):
        # faiss warns of few points a centroid on the C level, out of reach of `warnings`.
        with _silent_stderr():
            result = package.compute_mauve(
                p_features=reference, q_features=generated, verbose=False
            )
        return float(result.mauve)

    return _against(
        f"MAUVE from features {_shape(reference)}, ten seeds over one seed of mauve-text",
        ours,
        ("mauve", theirs, "mauve-text"),
        repeats,
        target="<= 1",
        ours_first=True,
    )


def energy_against_cdist(reference: np.ndarray, generated: np.ndarray, repeats: int) -> Row:
    def theirs(distance):
        across, x, y = (
            distance.cdist(*pair).mean()
            for pair in (
                (reference, generated),
                (reference, reference),
                (generated, generated),
            )
        )
        return float(2 * across - x - y)

    return _against(
        f"energy distance {_shape(reference)}, scipy cdist over ours",
        lambda: float(energy_distance(reference, generated)),
        ("scipy.spatial.distance", theirs, "scipy"),
        repeats,
        target=">= 12",
    )


def frechet_against_sqrtm(reference: np.ndarray, generated: np.ndarray, repeats: int) -> Row:
    def theirs(linalg):
        first, second = (np.cov(bank, rowvar=False) for bank in (reference, generated))
        gap = reference.mean(axis=0) - generated.mean(axis=0)
        root = np.asarray(linalg.sqrtm(first @ second))
        return float(gap @ gap + np.trace(first + second) - 2 * np.trace(root).real)

    return _against(
        f"Fréchet distance {_shape(reference)}, scipy sqrtm over ours",
        lambda: float(frechet_distance(reference, generated)),
        ("scipy.linalg", theirs, "scipy"),
        repeats,
        target=">= 8",
    )


def entropies_alone(ids: np.ndarray, repeats: int) -> Row:
    return _alone(
        f"entropies of {_shape(ids)} ids",
        lambda: float(jax.block_until_ready(entropies(ids)).uni),
        repeats,
        target="<= 0.3",
    )


def self_bleu_against_fast_bleu(ids: np.ndarray, repeats: int) -> Iterator[Row]:
    """In seconds, and beside fast-bleu, whose slow runs are timed without one to warm up."""

    def ours():
        return float(self_bleu(ids).mean())

    def theirs(package):
        scores = package.SelfBLEU(words, {4: (0.25,) * 4}).get_score()[4]
        return float(np.mean(scores))

    words = [[str(token) for token in row] for row in ids]
    yield _alone(f"Self-BLEU-4 of {_shape(ids)} ids", ours, repeats, target="<= 3")
    yield _against(
        f"Self-BLEU-4 of {_shape(ids)} ids, fast-bleu over ours",
        ours,
        ("fast_bleu", theirs, "fast-bleu"),
        repeats,
        target=">= 15",
        warm=False,
    )


def coding_divergence_alone(sizes: Sizes, repeats: int) -> Row:
    banks = documents(sizes, 3), documents(sizes, 4)
    return _alone(
        f"JCD of two banks of {sizes.rows:,} documents of {sizes.document / 1000:.1f} KB",
        lambda: float(jeffreys_coding_divergence(*banks).value),
        repeats,
        target="<= 3",
    )


def _against(
    name: str,
    ours: Callable[[], float],
    peer: tuple[str, Callable[[Any], float], str],
    repeats: int,
    *,
    target: str,
    ours_first: bool = False,
    warm: bool = True,
) -> Row:
    """A row of two sides; the ratio is peer / ours, or ours / peer if `ours_first`.

    `peer` is (module, call of that module, name of the package); `warm=False` spares the peer
    the run that is not counted.
    """
    module, call, package = peer
    value, first = _first_call(ours)
    values: list[float] = []
    watched = {"ours": PeakMemory(ours)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.split(".")[0]:
            raise
        loaded = None
    else:
        watched["peer"] = PeakMemory(lambda: values.append(call(loaded)))
    seconds = interleave(watched, repeats, ready=() if warm else ("ours", "peer"))
    row = Row(
        name=name,
        unit="s",
        ours=float(np.median(seconds["ours"].wall)),
        peer=None,
        ratio=None,
        target=target,
        note=NOT_INSTALLED.format(package),
        ours_peak=watched["ours"].mib,
    )
    if loaded is None:
        return row
    sides = seconds["peer"], seconds["ours"]
    upper, lower = sides[::-1] if ours_first else sides
    return row._replace(
        peer=float(np.median(seconds["peer"].wall)),
        ratio=median_ratio(upper.wall, lower.wall),
        note=f"{cpu_note(upper, lower)}; values {value:.6g} and {values[-1]:.6g}; "
        f"first call {first:.2g} s",
        peer_peak=watched["peer"].mib,
    )


def _alone(name: str, ours: Callable[[], float], repeats: int, *, target: str) -> Row:
    """A row whose target is a number of seconds: they stand as the ratio, too."""
    value, first = _first_call(ours)
    watched = PeakMemory(ours)
    seconds = interleave({"ours": watched}, repeats, ready=("ours",))["ours"]
    median = float(np.median(seconds.wall))
    return Row(
        name=name,
        unit="s",
        ours=median,
        peer=None,
        ratio=median,
        target=target,
        note=f"seconds; {np.median(seconds.cpu):.3g} CPU seconds; value {value:.6g}; "
        f"first call {first:.2g} s",
        ours_peak=watched.mib,
    )


def _first_call(call: Callable[[], float]) -> tuple[float, float]:
    """Value and seconds of a first call, compilation included."""
    start = time.perf_counter()
    return call(), time.perf_counter() - start


def _shape(array: np.ndarray) -> str:
    return " x ".join(f"{size:,}" for size in array.shape)


@contextlib.contextmanager
def _silent_stderr() -> Iterator[None]:
    sys.stderr.flush()
    kept = os.dup(2)
    with pathlib.Path(os.devnull).open("w") as sink:
        os.dup2(sink.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
