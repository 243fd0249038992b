"""Checks of the papers' claims that need no model: ours beside theirs, and whether they agree."""

from .finding import Check, Finding, agreement, outcome
from .registry import CHECKS, check_claim, check_claims

__all__ = [
    "CHECKS",
    "Check",
    "Finding",
    "agreement",
    "check_claim",
    "check_claims",
    "outcome",
]
