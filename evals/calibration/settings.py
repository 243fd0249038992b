"""What a calibration measures, as flags."""

import dataclasses

from ..errors import InputError
from ..experiment import option
from .ladders import SHUFFLED
from .measures import MEASURES
from .power import LEAST_CLEAN

LONGEST = 1024  # characters a row, since a character can be a token


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the calibration; every field is a flag."""

    length: int = option(64, "Characters a row.")
    sizes: tuple[int, ...] = option((128, 1024), "Rows of a bank; power is measured at each.")
    draws: tuple[int, ...] = option((16, 5), "Damaged banks a level, one number for each size.")
    clean_draws: tuple[int, ...] = option(
        (LEAST_CLEAN, LEAST_CLEAN), f"Clean banks, for each size; at least {LEAST_CLEAN}."
    )
    bias_sizes: tuple[int, ...] = option((256, 512), "Further sizes of clean banks, for the bias.")
    bias_draws: int = option(10, "Clean banks at each of bias_sizes.")
    pool_rows: int = option(2048, "Rows scored of a damaged law.")
    clean_rows: int = option(5120, "Rows of the language scored for clean banks.")
    reference_rows: int = option(2048, "Rows of the language scored for reference banks.")
    truth_rows: int = option(1000, "Rows a side where a true divergence is sampled.")
    measures: tuple[str, ...] = option((), "Metrics to calibrate; none named are all.")
    scorer: str = option("embedded:kjv-scorer", "Causal model of the features and of gen-PPL.")
    seed: int = option(0, "Seed of all draws.")

    def __post_init__(self):
        if not self.sizes:
            raise InputError("--sizes is empty; give at least one number of rows")
        for name in ("draws", "clean_draws"):
            if len(getattr(self, name)) != len(self.sizes):
                raise InputError(
                    f"--{name}={getattr(self, name)} must have a value for each of "
                    f"--sizes={self.sizes}"
                )
        least_of = dict.fromkeys(("bias_draws", "pool_rows", "reference_rows", "clean_rows"), 1)
        least_of |= {"length": 2 * SHUFFLED, "truth_rows": 2, "seed": 0}
        for name, least in least_of.items():
            if getattr(self, name) < least:
                raise InputError(f"--{name}={getattr(self, name)} must be at least {least}")
        if self.length % SHUFFLED or self.length > LONGEST:
            raise InputError(
                f"--length={self.length} must be a multiple of {SHUFFLED}, the characters that "
                f"are shuffled together, and at most {LONGEST}"
            )
        for name in ("sizes", "bias_sizes"):
            if len(set(getattr(self, name))) < len(getattr(self, name)):
                raise InputError(f"--{name}={getattr(self, name)} repeats a size; give each once")
        for name, least in (("sizes", 8), ("bias_sizes", 8), ("draws", 1)):
            if min(getattr(self, name), default=least) < least:
                raise InputError(f"--{name}={getattr(self, name)} must be at least {least} each")
        if min(self.clean_draws) < LEAST_CLEAN:
            raise InputError(
                f"--clean_draws={self.clean_draws} must be at least {LEAST_CLEAN} each: a clean "
                "bank leaves the band of fewer more often than in 5% of cases"
            )
        unknown = sorted(set(self.measures) - set(MEASURES))
        if unknown:
            raise InputError(
                f"--measures={','.join(unknown)} is unknown; accepted: {', '.join(MEASURES)}"
            )
        most = max(*self.sizes, *self.bias_sizes, 0)
        for name in ("pool_rows", "clean_rows", "reference_rows"):
            if getattr(self, name) < most:
                raise InputError(
                    f"--{name}={getattr(self, name)} is less than the {most} rows of the largest "
                    "bank; raise it"
                )

    @property
    def chosen(self) -> tuple[str, ...]:
        """Keys of `MEASURES`, in its order."""
        return tuple(name for name in MEASURES if name in self.measures or not self.measures)
