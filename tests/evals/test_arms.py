"""Arms: disjoint windows for every seed, the same prompts for every arm, refusals by flag."""

import dataclasses
import itertools

import pytest

from dlmeval.evals import arms
from dlmeval.evals.experiment import option
from dlmeval.evals.options import GridOptions, Options, check_options

TOY = {
    "denoiser": "toy:denoiser",
    "scorer": "toy:scorer",
    "reference": "toy:heldout",
    "training": "toy:train",
    "gen_length": 10,
    "num_samples": 8,
    "seeds": (3, 5),
    "num_null_banks": 2,
    "strategies": ("none", "random"),
    "unmask_temps": (0.0, 1.0),
    "num_steps": (4,),
}


def world(toy, **changes):
    return arms.open_world(GridOptions(**(TOY | changes)), toy.toy_sources())


def spans(cells):
    return [(cell.offset, cell.offset + cell.num_samples) for cell in cells]


def test_reference_and_null_draws_share_no_window(toy):
    cells = list(arms.reference_cells(world(toy)))
    assert [(cell.seed, cell.part) for cell in cells] == [(s, p) for s in (3, 5) for p in range(3)]
    ordered = sorted(spans(cells))
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ordered))


def test_arms_with_a_prefix_continue_the_windows_of_their_reference(toy):
    opened = world(toy, prefix_length=6)
    reference = {c.seed: c for c in arms.reference_cells(opened) if not c.part}
    for cell in [*arms.grid_cells(opened), *arms.causal_cells(opened)]:
        other = reference[cell.seed]
        same = ("offset", "prefix_length", "corpus", "corpus_digest", "model")
        assert all(getattr(cell, name) == getattr(other, name) for name in same[:-1])
    naive = list(arms.naive_cells(opened, [("mirror", 4)]))
    assert {cell.prefix_length for cell in naive} == {None}


def test_the_grid_is_complete(toy):
    cells = list(arms.grid_cells(world(toy)))
    assert len({cell.fingerprint for cell in cells}) == len(cells) == 2 * 2 * 1 * 2
    assert {c.remask_fraction for c in cells if c.strategy == "none"} == {None}
    assert {c.remask_fraction for c in cells if c.strategy == "random"} == {0.15}


def test_external_texts_take_windows_of_their_own_at_each_seed(toy):
    cells = list(arms.external_cells(world(toy), {"mine": "toy:elsewhere"}))
    assert [(c.role, c.strategy, c.seed) for c in cells] == [
        ("external", "mine", 3),
        ("external", "mine", 5),
    ]
    assert spans(cells) == [(0, 8), (8, 16)]


def test_without_a_denoiser_the_scorer_cuts_the_text(toy):
    opened = world(toy, denoiser=None)
    assert (opened.model, opened.kind) == ("toy:scorer", "scorer")
    cells = [*arms.reference_cells(opened), *arms.naive_cells(opened, [("periodic", 4)])]
    assert {cell.vocabulary for cell in cells} == {"scorer"}
    with pytest.raises(ValueError, match="--denoiser=none"):
        list(arms.grid_cells(opened))


class Otherwise:
    """A tokenizer that agrees with nobody."""

    def encode(self, text):
        return [1 + ord(letter) % 7 for letter in text]

    def decode(self, ids):
        return "x" * len(ids)


def test_a_causal_arm_of_other_tokens_cannot_continue_the_prompts(toy):
    scorer = toy.toy_scorer()
    scorer.tokenizer = Otherwise()
    sources = toy.toy_sources(load_scorer=lambda source: scorer)
    opened = arms.open_world(GridOptions(**TOY, prefix_length=6), sources)
    with pytest.raises(ValueError, match="cuts the text otherwise"):
        list(arms.causal_cells(opened))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_samples": 5000}, "--reference=toy:heldout.*disjoint windows"),
        ({"reference": "gone.txt"}, "--reference=gone.txt"),
        ({"seeds": (1, 1)}, "repeats a value"),
        ({"seeds": ()}, "--seeds=?.*is empty"),
        ({"seeds": (-1,)}, "--seeds"),
        ({"num_samples": 7}, "--num_samples=7 must be at least 8"),
        ({"prefix_length": -1}, "--prefix_length"),
        ({"pace": "slow"}, "--pace=slow is unknown"),
        ({"cjk_max": 1.5}, "--cjk_max=1.5 must be at most 1"),
        ({"num_steps": (4, 0)}, "--num_steps"),
    ],
)
def test_settings_are_refused_by_the_name_of_their_flag(toy, changes, message):
    with pytest.raises(ValueError, match=message):
        world(toy, **changes)


def test_naive_arms_need_training_text_and_sizes_it_allows(toy):
    with pytest.raises(ValueError, match="--training is missing"):
        list(arms.naive_cells(world(toy, training=None), [("mirror", 4)]))
    with pytest.raises(ValueError, match="--topk_iid=5000"):
        list(arms.naive_cells(world(toy), [("topk_iid", 5000)]))


@dataclasses.dataclass(frozen=True)
class Own(Options):
    """An experiment's own settings."""

    names: tuple[str, ...] = option((), "Names.", empty=True)
    share: float = option(0.5, "A share.", least=0, most=1)


def test_an_experiment_states_the_bounds_of_its_own_settings():
    check_options(Own())
    with pytest.raises(ValueError, match=r"--share=2\.0 must be at most 1"):
        Own(share=2.0)


def test_scoring_follows_the_settings(toy):
    config = GridOptions(**TOY, num_mauve_seeds=2)
    settings = arms.base_scoring(config, toy.toy_sources())
    assert settings.mauve_seeds == (0, 1)
    assert settings.training == "toy:train"
    alone = arms.base_scoring(GridOptions(**(TOY | {"training": None})), toy.toy_sources())
    assert (alone.training, alone.training_digest) == (None, "")
