"""Coders of bytes and what makes ids of texts, against every fault that users bring."""

import numpy as np
import pytest

from dlmeval import metrics

# --- Bytes and texts ----------------------------------------------------------------------------

DOCUMENTS = [b"to be", b"or not", b"to be", b"that is"]
TREE = metrics.fit_context_tree(DOCUMENTS, 8)
BYTES = {
    "code_length": ("documents", lambda x: metrics.code_length(TREE, x)),
    "count_contexts": ("documents", lambda x: metrics.count_contexts(x, 8)),
    "fit_context_tree": ("documents", lambda x: metrics.fit_context_tree(x, 8)),
} | {
    f"{name}, {argument}": (argument, call)
    for name in ("code_held_out", "jeffreys_coding_divergence")
    for argument, call in (
        ("reference", lambda x, name=name: getattr(metrics, name)(x, DOCUMENTS, depth=8)),
        ("generated", lambda x, name=name: getattr(metrics, name)(DOCUMENTS, x, depth=8)),
    )
}
BAD_BYTES = {
    "texts": ["to be", "or not", "to be", "that"],
    "one text": "to be",
    "one bytes": b"to be",
    "numbers": [1, 2, 3, 4],
    "ids": np.zeros((6, 7), np.int64),
    "nothing": None,
    "nothing inside": [b"to be", None, b"or", b"not"],
    "one number": 7,
}


@pytest.mark.parametrize("fault", BAD_BYTES)
@pytest.mark.parametrize("name", BYTES)
def test_bad_documents(name, fault, refused):
    argument, call = BYTES[name]
    refused(lambda: call(BAD_BYTES[fault]), argument)


def test_banks_of_documents_too_small_to_fit_and_code(refused):
    for name in ("code_held_out", "jeffreys_coding_divergence"):
        metric = getattr(metrics, name)
        for bank in ([], [b"one"]):
            refused(lambda m=metric, b=bank: m(b, DOCUMENTS, depth=8), "reference")
            refused(lambda m=metric, b=bank: m(DOCUMENTS, b, depth=8), "generated")
        refused(lambda m=metric: m(DOCUMENTS, [b"a", b"b", b"", b""], depth=8), "generated")
        for num_fit in (0, 4, -1, 1.5, "2", True):
            refused(
                lambda m=metric, f=num_fit: m(DOCUMENTS, DOCUMENTS, depth=8, num_fit=f), "num_fit"
            )
    codes = metrics.code_held_out(DOCUMENTS, DOCUMENTS, depth=8, num_fit=3)
    refused(lambda: metrics.coding_divergence_stderr(codes), "reference")
    # Fitting nothing is allowed: the coder that spends 8 bits a byte.
    assert metrics.code_length(metrics.fit_context_tree([], 8), [b"abc"]).tolist() == [24.0]


def test_bad_options_of_coders(refused):
    calls = [
        lambda **options: metrics.count_contexts(DOCUMENTS, **options),
        lambda **options: metrics.fit_context_tree(DOCUMENTS, **options),
        lambda **options: metrics.jeffreys_coding_divergence(DOCUMENTS, DOCUMENTS, **options),
    ]
    for call in calls:
        for depth in (-1, 25, 2.0, "20", True, None):
            refused(lambda c=call, d=depth: c(depth=d), "depth")
        for start in ("zero", None, 0):
            refused(lambda c=call, s=start: c(depth=4, start=s), "start")
    for counts in (np.zeros((3, 2), int), np.zeros(4, int), -np.ones((2, 2), int), np.ones((2, 2)),
                   "counts", None):  # fmt: skip
        refused(lambda c=counts: metrics.context_tree_from_counts(c), "counts")
    codes = metrics.code_held_out(DOCUMENTS, DOCUMENTS, depth=8)
    for name in ("coding_divergence_from_codes", "coding_divergence_stderr"):
        for pooling in ("mean", None, 1):
            refused(lambda n=name, p=pooling: getattr(metrics, n)(codes, pooling=p), "pooling")


@pytest.mark.parametrize("name", ["text_ids", "text_vocabulary"])
def test_bad_texts(name, refused):
    metric = getattr(metrics, name)
    for texts in ("one text", b"bytes", [b"bytes", b"more"], [1, 2], None, 7, [], [None]):
        refused(lambda texts=texts: metric(texts), "texts")
    for tokens in ("words", None, 3):
        refused(lambda tokens=tokens: metric(["a b"], tokens), "tokens")
