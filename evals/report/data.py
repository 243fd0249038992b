"""What a report shows, as frozen records: no files, no plotting, no HTML."""

import dataclasses
from collections.abc import Mapping

import numpy as np

from ..scoring.scores import Band, Score

# Roles of cells, in the order in which a table lists them.
ROLES = ("reference", "autoregressive", "generated", "external", "heuristic")
ROLE_NAMES = {
    "reference": "real text",
    "autoregressive": "AR model",
    "generated": "diffusion",
    "external": "external",
    "heuristic": "naive",
}
# What stands behind ± and error bars of arms (`mean_score`), for captions.
STDERR = "standard error, over seeds or of the banks themselves, whichever is larger"


def missing(reason: str) -> Score:
    """A number that could not be measured, with the reason shown in its place."""
    return Score(None, None, 0, "", None, "", reason)


@dataclasses.dataclass(frozen=True)
class Compute:
    """Network passes of an arm: counted forwards per sample (NFE) and batched launches."""

    nominal_steps: int | None
    nfe_mean: float
    nfe_min: int
    nfe_max: int
    launches: int | None
    n: int


@dataclasses.dataclass(frozen=True)
class Arm:
    """One row of the profile: cells that differ by their seed alone, taken together."""

    label: str
    role: str
    scores: Mapping[str, Score]
    fields: Mapping[str, object] = dataclasses.field(default_factory=dict)
    compute: Compute | None = None
    samples: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise ValueError(f"Arm {self.label!r}: role={self.role!r} is not one of {ROLES}")

    def score(self, metric: str) -> Score:
        """The number of a metric; a missing one says so rather than raising."""
        if metric in self.scores:
            return self.scores[metric]
        if self.role == "reference":
            return missing("the reference is not compared with itself; see the null band")
        return missing(f"{metric} was not computed for this arm")


@dataclasses.dataclass(frozen=True)
class Trajectory:
    """The unmasking of one sample: Int["steps length"] codes of `samplers.CELL_CLASSES`, and texts.

    `pieces[step][position]` is the token's text, None where the canvas is masked.
    """

    label: str
    classes: np.ndarray
    pieces: tuple[tuple[str | None, ...], ...]
    text: str

    def __post_init__(self) -> None:
        if self.classes.ndim != 2 or self.classes.size == 0:
            raise ValueError(
                f"Trajectory: classes has shape {self.classes.shape}; expected [steps, length]"
            )
        shape = (len(self.pieces), len(self.pieces[0]) if self.pieces else 0)
        if shape != self.classes.shape:
            raise ValueError(
                f"Trajectory: pieces has shape {shape}, classes has {self.classes.shape}"
            )


@dataclasses.dataclass(frozen=True)
class Bank:
    """Where one bank of samples came from."""

    label: str
    fingerprint: str
    digest: str
    n: int


@dataclasses.dataclass(frozen=True)
class Provenance:
    """What it takes to make the same report again."""

    command: str
    config: Mapping[str, object] = dataclasses.field(default_factory=dict)
    banks: tuple[Bank, ...] = ()
    models: Mapping[str, str] = dataclasses.field(default_factory=dict)
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    times: tuple[tuple[str, float, float], ...] = ()  # (stage, compile seconds, run seconds)
    machine: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class ReportData:
    """Everything a page draws on.

    `lead` says below the title what was run, `caveats` what it does not show; `null_band` is real
    text against real text.
    """

    title: str
    arms: tuple[Arm, ...]
    provenance: Provenance
    lead: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    null_band: Mapping[str, Band] = dataclasses.field(default_factory=dict)
    trajectories: tuple[Trajectory, ...] = ()

    def __post_init__(self) -> None:
        labels = [arm.label for arm in self.arms]
        doubled = sorted({label for label in labels if labels.count(label) > 1})
        if doubled:
            raise ValueError(f"ReportData: arm labels must be unique; repeated: {doubled}")

    def with_role(self, *roles: str) -> tuple[Arm, ...]:
        """The arms of the given roles, in order."""
        return tuple(arm for arm in self.arms if arm.role in roles)
