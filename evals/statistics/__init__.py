"""Tests, intervals and rankings."""

from .anova import AnovaRow, anova
from .bootstrap import Interval, bootstrap_interval, range_warning
from .effect_intervals import EtaInterval, partial_eta2_interval, partial_eta2_intervals
from .factorial import FactorialTable, factorial_table, zero_variance_cells
from .multiple import holm
from .paired import PairedTest, SignFlipTest, paired_test, paired_values, sign_flip_test
from .permutation import PermutationRow, permutation_anova
from .rank_intervals import RankInterval, RankIntervals, rank_intervals
from .ranks import mean_rank, spearman
from .ratings import Match, Ratings, Spread, bradley_terry, elo_ratings, elo_spread
from .reported_effects import EffectCheck, ReportedEffect, check_reported

__all__ = [
    "AnovaRow",
    "EffectCheck",
    "EtaInterval",
    "FactorialTable",
    "Interval",
    "Match",
    "PairedTest",
    "PermutationRow",
    "RankInterval",
    "RankIntervals",
    "Ratings",
    "ReportedEffect",
    "SignFlipTest",
    "Spread",
    "anova",
    "bootstrap_interval",
    "bradley_terry",
    "check_reported",
    "elo_ratings",
    "elo_spread",
    "factorial_table",
    "holm",
    "mean_rank",
    "paired_test",
    "paired_values",
    "partial_eta2_interval",
    "partial_eta2_intervals",
    "permutation_anova",
    "range_warning",
    "rank_intervals",
    "sign_flip_test",
    "spearman",
    "zero_variance_cells",
]
