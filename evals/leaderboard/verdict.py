"""Whether a run's row is verified: nothing is taken on trust that can be read again."""

from ..banks.bank import read_bank
from ..errors import one_line
from ..protocol import ProtocolReport
from ..protocol.records import RunRecord
from ..scoring.scores import read_scores
from .rows import Status


def judge_run(run: RunRecord, report: ProtocolReport) -> tuple[Status, tuple[str, ...]]:
    """ "verified" where all banks of the plan are there as hashed and the protocol is met.

    Every bank is read strictly, also those that the row does not show, and every score file must
    be of its cell and of its bank. Scores are not computed again: that takes the scorer, and a
    run without its `scores` folder does it.

    Returns:
        The status and, for a pending run, each thing that is not in order.
    """
    reasons = []
    for record in run.banks:
        try:
            bank = read_bank(record.folder)
            if record.planned.get("role") != "trajectory":
                scores = read_scores(record.score_file)
                if scores.bank_digest != bank.digest:
                    reasons.append(f"{record.score_file} holds scores of other texts")
        except (ValueError, OSError) as error:
            reasons.append(one_line(error))
        except (AttributeError, KeyError, OverflowError, TypeError) as error:
            reasons.append(f"{record.folder} cannot be read ({type(error).__name__} {error})")
    reasons += [
        f"point {point.number} ({point.name}): {point.reason}"
        for point in report.points
        if not point.passed
    ]
    return ("pending" if reasons else "verified"), tuple(dict.fromkeys(reasons))
