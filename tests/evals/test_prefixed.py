"""Prompts: the same for every arm of a seed, continued by all, and read by the scorer."""

import dataclasses

import numpy as np
import pytest

from dlmeval.evals import Cell, bank_digest, read_scores, run_experiment
from dlmeval.evals.banks.bank import SampleBank
from dlmeval.evals.sampling.drawing import drawer, find_match, prompts
from dlmeval.evals.scoring.prefixed import cached_continued, prompt_texts
from dlmeval.evals.workdir.sample_stage import cell_manifest

PREFIX, LENGTH = 6, 10
COMMON = {
    "gen_length": LENGTH,
    "num_samples": 12,
    "seed": 1,
    "model": "toy:x",
    "corpus": "toy:heldout",
    "prefix_length": PREFIX,
    "offset": 12,
}
DENOISED = Cell(
    role="generated", strategy="none", num_steps=5, unmask_temp=1.0, pace="ceil", **COMMON
)
REFERENCE = Cell(role="reference", strategy="reference", part=0, **COMMON)
CAUSAL = Cell(role="autoregressive", strategy="autoregressive", unmask_temp=1.0, **COMMON)


def bank_of(texts):
    n = len(texts)
    zeros = np.zeros(n, np.int32)
    accepted = np.ones(n, bool)
    return SampleBank(zeros[:, None], zeros, tuple(texts), zeros, accepted, {}, bank_digest(texts))


def test_every_arm_of_a_seed_has_the_prompts_of_its_reference(toy):
    sources = toy.toy_sources()
    given = [prompts(cell, sources) for cell in (DENOISED, REFERENCE, CAUSAL)]
    assert given[0].shape == (12, PREFIX)
    assert all(np.array_equal(given[0], other) for other in given)
    other = prompts(dataclasses.replace(DENOISED, offset=0), sources)
    assert not np.array_equal(given[0], other)


def test_prompt_and_real_continuation_make_up_the_text(toy):
    sources = toy.toy_sources()
    rest = drawer(REFERENCE, sources, batch_size=8)(range(12)).samples
    document = "".join(sources.corpus("toy:heldout").documents)
    for prefix, sample in zip(prompt_texts(REFERENCE, sources), rest):
        assert len(sample.ids) == LENGTH
        assert prefix + sample.text in document


@pytest.mark.parametrize("cell", [DENOISED, CAUSAL], ids=lambda cell: cell.role)
def test_rows_are_continuations_and_depend_on_their_prompt(toy, cell):
    sources = toy.toy_sources()
    whole = drawer(cell, sources, batch_size=5)(range(12)).samples
    assert all(len(sample.ids) <= LENGTH for sample in whole)
    elsewhere = dataclasses.replace(cell, offset=0)
    other = drawer(elsewhere, sources, batch_size=5)(range(12)).samples
    assert [s.text for s in whole] != [s.text for s in other]
    again = drawer(cell, sources, batch_size=5)(range(7, 9)).samples
    assert [s.text for s in again] == [s.text for s in whole[7:9]]


def test_manifests_tell_that_banks_share_prompts(toy):
    sources = toy.toy_sources()
    records = [cell_manifest(cell, sources)["prompts"] for cell in (DENOISED, REFERENCE)]
    assert records[0] == records[1]
    assert records[0]["prefix_length"] == PREFIX
    other = cell_manifest(dataclasses.replace(DENOISED, offset=0), sources)["prompts"]
    assert other["digest"] != records[0]["digest"]
    unprompted = dataclasses.replace(DENOISED, prefix_length=None)
    assert cell_manifest(unprompted, sources)["prompts"] is None


def test_likelihood_given_the_prompt_is_a_difference_of_whole_texts(toy, tmp_path):
    scorer = toy.toy_scorer()
    prefixes = ("and the", "lord", "unto moses")
    texts = (" said", " speak thou all", "")
    found = cached_continued(
        tmp_path,
        bank_of(texts),
        prefixes,
        scorer,
        model_digest="m",
        max_tokens=20,
        batch_size=2,
    )

    def whole(text):
        ids = np.zeros((1, 40), np.int32)
        row = scorer.tokenizer.encode(text)
        ids[0, : len(row)] = row
        nll, _ = scorer.nll(ids, np.array([len(row)]), np.ones((1, 40), bool))
        return float(nll[0])

    for i, (prefix, text) in enumerate(zip(prefixes, texts)):
        assert found.num_tokens[i] == len(text)
        assert found.nll[i] == pytest.approx(whole(prefix + text) - whole(prefix), abs=1e-3)


def test_the_cache_knows_the_prompts(toy, tmp_path):
    scorer = toy.toy_scorer()
    bank = bank_of((" said", " speak"))
    settings = {"model_digest": "m", "max_tokens": 8, "batch_size": 2}
    one = cached_continued(tmp_path, bank, ("the", "lord"), scorer, **settings)
    two = cached_continued(tmp_path, bank, ("thou", "land"), scorer, **settings)
    assert not np.array_equal(one.nll, two.nll)
    assert len(list(tmp_path.iterdir())) == 2
    again = cached_continued(tmp_path, bank, ("the", "lord"), None, **settings)
    assert np.array_equal(one.nll, again.nll)
    for path in tmp_path.iterdir():
        path.write_bytes(b"x")
    with pytest.raises(ValueError, match="damaged"):
        cached_continued(tmp_path, bank, ("the", "lord"), scorer, **settings)


def test_a_target_is_searched_for_and_recorded(toy):
    sources = toy.toy_sources()
    cell = dataclasses.replace(
        DENOISED, strategy="high_entropy", num_steps=None, target_nfe=8, match_mode="cap"
    )
    assert cell.arm == "high_entropy t=1 NFE=8 cap"
    match = find_match(cell, sources)
    drawn = drawer(cell, sources, batch_size=6, match=match)(range(12))
    nfe = np.mean([sample.nfe for sample in drawn.samples])
    record = cell_manifest(cell, sources, match)
    assert record["match"]["target"] == 8
    assert record["sampler"]["num_steps"] == match.config.num_steps > 1
    assert match.agrees(float(nfe))
    assert find_match(DENOISED, sources) is None
    assert cell_manifest(DENOISED, sources)["match"] is None


def test_an_arm_that_saturates_says_so(toy):
    sources = toy.toy_sources()
    cell = dataclasses.replace(DENOISED, num_steps=None, target_nfe=16, match_mode="cap")
    match = find_match(cell, sources)
    assert match.saturated
    longer = dataclasses.replace(cell, match_mode="length")
    match = find_match(longer, sources)
    rows = drawer(longer, sources, batch_size=6, match=match)(range(2)).samples
    assert [len(row.ids) for row in rows] == [16, 16]
    assert [row.nfe for row in rows] == [16, 16]


def test_a_run_with_prompts_scores_texts_both_ways(toy, tmp_path):
    config = toy.SMALL_CONFIG | {"prefix_length": 6, "gen_length": 10, "num_samples": 8}
    run_experiment("quickstart", config, tmp_path / "w", sources=toy.toy_sources())
    scores = [read_scores(path) for path in (tmp_path / "w" / "scores").iterdir()]
    roles = {s.cell.role: s.metrics for s in scores}
    assert "gen_ppl_given_prefix" not in roles["heuristic"]
    for role in ("generated", "reference", "autoregressive"):
        given, plain = roles[role]["gen_ppl_given_prefix"], roles[role]["gen_ppl"]
        assert given.value != plain.value
        assert "|given:prefix|" in given.signature
        assert "|given:" not in plain.signature
