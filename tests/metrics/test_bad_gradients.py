"""The gradient moment and its sketches against every fault that users bring."""

import numpy as np
import pytest

from dlmeval import metrics

# --- Gradients ----------------------------------------------------------------------------------


def stats(**changes):
    rng = np.random.default_rng(4)
    batches = rng.normal(size=(5, 3)).astype(np.float32)
    sketches = metrics.SketchedGradients(batches, 0)
    norms = np.float32((batches**2).sum())
    good = metrics.GradientStats(batches.sum(0), norms, 5, norms, sketches)
    return good._replace(**changes)


PAIRS = (
    "gradient_moment",
    "gradient_moment_by_tensor",
    "gradient_moment_from_sketches",
    "gradient_moment_stderr",
    "add_gradient_stats",
)
SKETCHED = ("gradient_moment_from_sketches", "gradient_moment_stderr")
BAD_STATS = {
    "an array": np.ones(3),
    "nothing": None,
    "another shape": stats(total=np.ones(4, np.float32)),
    "another tree": stats(total={"w": np.ones(3, np.float32)}),
    "NaN total": stats(total=np.array([1, np.nan, 2], np.float32)),
    "infinite norm": stats(squared_norm=np.float32(np.inf)),
    "no batches": stats(num_batches=0),
    "half a batch": stats(num_batches=2.5),
    "integers for gradients": stats(total=np.array(["a", "b", "c"])),
}


@pytest.mark.parametrize("fault", BAD_STATS)
@pytest.mark.parametrize("name", [name for name in PAIRS if name not in SKETCHED])
def test_bad_gradient_stats(name, fault, refused):
    metric, bad = getattr(metrics, name), BAD_STATS[fault]
    first, second = ("a", "b") if name.startswith("add") else ("reference", "generated")
    refused(lambda: metric(bad, stats()), rf"\b{first}\b")
    refused(lambda: metric(stats(), bad), rf"\b{second}\b")


def test_other_bad_gradients(refused):
    one = stats(num_batches=1)
    refused(lambda: metrics.gradient_moment(one, stats()), "reference")
    refused(lambda: metrics.uncentered_moment(one), "stats")
    refused(lambda: metrics.uncentered_moment(None), "stats")
    for form in ("cube", None):
        refused(lambda form=form: metrics.gradient_moment(stats(), stats(), form=form), "form")
    bare = stats(sketches=None)
    rows_of_nan = metrics.SketchedGradients(np.full((5, 3), np.nan, np.float32), 0)
    narrow = metrics.SketchedGradients(np.ones((5, 2), np.float32), 0)
    reseeded = metrics.SketchedGradients(np.ones((5, 3), np.float32), 1)
    for name in SKETCHED:
        metric = getattr(metrics, name)
        for given in (bare, stats(sketches=rows_of_nan), stats(sketches=narrow),
                      stats(sketches=reseeded)):  # fmt: skip
            wrong = given.sketches if name.endswith("sketches") else given
            good = stats().sketches if name.endswith("sketches") else stats()
            refused(lambda m=metric, w=wrong, g=good: m(w, g), "reference|sketches")
            refused(lambda m=metric, w=wrong, g=good: m(g, w), "generated|sketches")
    for buckets in (0, -1, 2.5, "8", True):
        refused(lambda b=buckets: metrics.CountSketch(num_buckets=b), "num_buckets")
    for seed in (-1, 1.5, "0", True):
        refused(lambda s=seed: metrics.CountSketch(num_buckets=8, seed=s), "seed")
    for gradient in ({}, {"w": np.empty(0)}, None):
        refused(lambda g=gradient: metrics.CountSketch(num_buckets=8)(g), "gradient")
