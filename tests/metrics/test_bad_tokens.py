"""Every metric of token ids or likelihoods against every fault that users bring."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dlmeval import metrics

# --- Token ids ------------------------------------------------------------------------------------

IDS = np.random.default_rng(2).integers(0, 5, (6, 7))
LENGTHS = np.full(6, 7)
TRAINING = IDS[::-1].copy()
NLL = np.random.default_rng(3).uniform(1, 2, IDS.shape)
TOKENS = {
    "count_ngrams": lambda ids, lengths=None: list(metrics.count_ngrams(ids, lengths, max_order=2)),
    "distinct_n": metrics.distinct_n,
    "distinct_n_stderr": metrics.distinct_n_stderr,
    "diversity": metrics.diversity,
    "diversity_stderr": metrics.diversity_stderr,
    "entropies": metrics.entropies,
    "entropies_stderr": metrics.entropies_stderr,
    "longest_copied_span": lambda ids, lengths=None: metrics.longest_copied_span(
        ids, TRAINING, lengths
    ),
    "longest_copied_span_stderr": lambda ids, lengths=None: metrics.longest_copied_span_stderr(
        ids, TRAINING, lengths
    ),
    "ngram_counts": lambda ids, lengths=None: metrics.ngram_counts(ids, lengths, order=2),
    "ngram_novelty": lambda ids, lengths=None: metrics.ngram_novelty(ids, TRAINING, lengths),
    "ngram_novelty_stderr": lambda ids, lengths=None: metrics.ngram_novelty_stderr(
        ids, TRAINING, lengths
    ),
    "perplexity_as": lambda ids, lengths=None: metrics.perplexity_as(
        "mdlm", NLL, ids, lengths, eos_id=0
    ),
    "self_bleu": metrics.self_bleu,
    "self_bleu_stderr": metrics.self_bleu_stderr,
    "sequence_repetition": metrics.sequence_repetition,
    "sequence_repetition_stderr": metrics.sequence_repetition_stderr,
    "target_mask": lambda ids, lengths=None: metrics.target_mask(ids, lengths, 0),
    "targets_as": lambda ids, lengths=None: metrics.targets_as("mdlm", ids, lengths, eos_id=0),
}
TRACEABLE = ("entropies", "target_mask")
OTHER_IDS = {  # arguments of another name that hold token ids too
    "fit_training_index": ("training_ids", metrics.fit_training_index),
    "longest_copied_span": ("training", lambda ids: metrics.longest_copied_span(IDS, ids)),
    "ngram_novelty": ("training", lambda ids: metrics.ngram_novelty(IDS, ids)),
    "memorisation, reference": (
        "reference_ids",
        lambda ids: metrics.memorisation(ids, IDS, metrics.fit_training_index(TRAINING)),
    ),
    "memorisation, generated": (
        "generated_ids",
        lambda ids: metrics.memorisation(IDS, ids, metrics.fit_training_index(TRAINING)),
    ),
}
BAD_IDS = {
    "no rows": np.empty((0, 7), int),
    "no columns": np.empty((6, 0), int),
    "empty list": [],
    "one dimension": IDS[0],
    "floats": IDS.astype(float),
    "booleans": IDS > 2,
    "strings": IDS.astype(str),
    "a text": "the cat sat",
    "texts": ["the cat", "sat on"],
    "bytes": [b"the cat", b"sat"],
    "one bytes": b"the cat",
    "nothing": None,
    "ragged": [[1, 2], [3]],
    "negative": np.where(IDS == 3, -1, IDS),
    "beyond int32": np.where(IDS == 3, 2**31, IDS),
}
BAD_LENGTHS = {
    "beyond the row": np.array([7, 7, 8, 7, 7, 7]),
    "negative": np.array([7, 7, -1, 7, 7, 7]),
    "floats": LENGTHS.astype(float),
    "too few": LENGTHS[:5],
    "two dimensions": LENGTHS[:, None],
    "all zero": 0 * LENGTHS,
    "strings": LENGTHS.astype(str),
    "booleans": LENGTHS > 0,
    "one number": 7,
}


@pytest.mark.parametrize("fault", BAD_IDS)
@pytest.mark.parametrize("name", TOKENS)
def test_bad_ids(name, fault, refused):
    refused(lambda: TOKENS[name](BAD_IDS[fault]), r"\bids\b")


@pytest.mark.parametrize("fault", BAD_LENGTHS)
@pytest.mark.parametrize("name", TOKENS)
def test_bad_lengths(name, fault, refused):
    refused(lambda: TOKENS[name](IDS, BAD_LENGTHS[fault]), r"\blengths\b")


@pytest.mark.parametrize("fault", BAD_IDS)
@pytest.mark.parametrize("name", OTHER_IDS)
def test_bad_ids_of_other_names(name, fault, refused):
    argument, call = OTHER_IDS[name]
    if argument.startswith("training") and fault == "ragged":
        return  # documents of a training text may be a list of unequal rows
    refused(lambda: call(BAD_IDS[fault]), argument)


@pytest.mark.parametrize("name", [name for name in TOKENS if name not in TRACEABLE])
def test_ids_traced_where_values_are_needed(name, refused):
    refused(lambda: jax.jit(TOKENS[name])(jnp.asarray(IDS, jnp.int32)), "jit")


ORDERS = ("distinct_n", "distinct_n_stderr", "ngram_counts", "self_bleu", "self_bleu_stderr",
          "sequence_repetition", "sequence_repetition_stderr")  # fmt: skip


def test_bad_orders(refused):
    calls = [functools.partial(getattr(metrics, name), IDS) for name in ORDERS]
    calls += [
        functools.partial(getattr(metrics, name), IDS, TRAINING)
        for name in ("ngram_novelty", "ngram_novelty_stderr")
    ]
    index = metrics.fit_training_index(TRAINING)
    calls.append(functools.partial(metrics.memorisation, IDS, IDS, index))
    calls += [
        lambda order, name=name: getattr(metrics, name)(IDS, orders=(order,))
        for name in ("diversity", "diversity_stderr")
    ]
    calls += [lambda order: list(metrics.count_ngrams(IDS, max_order=order))]
    for call in calls:
        for order in (0, -1, True, 2.0, "3", None):
            refused(lambda call=call, order=order: call(order=order), r"\border")
    for name in ("distinct_n", "sequence_repetition"):
        refused(lambda name=name: getattr(metrics, name)(IDS, order=8), "row.*order")
    refused(lambda: metrics.ngram_novelty(IDS, TRAINING, order=8), "row.*order")
    refused(lambda: metrics.diversity(IDS, orders=()), "orders")


def test_too_few_rows_of_ids(refused):
    for name in ("distinct_n_stderr", "diversity_stderr", "entropies_stderr", "self_bleu",
                 "sequence_repetition_stderr"):  # fmt: skip
        refused(lambda name=name: getattr(metrics, name)(IDS[:1]), "at least 2|needs")
    refused(lambda: metrics.self_bleu_stderr(IDS[:2]), "at least 3")
    for name in ("ngram_novelty_stderr", "longest_copied_span_stderr"):
        refused(lambda name=name: getattr(metrics, name)(IDS[:1], TRAINING), "at least 2")


def test_identical_rows_of_ids_have_their_exact_values():
    same = np.tile(np.arange(7), (6, 1))
    result = metrics.entropies(same)
    assert (result.pos, result.joint, result.total_correlation) == (0, 0, 0)
    assert (metrics.self_bleu(same) == 1).all()
    assert metrics.distinct_n(same) == 1 / 6
    assert metrics.self_bleu_stderr(same) == metrics.sequence_repetition_stderr(same) == 0
    assert (metrics.longest_copied_span(same, same) == 7).all()
    assert (metrics.ngram_novelty(same, same) == 0).all()


def test_other_bad_options_of_ids(refused):
    for policy in ("first", None, 1):
        refused(lambda policy=policy: metrics.target_mask(IDS, None, 0, policy), "policy")
    for eos in (None, 1.5, "0", True):
        refused(lambda eos=eos: metrics.target_mask(IDS, None, eos), "eos_id")
    for smoothing in ("method7", None):
        refused(lambda s=smoothing: metrics.self_bleu(IDS, smoothing=s), "smoothing")
    for most in (0, 1, 2.5, True, "3"):
        refused(lambda most=most: metrics.self_bleu(IDS, max_references=most), "max_references")
    for name in ("nobody", None, 3):
        refused(lambda name=name: metrics.targets_as(name, IDS, eos_id=0), "name")
        refused(lambda name=name: metrics.perplexity_as(name, NLL, IDS, eos_id=0), "name")
    for size in (0, -1, 1.5, "2", True):
        refused(
            lambda size=size: metrics.aggregate_as("sedd", NLL[0], LENGTHS[:7], batch_size=size),
            "batch_size|nll",
        )
    index = metrics.fit_training_index(TRAINING)
    refused(lambda: metrics.ngram_novelty(IDS, index, None, LENGTHS), "training_lengths")
    refused(lambda: metrics.memorisation(IDS, IDS, None), "training")


def test_windows_and_ceilings(refused):
    for lengths in ([3.0], [[3]], [-1], "3", ["3"], None):
        refused(lambda x=lengths: metrics.scoring_windows(x, 4), "lengths")
    for context in (0, 1, 2.5, "4", True, None):
        refused(lambda x=context: metrics.scoring_windows(LENGTHS, x), "context")
    for stride in (0, 4, 1.5, "2", True):
        refused(lambda x=stride: metrics.scoring_windows(LENGTHS, 4, x), "stride")
    for count in (0, -1, 2.5, "3", None, []):
        refused(lambda x=count: metrics.entropy_ceiling(x), "num_rows")


# --- Likelihoods --------------------------------------------------------------------------------

SUMS = {
    "aggregate_as": functools.partial(metrics.aggregate_as, "dlmeval"),
    "generative_perplexity": metrics.generative_perplexity,
    "generative_perplexity_stderr": metrics.generative_perplexity_stderr,
}
BAD_SUMS = {
    "empty": (np.empty(0), np.empty(0, int), "nll"),
    "empty lists": ([], [], "nll"),
    "unequal": (np.ones(3), np.ones(2, int), "nll"),
    "two dimensions": (np.ones((3, 1)), np.ones((3, 1), int), "nll"),
    "NaN": (np.array([1, np.nan, 2]), np.ones(3, int), "nll"),
    "minus infinity": (np.array([1, -np.inf, 2]), np.ones(3, int), "nll"),
    "strings": (np.array(["1", "2", "x"]), np.ones(3, int), "nll"),
    "complex": (np.ones(3, complex), np.ones(3, int), "nll"),
    "nothing": (None, np.ones(3, int), "nll"),
    "ragged": ([[1.0], [2.0, 3.0]], np.ones(2, int), "nll"),
    "float counts": (np.ones(3), np.ones(3), "num_tokens"),
    "negative counts": (np.ones(3), np.array([1, -1, 2]), "num_tokens"),
    "no tokens": (np.zeros(3), np.zeros(3, int), "num_tokens"),
    "NLL of no tokens": (np.ones(3), np.array([1, 0, 2]), "nll"),
    "string counts": (np.ones(3), np.array(["1", "1", "1"]), "num_tokens"),
    "no counts": (np.ones(3), None, "num_tokens"),
}


@pytest.mark.parametrize("fault", BAD_SUMS)
@pytest.mark.parametrize("name", SUMS)
def test_bad_sums(name, fault, refused):
    nll, num_tokens, argument = BAD_SUMS[fault]
    refused(lambda: SUMS[name](nll, num_tokens), argument)


def test_other_bad_likelihoods(refused):
    good = np.ones(3), np.ones(3, int)
    for name in ("generative_perplexity", "generative_perplexity_stderr"):
        for aggregate in ("mean", None, 1):
            refused(lambda n=name, a=aggregate: getattr(metrics, n)(*good, a), "aggregate")
    refused(lambda: metrics.generative_perplexity_stderr(np.ones(1), np.ones(1, int)), "at least 2")
    for name in ("aggregate_as", "generative_perplexity_stderr"):
        refused(lambda name=name: jax.jit(SUMS[name])(*good), "jit")
    for value in (np.nan, 0.0, -1.0):
        refused(lambda v=value: metrics.adjusted_perplexity(v, 1.0), "perplexity")
    for value in (np.nan, np.inf, -1.0):
        refused(lambda v=value: metrics.adjusted_perplexity(9.0, v), "pos_entropy")
    for token_nll in (NLL[:, :3], np.where(NLL > 1.9, np.nan, NLL)):
        refused(lambda x=token_nll: metrics.perplexity_as("mdlm", x, IDS, eos_id=0), "token_nll")
