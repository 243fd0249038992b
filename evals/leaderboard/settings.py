"""What a leaderboard shows, as flags."""

import dataclasses

from ..errors import InputError
from ..experiment import option
from ..options import check_options

# Metrics of the arm without remasking that rows may be ranked by, and which way is better.
RANKED = {"mauve": "up", "perplexity": "down", "self_bleu": "down", "distinct_3": "up"}


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of a leaderboard; every field is a flag."""

    workdirs: tuple[str, ...] = option(
        (), "Workdirs of finished runs, such as those of experiment care; a row each.", empty=True
    )
    submissions: tuple[str, ...] = option(
        (), "JSON files of self-reported rows; docs/leaderboard.md describes them.", empty=True
    )
    strategy: str = option(
        "high_entropy",
        "Remasking strategy whose gap to no remasking is shown; `entropy` stands in for it where a "
        "run has orders of unmasking alone.",
    )
    unmask_temp: float = option(
        0.25, "Temperature of the columns with randomness; a run without it shows its nearest."
    )
    num_steps: int | None = option(
        None, "Nominal budget of every row; none takes the largest that all runs have.", least=1
    )
    rank_by: tuple[str, ...] = option(
        ("mauve",),
        f"Metrics whose mean rank orders the rows: some of {', '.join(RANKED)}. All but MAUVE are "
        "won by degenerate text when taken alone.",
    )
    registered: bool = option(
        True, "Whether registered leaderboard models that have no row are listed as pending."
    )

    def __post_init__(self):
        check_options(self)
        if not self.unmask_temp > 0:
            raise InputError(
                f"--unmask_temp={self.unmask_temp} must be above 0; temperature 0 has a column of"
                " its own"
            )
        unknown = sorted(set(self.rank_by) - set(RANKED))
        if unknown:
            raise InputError(
                f"--rank_by={','.join(unknown)} is unknown; accepted: {', '.join(RANKED)}"
            )
        if not (self.workdirs or self.submissions or self.registered):
            raise InputError("--workdirs and --submissions are empty; name runs or rows to show")
