"""A row of the leaderboard: one model at one budget, as a run or its submitter says."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from ..protocol import ProtocolReport
from ..report.data import Bank, missing
from ..scoring.scores import Score

Status = Literal["verified", "pending", "self-reported"]
STATUSES: dict[Status, str] = {
    "verified": "every bank was read again and hashed, and the run meets all seven points",
    "pending": "there is no run, or something about it is not in order",
    "self-reported": "the submitter's numbers; no bank was seen, so they are not ranked",
}
# Marks behind a model's name.
FOOTNOTES = {
    "†": "measured at another temperature than the columns say, the nearest that its run has.",
    "*": "fewer than three seeds: too few for a claim.",
    "‡": "orders of unmasking, as of Dream: origin and entropy stand in for none and the "
    "remasking strategy, and the temperature is that of the order.",
    "§": "its tokenizer cuts the text into other windows than those of the first row, so its "
    "references and prompts differ.",
}
# The stand-ins for `none` and the strategy where a run has orders of unmasking alone, as of Dream.
ORDERS = ("origin", "entropy")
# Seeds below which a row is marked.
FEW_SEEDS = 3
# The arms of a row, in order: no remasking without and with randomness, and the strategy.
ARMS = ("cold", "baseline", "strategy")
# Metrics of an arm as rows name them; perplexity is given the prefix where there is one.
METRICS = ("mauve", "perplexity", "self_bleu", "distinct_3", "nfe", "acceptance")


class Identity(NamedTuple):
    """Who a model is.

    Attributes:
        name: short, as registered where it is.
        source: what `load_denoiser` takes, or where it is published.
        family: architecture.
        tier: as in `models.ModelEntry`; "" where it is not registered.
        params_total, params_active: parameters, and those used per token.
    """

    name: str
    source: str
    family: str = ""
    tier: str = ""
    params_total: int | None = None
    params_active: int | None = None


class RowArm(NamedTuple):
    """One arm of a row.

    Attributes:
        strategy, unmask_temp, seeds: what was drawn.
        values: {metric of `METRICS`: one value a seed}, those that all seeds have.
        means: {metric: mean over the seeds}.
    """

    strategy: str
    unmask_temp: float
    seeds: tuple[int, ...]
    values: Mapping[str, tuple[float, ...]]
    means: Mapping[str, Score]


@dataclasses.dataclass(frozen=True)
class BoardRow:
    """One model.

    Attributes:
        model: who it is.
        status: a key of `STATUSES`; `reasons` say why it is not verified.
        num_steps: nominal budget; None for a model without numbers.
        unmask_temp: of the arms with randomness; None without them.
        seeds: of the baseline.
        arms: by a name of `ARMS`; one that is absent is explained in `lacking`.
        lacking: {arm: why it has no numbers}.
        gap: MAUVE of the baseline minus that of the strategy, paired over seeds.
        gap_test: a sentence on its test.
        marks: keys of `FOOTNOTES`.
        facts: {field: values} that rows must share, as canonical JSON.
        references: digests of its reference banks, by seed.
        reference, scorer: names of the text and of the network that judges.
        protocol: verdict on the run.
        origin: the workdir, the file of submissions, or the registry.
        command: what runs it again; "" where it is not known.
        url: of a submission.
        digest, files: of the model, as its cells have it, and {file: sha256}.
        banks: of the run.
    """

    model: Identity
    status: Status
    reasons: tuple[str, ...]
    origin: str
    num_steps: int | None = None
    unmask_temp: float | None = None
    seeds: tuple[int, ...] = ()
    arms: Mapping[str, RowArm] = dataclasses.field(default_factory=dict)
    lacking: Mapping[str, str] = dataclasses.field(default_factory=dict)
    gap: Score = dataclasses.field(default_factory=lambda: missing("there is no run of it"))
    gap_test: str = ""
    marks: tuple[str, ...] = ()
    facts: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    references: Mapping[int, str] = dataclasses.field(default_factory=dict)
    reference: str = ""
    scorer: str = ""
    protocol: ProtocolReport | None = None
    command: str = ""
    url: str = ""
    digest: str = ""
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    banks: tuple[Bank, ...] = ()

    def number(self, arm: str, metric: str) -> Score:
        """The mean of a metric of an arm, or why there is none."""
        if arm not in self.arms:
            return missing(self.lacking.get(arm, "there is no run of it"))
        means = self.arms[arm].means
        return means[metric] if metric in means else missing(f"{metric} was not measured")


def marks_of(
    unmask_temp: float, wanted: float, seeds: Sequence[int], pair: tuple[str, str]
) -> tuple[str, ...]:
    """The footnotes that a row's setting calls for.

    Args:
        unmask_temp, wanted: of the row, and of the board's columns.
        seeds: of the row.
        pair: strategies without and with remasking.
    """
    holds = {"†": unmask_temp != wanted, "*": len(seeds) < FEW_SEEDS, "‡": pair == ORDERS}
    return tuple(mark for mark, given in holds.items() if given)
