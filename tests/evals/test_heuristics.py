"""The test for metrics: what fools one is found, what does not passes, bad input is named."""

import math

import numpy as np
import pytest

from dlmeval import samplers
from dlmeval.evals import MetricCheck, check_metric, heuristics_last
from dlmeval.evals.errors import InputError
from dlmeval.evals.scoring.heuristics import noised

TOY = {
    "reference": "toy:heldout",
    "training": "toy:train",
    "tokenizer": "toy:scorer",
    "sizes": {"topk_iid": (4,), "mirror": (16,), "periodic": (4,), "phrase_bank": (3,)},
    "gen_length": 24,
    "num_samples": 16,
}


def check(toy, metric, direction, **changes) -> MetricCheck:
    return check_metric(metric, direction, sources=toy.toy_sources(), **(TOY | changes))


def share_of_words(texts):
    """A sound metric of this world: how many of the whole words are words of the language."""

    def share(text):
        inner = text.split(" ")[1:-1]  # windows cut the first and last word
        return sum(word in WORDS for word in inner) / max(len(inner), 1)

    return float(np.mean([share(text) for text in texts]))


WORDS = set()


@pytest.fixture(autouse=True)
def words(toy):
    WORDS.update(toy.WORDS)


def test_a_sound_metric_passes_and_real_text_is_best(toy):
    # Phrases of five letters hold whole words here, so they are left to another test.
    sizes = {name: TOY["sizes"][name] for name in ("topk_iid", "mirror", "periodic")}
    found = check(toy, share_of_words, "up", sizes=sizes)
    assert found.passed
    assert found.fooled_by == found.above_real == ()
    assert found.real == 1.0
    first, second = found.trained.values()
    assert found.real > first > second > max(found.heuristics.values())


def test_a_metric_of_diversity_is_fooled_only_where_its_direction_is_wrong(toy):
    def distinct_letters(texts):
        return float(np.mean([len(set(text)) for text in texts]))

    few = {"topk_iid 4", "periodic 4", "phrase_bank 3"}
    low, high = (check(toy, distinct_letters, way) for way in ("down", "up"))
    assert few <= set(low.fooled_by)
    assert few <= set(low.above_real)
    assert not low.passed
    assert {offence.heuristic for offence in low.offences} == set(low.fooled_by)
    assert not few & set(high.fooled_by)


def test_a_constant_metric_is_fooled_by_all(toy):
    found = check(toy, lambda texts: 1, "up")
    assert set(found.fooled_by) == set(found.heuristics)
    assert len(found.offences) == len(found.heuristics) * len(found.trained)


def test_trained_banks_of_ones_own_replace_the_stand_ins_and_a_reference_comes_first(toy):
    seen = []

    def paired(reference, texts):
        seen.append((tuple(reference), tuple(texts)))
        return float(len(set(texts) & set(reference)))

    mine = {"mine": ("in the land", "and the lord")}
    found = check(toy, paired, "up", takes_reference=True, trained=mine)
    assert list(found.trained) == ["mine"]
    assert len({reference for reference, _ in seen}) == 1
    assert mine["mine"] in [texts for _, texts in seen]
    assert all(len(text) == TOY["gen_length"] for reference, _ in seen for text in reference)
    # Real text is compared with other windows than its own.
    assert found.real < TOY["num_samples"]


@pytest.mark.parametrize("value", [math.nan, math.inf, "0.5", [1.0, 2.0]])
def test_a_metric_without_a_finite_number_is_refused_by_bank(toy, value):
    with pytest.raises(InputError, match=r"topk_iid 4.*finite"):
        check(toy, lambda texts: value, "up")


def test_bad_settings_are_named(toy):
    with pytest.raises(InputError, match="'sideways'"):
        check(toy, lambda texts: 1.0, "sideways")
    with pytest.raises(InputError, match="periodic of size 1000"):
        check(toy, lambda texts: 1.0, "up", sizes={"periodic": (1000,)})
    with pytest.raises(InputError, match=r"reference=toy:heldout.*windows"):
        check(toy, lambda texts: 1.0, "up", num_samples=4000)


def test_noise_replaces_its_share_by_tokens_of_the_counts():
    counts = samplers.corpus_counts([np.array([7] * 9 + [8])])
    rows = np.zeros((100, 100), np.int32)
    assert (noised(rows, counts, 0.0, seed=0) == rows).all()
    full = noised(rows, counts, 1.0, seed=0)
    assert set(np.unique(full)) == {7, 8}
    assert np.mean(full == 7) == pytest.approx(0.9, abs=0.02)
    assert np.mean(noised(rows, counts, 0.15, seed=0) != 0) == pytest.approx(0.15, abs=0.02)
    with pytest.raises(InputError, match=r"level=1\.5"):
        noised(rows, counts, 1.5, seed=0)


def test_the_order_is_strict_in_either_direction_and_missing_values_make_no_pair():
    table = {
        "model": {"mauve": 0.5, "jcd": 0.1, "gen_ppl": 30.0},
        "weak": {"mauve": 0.2, "jcd": math.nan, "gen_ppl": 50.0},
        "periodic": {"mauve": 0.2, "jcd": 0.05, "gen_ppl": 20.0},
        "mirror": {"mauve": 0.1, "gen_ppl": 60.0},
    }
    ways = {"mauve": "up", "jcd": "down", "gen_ppl": "down"}
    broken = heuristics_last(
        table, ways, heuristics=("periodic", "mirror"), trained=("model", "weak")
    )
    assert broken == [
        ("mauve", "periodic", "weak"),  # a tie is not worse
        ("jcd", "periodic", "model"),
        ("gen_ppl", "periodic", "model"),
        ("gen_ppl", "periodic", "weak"),
    ]
    with pytest.raises(InputError, match="'nobody'"):
        heuristics_last(table, ways, heuristics=("nobody",), trained=())
