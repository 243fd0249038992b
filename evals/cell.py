"""A cell: everything that decides the bytes of one bank of samples."""

import dataclasses
from collections.abc import Iterable
from typing import Any

from .canonical import content_digest
from .errors import InputError

# What a bank is for. "trajectory" banks carry a history and are looked at, not scored.
ROLES = ("generated", "autoregressive", "heuristic", "external", "reference", "trajectory")
# How `target_nfe` is met by an arm that saturates below it; see `matching.match_nfe`.
MATCH_MODES = ("cap", "idle", "length", "best_of")
# Fields that say which draw of its law a bank is, not which law.
_DRAW_FIELDS = ("seed", "part", "offset")
# Fields younger than the first banks: where they are None a cell is what it was without them.
_LATER_FIELDS = ("vocabulary", "prefix_length", "target_nfe", "match_mode")
# Keys hold 32 bits of a seed, so that larger ones repeat; the upper half is for pilots.
LARGEST_SEED = 2**31 - 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cell:
    """One arm at one seed; equal cells hold equal samples.

    Fields that a sampler reads carry the names of `SamplerConfig`; None means that the arm has no
    such setting. Sources are named and digested, so changed weights or text change the cell.

    Attributes:
        role: one of `ROLES`.
        strategy: a remasking strategy, a naive sampler, "autoregressive", "reference", or the name
            of whoever generated external texts.
        gen_length: tokens a sample.
        num_samples: rows of the bank.
        seed: root of every key and draw.
        model, model_digest: source of the network and the digest of its files; for heuristic,
            external and reference arms, of the network whose tokenizer gives the ids.
        vocabulary: for those arms, whether that network is a "denoiser" (None too) or a "scorer".
        corpus, corpus_digest: source of the text that naive samplers count, or that windows,
            prompts or external texts come from.
        prefix_length: tokens of real text that come before the generated ones: of each window of
            prefix_length + gen_length tokens, an arm is given the first and continues; the
            reference arm keeps the rest. None for unconditional arms.
        target_nfe, match_mode: forwards a sample that num_steps is searched for, and what an arm
            does that saturates below it; num_steps is None then.
        size: k or m of a naive sampler.
        part: reference arms only; 0 is the bank that others are scored against, 1 and up are
            null draws that show what the same law scores.
        offset: first of the cell's windows in the shuffled list of all windows, where it has any.
        ascii_min, cjk_max: bounds of the language filter.
    """

    role: str
    strategy: str
    gen_length: int
    num_samples: int
    seed: int
    model: str | None = None
    model_digest: str | None = None
    vocabulary: str | None = None
    corpus: str | None = None
    corpus_digest: str | None = None
    prefix_length: int | None = None
    num_steps: int | None = None
    target_nfe: int | None = None
    match_mode: str | None = None
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
        if not 0 <= self.seed <= LARGEST_SEED:
            raise InputError(
                f"seed is {self.seed}; accepted: 0 to {LARGEST_SEED}, as larger ones would repeat"
                " the draws of others"
            )
        if self.vocabulary not in (None, "denoiser", "scorer"):
            raise InputError(f"vocabulary is {self.vocabulary!r}; accepted: denoiser, scorer")
        if self.prefix_length is not None and self.prefix_length < 1:
            raise InputError(f"prefix_length is {self.prefix_length}; it must be at least 1")
        if self.target_nfe is not None and self.match_mode not in MATCH_MODES:
            accepted = ", ".join(MATCH_MODES)
            raise InputError(f"match_mode is {self.match_mode!r}; accepted: {accepted}")

    @property
    def fingerprint(self) -> str:
        """sha256 of the canonical JSON of all fields; the name of the bank."""
        fields = dataclasses.asdict(self)
        for name in _LATER_FIELDS:
            if fields[name] is None:
                del fields[name]
        return content_digest(fields)

    @property
    def arm(self) -> str:
        """A label shared by the seeds of one arm, such as "high_entropy t=0.25 N=64".

        Arms that it does not tell apart are told apart by `arm_labels`.
        """
        parts = [self.strategy]
        if self.role == "reference" and self.part:
            parts = ["null"]
        if self.size is not None:
            parts.append(str(self.size))
        if self.unmask_temp is not None:
            parts.append(f"t={self.unmask_temp:g}")
        if self.num_steps is not None:
            parts.append(f"N={self.num_steps}")
        if self.target_nfe is not None:
            parts.append(f"NFE={self.target_nfe} {self.match_mode}")
        return " ".join(parts)

    @property
    def group(self) -> str:
        """A digest of the fields that seeds of one arm share: two cells of a group may be averaged.

        Seed, null part and window offset say which draw of the law a bank is, not which law.
        """
        fields = dataclasses.asdict(self)
        null = bool(fields["part"])
        for name in _DRAW_FIELDS:
            del fields[name]
        return content_digest(fields | {"null": null})


def arm_labels(cells: Iterable[Cell]) -> dict[str, str]:
    """{fingerprint: label of its arm}: `Cell.arm`, and what else tells the arms of a plan apart.

    Cells of one `group` share a label. Where two groups would, the fields in which they differ are
    added, such as "high_entropy t=0.25 N=64 remask_fraction=0.3".
    """
    arms: dict[tuple[str, bool], dict[str, list[Cell]]] = {}
    for cell in cells:
        trajectory = cell.role == "trajectory"
        arms.setdefault((cell.arm, trajectory), {}).setdefault(cell.group, []).append(cell)
    labels = {}
    for (arm, _), groups in arms.items():
        fields = [dataclasses.asdict(members[0]) for members in groups.values()]
        differing = [
            name
            for name in fields[0]
            if name not in _DRAW_FIELDS and len({repr(one[name]) for one in fields}) > 1
        ]
        for members in groups.values():
            extra = [f"{name}={_shown(getattr(members[0], name))}" for name in differing]
            labels |= {cell.fingerprint: " ".join([arm, *extra]) for cell in members}
    return labels


def _shown(value: Any) -> str:
    """A value in a label; numbers that six digits do not tell apart are written in full."""
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return str(value).lower()


def cell_from_dict(fields: dict[str, Any]) -> Cell:
    """Reads a cell back from a plan or a manifest.

    Raises:
        InputError: a field is missing or unknown, as in a file of another version.
    """
    known = {field.name for field in dataclasses.fields(Cell)}
    unknown = sorted(set(fields) - known)
    missing = sorted(known - set(fields) - set(_LATER_FIELDS))
    if unknown or missing:
        raise InputError(
            f"cell has unknown fields {unknown} and lacks {missing}; it comes from another version"
        )
    return Cell(**fields)
