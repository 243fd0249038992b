"""The CaRE protocol: seven points judged on a run, comparability of runs, badges."""

from .badge import badge, badge_svg, write_badge
from .comparability import Difference, UnlikeRunsError, comparability_key
from .comparison import Compared, RunComparison, compare_runs
from .validate import Point, ProtocolReport, validate_run

__all__ = [
    "Compared",
    "Difference",
    "Point",
    "ProtocolReport",
    "RunComparison",
    "UnlikeRunsError",
    "badge",
    "badge_svg",
    "comparability_key",
    "compare_runs",
    "validate_run",
    "write_badge",
]
