"""Checks the claims of the two papers that need no model, and lists the others.

    python launch/claims.py
    python launch/claims.py --tag=checkpoints

Prints a Markdown table: claim, what is reported, what we get, whether it holds, and what deciding
it takes; then what does not hold, and why. Reported numbers come from `evals/reported.json`, ours
are computed on the spot by the metrics, samplers and statistics that experiments use.

Exit codes: 0 each exact claim shown is decided, whichever way; 1 one is not; 2 unusable input.
"""

import collections
import sys
from collections.abc import Iterable, Mapping, Sequence

from absl import app, flags, logging

from dlmeval.evals import reported
from dlmeval.evals.claims import Finding, check_claims
from dlmeval.evals.errors import InputError, one_line

_TAG = flags.DEFINE_enum(
    "tag", None, list(reported.TAGS), "Show claims of this tag alone; all by default."
)

_PLURAL = {
    "holds": "hold",
    "does not hold": "do not hold",
    "contradictory": "contradict what else is printed",
}


def main(argv: Sequence[str]) -> int:
    """Prints the table; returns the exit code."""
    logging.set_verbosity(logging.WARNING)  # JAX logs each backend it does not find
    try:
        if len(argv) > 1:
            raise InputError(f"unknown argument {argv[1]!r}; flags are written --name=value")
        claims = [c for c in reported.read_reported() if _TAG.value in (None, c.tag)]
        findings = check_claims(claims)
    except InputError as error:
        print(f"claims.py: {one_line(error)}", file=sys.stderr)
        return 2
    print("\n".join([*table(claims, findings), "", *summary(claims, findings)]))
    undecided = [c.id for c in claims if c.tag == "exact" and c.id not in findings]
    if undecided:
        print(f"claims.py: no check decides {', '.join(undecided)}", file=sys.stderr)
    return 1 if undecided else 0


def table(claims: Iterable[reported.Reported], findings: Mapping[str, Finding]) -> list[str]:
    """Lines of the Markdown table."""
    lines = ["| claim | reported | ours | holds | tag |", "|---|---|---|---|---|"]
    for claim in claims:
        printed = [_named(name, reported.shown(n)) for name, n in claim.values.items()]
        found = findings.get(claim.id)
        cells = [
            claim.id,
            "; ".join(printed) or claim.statement,
            "–" if found is None else _ours(found),
            "not decided here" if found is None else found.verdict,
            claim.tag,
        ]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return lines


def summary(claims: Sequence[reported.Reported], findings: Mapping[str, Finding]) -> list[str]:
    """Lines that count verdicts and explain every one that is not "holds"."""
    lines = []
    if findings:
        counts = collections.Counter(finding.verdict for finding in findings.values())
        told = ", ".join(f"{count} {_PLURAL[verdict]}" for verdict, count in counts.items())
        lines.append(f"{len(findings)} exact claims decided: {told}.")
    needed = collections.Counter(claim.tag for claim in claims if claim.id not in findings)
    lines += [f"{count} need {reported.TAGS[tag]}." for tag, count in needed.items()]
    failed = [c for c in claims if c.id in findings and findings[c.id].verdict != "holds"]
    if failed:
        lines.append("")
    for claim in failed:
        finding = findings[claim.id]
        lines.append(
            f"* {claim.id} ({claim.where}): {finding.verdict}. {claim.statement} "
            + (claim.comment or f"Ours: {_ours(finding)}.")
        )
    return lines


def _ours(finding: Finding) -> str:
    numbers = "; ".join(_named(name, _numbers(v)) for name, v in finding.ours.items())
    return f"{numbers} ({finding.note})" if finding.note else numbers


def _named(name: str, text: str) -> str:
    return text if name == "value" else f"{name.replace('_', ' ')} {text}"


def _numbers(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.5g}" if value % 1 else f"{value:.0f}" for value in values) or "none"


def parse_flags(argv: Sequence[str]) -> list[str]:
    """Parses flags; exits with code 2 and one line on stderr when one is refused."""
    try:
        return flags.FLAGS(list(argv))
    except flags.Error as error:
        print(f"claims.py: {one_line(error)}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    app.run(main, flags_parser=parse_flags)
