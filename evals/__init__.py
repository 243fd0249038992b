"""Banks, experiments, statistics and reports."""

from .banks.bank import Sample, SampleBank, bank_digest, read_bank
from .banks.bank_writer import write_bank
from .banks.trajectory import load_history
from .cell import Cell
from .corpora.corpus import Corpus, load_corpus
from .corpora.text_files import read_texts
from .corpora.text_filter import FilterVerdict, english_filter
from .errors import BankExistsError, InputError
from .experiment import experiment_names, load_experiment
from .pipeline import dry_run, run_experiment
from .protocol import ProtocolReport, UnlikeRunsError, badge, compare_runs, validate_run
from .sampling.best_of import sample_best_of
from .sampling.external_bank import import_bank
from .sampling.matching import ComputeMatch, match_nfe, run_matched
from .scoring.external import score_texts
from .scoring.heuristics import MetricCheck, Offence, check_metric, heuristics_last
from .scoring.scores import Band, CellScores, Score, aggregate, null_band, read_scores
from .sources import Sources
from .statistics import (
    AnovaRow,
    EffectCheck,
    EtaInterval,
    FactorialTable,
    Interval,
    Match,
    PairedTest,
    PermutationRow,
    RankInterval,
    RankIntervals,
    Ratings,
    ReportedEffect,
    SignFlipTest,
    Spread,
    anova,
    bootstrap_interval,
    bradley_terry,
    check_reported,
    elo_ratings,
    elo_spread,
    factorial_table,
    holm,
    mean_rank,
    paired_test,
    paired_values,
    partial_eta2_interval,
    partial_eta2_intervals,
    permutation_anova,
    range_warning,
    rank_intervals,
    sign_flip_test,
    spearman,
    zero_variance_cells,
)
from .statistics.correlations import Correlations, correlation_matrix
from .workdir.joined import JoinedArm, join_workdirs

__all__ = [
    "AnovaRow",
    "Band",
    "BankExistsError",
    "Cell",
    "CellScores",
    "ComputeMatch",
    "Corpus",
    "Correlations",
    "EffectCheck",
    "EtaInterval",
    "FactorialTable",
    "FilterVerdict",
    "InputError",
    "Interval",
    "JoinedArm",
    "Match",
    "MetricCheck",
    "Offence",
    "PairedTest",
    "PermutationRow",
    "ProtocolReport",
    "RankInterval",
    "RankIntervals",
    "Ratings",
    "ReportedEffect",
    "Sample",
    "SampleBank",
    "Score",
    "SignFlipTest",
    "Sources",
    "Spread",
    "UnlikeRunsError",
    "aggregate",
    "anova",
    "badge",
    "bank_digest",
    "bootstrap_interval",
    "bradley_terry",
    "check_metric",
    "check_reported",
    "compare_runs",
    "correlation_matrix",
    "dry_run",
    "elo_ratings",
    "elo_spread",
    "english_filter",
    "experiment_names",
    "factorial_table",
    "heuristics_last",
    "holm",
    "import_bank",
    "join_workdirs",
    "load_corpus",
    "load_experiment",
    "load_history",
    "match_nfe",
    "mean_rank",
    "null_band",
    "paired_test",
    "paired_values",
    "partial_eta2_interval",
    "partial_eta2_intervals",
    "permutation_anova",
    "range_warning",
    "rank_intervals",
    "read_bank",
    "read_scores",
    "read_texts",
    "run_experiment",
    "run_matched",
    "sample_best_of",
    "score_texts",
    "sign_flip_test",
    "spearman",
    "validate_run",
    "write_bank",
    "zero_variance_cells",
]
