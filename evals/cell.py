"""A cell: everything that decides the bytes of one bank of samples."""

import dataclasses
from typing import Any

from .canonical import content_digest
from .errors import InputError

# What a bank is for. "trajectory" banks carry a history and are looked at, not scored.
ROLES = ("generated", "autoregressive", "heuristic", "reference", "trajectory")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """One arm at one seed; equal cells hold equal samples.

    Fields that a sampler reads carry the names of `SamplerConfig`; None means that the arm has no
    such setting. Sources are named and digested, so changed weights or text change the cell.

    Attributes:
        role: one of `ROLES`.
        strategy: a remasking strategy, a naive sampler, "autoregressive" or "reference".
        gen_length: tokens a sample.
        num_samples: rows of the bank.
        seed: root of every key and draw.
        model, model_digest: source of the network and the digest of its files; for heuristic and
            reference arms, of the network whose tokenizer gives the ids.
        corpus, corpus_digest: source of the text that naive samplers count or windows come from.
        size: k or m of a naive sampler.
        part: reference arms only; 0 is the bank that others are scored against, 1 and up are
            null draws that show what the same law scores.
        offset: reference arms only; the first of its windows in the shuffled list of all windows.
        ascii_min, cjk_max: bounds of the language filter.
    """

    role: str
    strategy: str
    gen_length: int
    num_samples: int
    seed: int
    model: str | None = None
    model_digest: str | None = None
    corpus: str | None = None
    corpus_digest: str | None = None
    num_steps: int | None = None
    unmask_temp: float | None = None
    block_length: int | None = None
    remask_fraction: float | None = None
    pace: str | None = None
    pool: str | None = None
    noise: str | None = None
    cfg_scale: float | None = None
    suppress_mask_token: bool | None = None
    refresh_reuse: bool | None = None
    skip_idle: bool | None = None
    loop: str | None = None
    eos_policy: str | None = None
    confidence: str | None = None
    schedule: str | None = None
    threshold: float | None = None
    token_temp: float | None = None
    alg_temp: float | None = None
    eta: float | None = None
    t_on: float | None = None
    t_off: float | None = None
    alpha_on: float | None = None
    nucleus_p: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    record_history: bool | None = None
    size: int | None = None
    part: int | None = None
    offset: int | None = None
    ascii_min: float = 0.85
    cjk_max: float = 0.02

    def __post_init__(self):
        if self.role not in ROLES:
            raise InputError(f"role is {self.role!r}; accepted: {', '.join(ROLES)}")
        for name in ("gen_length", "num_samples"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it must be at least 1")

    @property
    def fingerprint(self) -> str:
        """sha256 of the canonical JSON of all fields; the name of the bank."""
        return content_digest(dataclasses.asdict(self))

    @property
    def arm(self) -> str:
        """A label shared by the seeds of one arm, such as "high_entropy t=0.25 N=64"."""
        parts = [self.strategy]
        if self.role == "reference" and self.part:
            parts = ["null"]
        if self.size is not None:
            parts.append(str(self.size))
        if self.unmask_temp is not None:
            parts.append(f"t={self.unmask_temp:g}")
        if self.num_steps is not None:
            parts.append(f"N={self.num_steps}")
        return " ".join(parts)

    @property
    def group(self) -> str:
        """A digest of the fields that seeds of one arm share: two cells of a group may be averaged.

        Seed, null part and window offset say which draw of the law a bank is, not which law.
        """
        fields = dataclasses.asdict(self)
        part = fields.pop("part")
        del fields["seed"], fields["offset"]
        return content_digest(fields | {"null": bool(part)})


def cell_from_dict(fields: dict[str, Any]) -> Cell:
    """Reads a cell back from a plan or a manifest.

    Raises:
        InputError: a field is missing or unknown, as in a file of another version.
    """
    known = {field.name for field in dataclasses.fields(Cell)}
    unknown = sorted(set(fields) - known)
    missing = sorted(known - set(fields))
    if unknown or missing:
        raise InputError(
            f"cell has unknown fields {unknown} and lacks {missing}; it comes from another version"
        )
    return Cell(**fields)
