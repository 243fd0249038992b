"""Judges a finished run by the seven points of the protocol, or sets two like runs side by side.

    python launch/check.py --validate=runs/care --badge=runs/care/report/badge.svg
    python launch/check.py --compare=runs/care,runs/other

Exit codes: 0 all points met, or runs compared; 1 a point is not met; 2 for input that has to be
changed, such as runs that must not be compared: stderr names every field in which they differ.
"""

import pathlib
import sys
from collections.abc import Sequence

from absl import app, flags, logging

from dlmeval.evals import protocol
from dlmeval.evals.errors import InputError, one_line, usable_files
from dlmeval.evals.protocol.tables import comparison_table
from dlmeval.evals.report import to_markdown

_VALIDATE = flags.DEFINE_string("validate", None, "Workdir of a run to judge.")
_COMPARE = flags.DEFINE_list("compare", None, "Two workdirs of runs, joined by a comma.")
_BADGE = flags.DEFINE_string("badge", None, "SVG file for the badge of --validate.")


def main(argv: Sequence[str]) -> int:
    """Does what the flags ask for; returns the exit code."""
    logging.set_verbosity(logging.WARNING)
    try:
        if len(argv) > 1:
            raise InputError(f"unknown argument {argv[1]!r}; flags are written --name=value")
        workdir, pair = _VALIDATE.value, _COMPARE.value
        with usable_files():
            if workdir is not None and pair is None:
                return _validate(workdir)
            if pair is not None and workdir is None:
                return _compare(pair)
        raise InputError("give --validate=WORKDIR or --compare=WORKDIR,WORKDIR, one of them")
    except protocol.UnlikeRunsError as error:
        print("check.py: these runs must not be compared; they differ in", file=sys.stderr)
        for difference in error.differences:
            print(f"  {difference}", file=sys.stderr)
        return 2
    except InputError as error:
        print(f"check.py: {one_line(error)}", file=sys.stderr)
        return 2


def _validate(workdir: str) -> int:
    report = protocol.validate_run(workdir)
    width = max(len(point.name) for point in report.points)
    for point in report.points:
        verdict = "met    " if point.passed else "NOT MET"
        print(f"{point.number} {point.name:<{width}}  {verdict}  {point.reason}")
    print(protocol.badge(report))
    if _BADGE.value is not None:
        path = pathlib.Path(_BADGE.value)
        path.parent.mkdir(parents=True, exist_ok=True)
        protocol.write_badge(path, report)
    return 0 if report.passed else 1


def _compare(workdirs: Sequence[str]) -> int:
    if _BADGE.value is not None:
        raise InputError("--badge is that of one run; give it with --validate")
    if len(workdirs) != 2:
        raise InputError(f"--compare={','.join(workdirs)} must name two workdirs")
    print(to_markdown(comparison_table(protocol.compare_runs(*workdirs))), end="")
    return 0


def parse_flags(argv: Sequence[str]) -> list[str]:
    """Parses flags; exits with code 2 and one line on stderr when one is unknown or refused."""
    try:
        return flags.FLAGS(list(argv))
    except flags.Error as error:
        print(f"check.py: {one_line(error)}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    app.run(main, flags_parser=parse_flags)
