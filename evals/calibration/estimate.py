"""What a calibration will make and cost, before anything is made."""

from collections import Counter

from ..sources import Sources
from .settings import Settings
from .study import GRADIENTS, Calibration

# Bytes on disk of a character and of a row's features; seconds on two cores, as measured.
_CHARACTER_BYTES, _ROW_BYTES, _GRADIENT_BYTES = 8, 1400, 8192
_ROW_SECONDS, _GRADIENT_SECONDS, _DRAW_SECONDS = 0.004, 0.027, 0.002


def estimate_lines(calibration: Calibration, config: Settings, sources: Sources) -> list[str]:
    """Pools, banks, files needed, disk and time."""
    rows = sum(map(calibration.num_rows, calibration.drawn_laws))
    banks = Counter()
    for step in calibration.steps:
        banks.update(calibration.draws(step))
    gradients = GRADIENTS in config.chosen
    size = rows * (_ROW_BYTES + _GRADIENT_BYTES * gradients + _CHARACTER_BYTES * config.length)
    seconds = rows * (_ROW_SECONDS + _GRADIENT_SECONDS * gradients)
    seconds += sum(_DRAW_SECONDS * len(config.chosen) * n**0.5 * k for n, k in banks.items())
    counts = ", ".join(f"{count} of {rows} rows" for rows, count in sorted(banks.items()))
    return [
        f"laws: {len(calibration.steps)}, in pools of {rows} rows in all",
        f"banks: {counts}, each scored by {len(config.chosen)} measures",
        "",
        "files needed:",
        *(f"  {config.scorer}: {file}" for file in sources.scorer(config.scorer).card.digests),
        f"  corpus kjv:train ({len(sources.corpus('kjv:train').documents)} documents)",
        "",
        f"disk: about {size / 1e6:.0f} MB",
        f"time: about {seconds / 60:.0f} min on two cores",
    ]
