"""Arms: disjoint windows for every seed, the same prompts for every arm, refusals by flag."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

from dlmeval.evals import arms, contenders
from dlmeval.evals.cell import arm_labels
from dlmeval.evals.corpora.corpus import Corpus
from dlmeval.evals.experiment import option
from dlmeval.evals.options import GridOptions, Options, check_options
from dlmeval.evals.sampling.drawing import sample_keys, sampler_config
from dlmeval.evals.sampling.idle_remasking import why_idle
from dlmeval.evals.sampling.network import sample_from

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
    cells = list(contenders.external_cells(world(toy), {"mine": "toy:elsewhere"}))
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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"remask_fraction": 0.09}, r"arm random t=0 N=4: remask_fraction=0.09 of a block of 10"),
        ({"remask_fraction": 0.0}, "be 'none' under another name; raise the fraction to 0.1 or"),
        ({"block_length": 5, "remask_fraction": 0.19}, "0.2 or more"),
        ({"strategies": ("rcr_mdpo",), "num_steps": (1,)}, "one step a block, .* at least 2 steps"),
        ({"strategies": ("p2",), "num_steps": (2,), "block_length": 5}, "at least 4 steps"),
        ({"strategies": ("remedi",)}, "--denoiser=toy:denoiser gives logits alone"),
    ],
)
def test_an_arm_that_would_remask_nothing_is_refused(toy, changes, message):
    with pytest.raises(ValueError, match=message):
        list(arms.grid_cells(world(toy, **{"strategies": ("random",)} | changes)))


@pytest.mark.parametrize(
    "changes",
    [
        {"strategies": ("random",), "remask_fraction": 0.1},
        {"strategies": ("running_confidence",), "remask_fraction": 0.0},  # sets its own counts
        {"strategies": ("none", "origin", "mdlm"), "remask_fraction": 0.0},
        {"strategies": ("rcr_mdpo",), "remask_fraction": 0.0, "num_steps": (2,)},
    ],
)
def test_arms_that_remask_or_never_do_are_planned(toy, changes):
    assert list(arms.grid_cells(world(toy, **changes)))


def test_a_refused_fraction_is_the_one_that_changes_nothing(toy):
    opened = world(toy)
    denoiser = toy.toy_sources().denoiser("toy:denoiser")
    keys = sample_keys(0, range(4))
    texts = {}
    for fraction in (0.0, 0.09, 0.1, 0.3):
        cell = arms.denoised_cell(opened, "random", 0.0, 8, seed=3, remask_fraction=0.0)
        config = dataclasses.replace(sampler_config(cell), remask_fraction=fraction)
        assert (why_idle(config) is not None) == (fraction < 0.1)
        empty = np.zeros((4, 0), np.int32)
        samples = sample_from(denoiser, config, empty, empty.astype(bool), keys)
        texts[fraction] = samples.nfe.tolist(), samples.tokens.tolist()
    assert texts[0.09] == texts[0.0]
    assert texts[0.1][0] != texts[0.0][0]


def test_recorded_samples_are_not_more_than_there_is_text_for(toy):
    with pytest.raises(ValueError, match="9 recorded samples are more than --num_samples=8"):
        arms.denoised_cell(world(toy), "none", 0.0, 4, seed=3, role="trajectory", num_samples=9)


def test_external_texts_are_not_compared_with_themselves(toy):
    for texts, other in (
        ({"mine": "toy:heldout"}, "--reference=toy:heldout"),
        ({"a": "toy:elsewhere", "b": "toy:elsewhere"}, "--external=a=toy:elsewhere"),
    ):
        with pytest.raises(ValueError, match=f"holds the texts of {other}"):
            list(contenders.external_cells(world(toy), texts))


def test_short_external_texts_are_left_out_with_a_warning(toy):
    opened = world(toy, num_samples=8, seeds=(3,))
    long, short = ("and the lord said unto moses",) * 8, ("speak",) * 3
    plain = opened.sources.corpus
    opened.sources.corpus = lambda name: (
        Corpus(name, long + short, "digest") if name == "mixed" else plain(name)
    )
    with pytest.warns(UserWarning, match="3 of 11 texts are shorter than --gen_length=10"):
        cells = list(contenders.external_cells(opened, {"mine": "mixed"}))
    assert len(cells) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ascii_min": math.nan}, "--ascii_min=nan must be finite"),
        ({"unmask_temps": (0.0, math.inf)}, "--unmask_temps=.* must be finite"),
        ({"gradient_batches": 1}, "--gradient_batches=1 must be at least 2"),
        ({"gradient_batches": 9}, "--gradient_batches=9 exceeds --num_samples=8"),
        ({"whiten": 4}, "--whiten=4 is for features of encoders"),
    ],
)
def test_numbers_that_no_bank_can_use_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        GridOptions(**(TOY | changes))


def test_seeds_whose_draws_would_repeat_are_refused(toy):
    assert list(arms.grid_cells(world(toy, seeds=(3, 2**31 - 1))))
    for seed in (2**31, 2**32 + 3):  # the latter would draw what seed 3 draws
        with pytest.raises(ValueError, match=f"seed is {seed}; accepted: 0 to 2147483647"):
            list(arms.grid_cells(world(toy, seeds=(3, seed))))


def test_temperatures_that_print_alike_keep_arms_of_their_own(toy):
    cells = list(arms.grid_cells(world(toy, unmask_temps=(0.1, 0.10000000001))))
    labels = arm_labels(cells)
    groups = {}
    for cell in cells:
        groups.setdefault(labels[cell.fingerprint], set()).add(cell.unmask_temp)
    assert all(len(temps) == 1 for temps in groups.values())
    assert len(groups) == 4


def contenders_of(toy, **changes):
    given = {name: TOY[name] for name in TOY} | {"topk_iid": (), "mirror": (), "periodic": (4,)}
    given |= {"phrase_bank": ()} | changes
    return contenders.contender_cells(contenders.ContenderOptions(**given), toy.toy_sources())


def test_a_comparison_needs_something_beside_real_text(toy):
    assert contenders_of(toy)
    with pytest.raises(ValueError, match="nothing to compare with real text"):
        contenders_of(toy, denoiser=None, autoregressive=False, periodic=())


def test_an_external_generator_has_a_name_of_its_own(toy):
    with pytest.raises(ValueError, match="'random' is one of --strategies too"):
        contenders_of(toy, external=("random=toy:elsewhere",))
    assert contenders_of(toy, external=("random=toy:elsewhere",), strategies=("none",))
