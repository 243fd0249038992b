"""Banks, experiments, statistics and reports."""

from .bank import Sample, SampleBank, bank_digest, read_bank
from .bank_writer import write_bank
from .best_of import sample_best_of
from .cell import Cell
from .corpora import Corpus, load_corpus
from .errors import BankExistsError, InputError
from .experiment import experiment_names, load_experiment
from .external import score_texts
from .matching import ComputeMatch, match_nfe, run_matched
from .pipeline import dry_run, run_experiment
from .ranks import mean_rank, spearman
from .scores import Band, CellScores, Score, aggregate, null_band, read_scores
from .sources import Sources
from .text_filter import FilterVerdict, english_filter
from .trajectory import load_history

__all__ = [
    "Band",
    "BankExistsError",
    "Cell",
    "CellScores",
    "ComputeMatch",
    "Corpus",
    "FilterVerdict",
    "InputError",
    "Sample",
    "SampleBank",
    "Score",
    "Sources",
    "aggregate",
    "bank_digest",
    "dry_run",
    "english_filter",
    "experiment_names",
    "load_corpus",
    "load_experiment",
    "load_history",
    "match_nfe",
    "mean_rank",
    "null_band",
    "read_bank",
    "read_scores",
    "run_experiment",
    "run_matched",
    "sample_best_of",
    "score_texts",
    "spearman",
    "write_bank",
]
