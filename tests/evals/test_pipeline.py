"""The pipeline on the toy world: what it writes, that it resumes, and what it refuses."""

import dataclasses
import errno
import json
import os
import shutil

import numpy as np
import pytest

from dlmeval import samplers
from dlmeval.evals import Cell, InputError, load_history, read_bank, run_experiment
from dlmeval.evals.banks.bank_writer import BankWriter
from dlmeval.evals.experiment import load_experiment, make_config
from dlmeval.evals.scoring.scores import aggregate, null_band
from dlmeval.evals.sources import model_digest
from dlmeval.evals.storage import write_json
from dlmeval.evals.workdir.estimate import estimate, forwards
from dlmeval.evals.workdir.events import EventLog
from dlmeval.evals.workdir.plan import make_plan, read_plan
from dlmeval.evals.workdir.sample_stage import bank_path, cell_manifest, sample_cell
from dlmeval.evals.workdir.score_stage import load_scores, run_score_stage

DISTANCES = {"mauve", "energy_distance", "mmd", "frechet_distance", "jcd"}
OWN = {"gen_ppl", "h_uni", "h_pos", "h_pos_mm", "self_bleu", "distinct_3", "acceptance", "nfe_mean"}


@pytest.fixture(scope="module")
def finished(toy, tmp_path_factory):
    """A workdir whose stages sample and score are done; copy it before changing it."""
    workdir = tmp_path_factory.mktemp("runs") / "toy"
    done = run_experiment(
        "quickstart", toy.TOY_CONFIG, workdir, "sample,score", sources=toy.toy_sources()
    )
    assert done == {"sample": 23, "score": 22}
    return workdir


@pytest.fixture(scope="module")
def plan(finished):
    return read_plan(finished)


@pytest.fixture
def copy(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "copy")


def contents(workdir):
    files = (path for path in workdir.rglob("*") if path.is_file())
    return {p.relative_to(workdir): p.read_bytes() for p in files if p.name != "events.jsonl"}


def run(toy, workdir, stages="sample,score", sources=None, **changes):
    config = toy.TOY_CONFIG | changes
    return run_experiment(
        "quickstart", config, workdir, stages, sources=sources or toy.toy_sources()
    )


def test_the_plan_lists_every_cell_and_its_reference(finished, plan):
    record = json.loads((finished / "plan.json").read_text())
    assert [entry["fingerprint"] for entry in record["cells"]] == [
        cell.fingerprint for cell in plan.cells
    ]
    roles = [cell.role for cell in plan.cells]
    counts = {role: roles.count(role) for role in set(roles)}
    assert counts == {
        "reference": 4,
        "autoregressive": 2,
        "generated": 8,
        "heuristic": 8,
        "trajectory": 1,
    }
    for cell in plan.cells:
        reference = plan.reference_of(cell)
        if reference is not None:
            assert (reference.seed, reference.part) == (cell.seed, 0)


def test_a_plan_read_back_is_the_plan(toy, plan):
    assert make_plan("quickstart", toy.TOY_CONFIG, toy.toy_sources()) == plan


def test_real_text_banks_are_disjoint(finished, plan):
    cells = [cell for cell in plan.cells if cell.role == "reference"]
    offsets = sorted(cell.offset for cell in cells)
    assert offsets == [0, 16, 32, 48]


def test_every_bank_verifies_and_counts_its_forwards(finished, plan):
    for cell in plan.cells:
        bank = read_bank(bank_path(finished, cell))
        assert len(bank.texts) == cell.num_samples
        assert bank.manifest["cell"] == dataclasses.asdict(cell)
        if cell.role == "autoregressive":
            assert (bank.nfe == cell.gen_length - 1).all()  # the first token is real text
        elif cell.role in ("reference", "heuristic"):
            assert not bank.nfe.any()
        elif cell.strategy == "none":
            assert (bank.nfe == cell.num_steps).all()
        else:
            assert (bank.nfe > cell.num_steps).all()
            assert (bank.nfe <= 2 * cell.num_steps + 1).all()


def test_texts_are_the_decoded_ids(toy, finished, plan):
    for cell in plan.cells:
        bank = read_bank(bank_path(finished, cell))
        for ids, length, text in zip(bank.ids, bank.lengths, bank.texts, strict=True):
            assert toy.Letters().decode(ids[:length]) == text
            assert toy.EOS_ID not in ids[:length]


def test_scores_carry_everything(finished, plan):
    for scores in load_scores(plan, finished):
        names = set(scores.metrics)
        assert names >= OWN
        assert (names >= DISTANCES) == (scores.reference_digest is not None)
        for name, score in scores.metrics.items():
            assert score.signature.startswith(name + "|")
            if score.value is not None and name != "launches" and "adjusted" not in name:
                assert score.stderr is not None, name
            if name in DISTANCES:
                assert f"ref:{scores.reference_digest[:8]}" in score.signature


def test_arms_average_their_seeds_and_the_null_band_its_draws(finished, plan):
    scores = load_scores(plan, finished)
    table = aggregate(scores)
    assert set(table) == {
        "reference",
        "autoregressive t=1",
        *(f"{s} t={t} N=8" for s in ("none", "high_entropy") for t in (0, 1)),
        *("topk_iid 8", "mirror 8", "periodic 8", "phrase_bank 20"),
    }
    assert table["periodic 8"]["self_bleu"].value == pytest.approx(1.0)
    assert table["periodic 8"]["h_pos"].value == pytest.approx(0.0, abs=1e-6)
    assert table["reference"]["gen_ppl"].n == 32
    band = null_band(scores)
    assert set(band) >= DISTANCES
    assert band["jcd"].num_banks == 2
    assert band["jcd"].high < table["periodic 8"]["jcd"].value


def test_encoders_enter_plan_cache_and_scores(toy, copy, plan):
    cells = [c for c in plan.cells if c.seed == 0 and c.role in ("reference", "heuristic")]
    encoder = toy.toy_encoder()
    scoring = dataclasses.replace(
        plan.scoring,
        encoders=("toy/letters",),
        encoder_digests=(model_digest(encoder.card),),
        whiten=4,
    )
    widened = dataclasses.replace(plan, cells=tuple(cells), scoring=scoring)
    write_json(copy / "plan.json", widened.record())
    assert read_plan(copy) == widened

    shutil.rmtree(copy / "scores")
    before = set((copy / "features").iterdir())
    log = EventLog(copy / "events.jsonl")
    sources = toy.toy_sources(load_encoder=lambda source: encoder)
    assert run_score_stage(widened, copy, sources, log, 8) == len(cells)
    assert len(set((copy / "features").iterdir()) - before) == len(cells)
    for scores, cell in zip(load_scores(widened, copy), cells, strict=True):
        assert ("mmd@letters" in scores.metrics) == (widened.reference_of(cell) is not None)
    first = contents(copy)

    shutil.rmtree(copy / "scores")
    encoder.encode = None  # the cache answers
    assert run_score_stage(widened, copy, sources, log, 8) == len(cells)
    assert contents(copy) == first


def test_a_plan_from_before_encoders_is_read(copy, plan):
    record = json.loads((copy / "plan.json").read_text())
    for name in ("encoders", "encoder_digests", "whiten", "features"):
        del record["scoring"][name]
    (copy / "plan.json").write_text(json.dumps(record))
    assert read_plan(copy) == plan


def test_a_history_is_stored_and_hashed(finished, plan):
    cell = next(cell for cell in plan.cells if cell.role == "trajectory")
    history = load_history(bank_path(finished, cell))
    bank = read_bank(bank_path(finished, cell))
    assert history.canvas.shape == (cell.num_steps, cell.num_samples, cell.gen_length)
    classes = np.asarray(samplers.classify_cells(history))
    assert (classes == samplers.CELL_CLASSES.index("masked")).any()
    decided = history.canvas[-1] != history.mask_id
    for row, ids, length in zip(range(len(bank.ids)), bank.ids, bank.lengths, strict=True):
        kept = decided[row, :length]
        assert (history.canvas[-1][row, :length][kept] == ids[:length][kept]).all()
    other = next(cell for cell in plan.cells if cell.role == "generated")
    with pytest.raises(ValueError, match="no history"):
        load_history(bank_path(finished, other))


def test_nothing_left_to_do_runs_no_network(toy, copy, capsys):
    before = contents(copy)
    assert run(toy, copy, sources=toy.silent_sources()) == {"sample": 0, "score": 0}
    assert contents(copy) == before
    assert capsys.readouterr().out.count("nothing left to do") == 2


def test_nothing_temporary_stays(finished):
    names = [path.name for path in finished.rglob("*")]
    assert not [name for name in names if name.endswith((".tmp", ".part", ".lock"))]


def test_events_tell_compilation_from_running(finished):
    events = [json.loads(line) for line in (finished / "events.jsonl").read_text().splitlines()]
    sampled = [event for event in events if event["event"] == "sample"]
    assert len(sampled) == 23
    first = {}
    for event in sampled:
        first.setdefault(event["arm"].split()[0], event)
    assert first["none"]["compile_s"] > 0
    again = [e for e in sampled if e["arm"].startswith("none") and e != first["none"]]
    assert sum(event["compile_s"] for event in again) < first["none"]["compile_s"]
    assert all(event["peak_memory_bytes"] > 1e7 and event["device"] for event in sampled)


@pytest.mark.parametrize("batch_size", [1, 7, 16])
def test_a_bank_does_not_depend_on_the_batch_size(toy, finished, plan, tmp_path, batch_size):
    warm = (c for c in plan.cells if c.strategy == "high_entropy" and c.unmask_temp)
    cell = next(warm)
    sample_cell(cell, tmp_path / "bank", toy.toy_sources(), batch_size, shard_size=8)
    stored = bank_path(finished, cell)
    for path in stored.glob("*.jsonl"):
        assert (tmp_path / "bank" / path.name).read_bytes() == path.read_bytes()
    assert read_bank(tmp_path / "bank").digest == read_bank(stored).digest


def test_lost_pieces_are_made_again_to_the_same_bytes(toy, copy, plan, finished):
    before = contents(copy)
    generated = [cell for cell in plan.cells if cell.role == "generated"]
    for scores in (copy / "scores").iterdir():
        scores.unlink()
    shutil.rmtree(copy / "features")
    shutil.rmtree(bank_path(copy, generated[0]))
    half = bank_path(copy, generated[1])
    shutil.rmtree(half)
    writer = BankWriter.open(half, cell_manifest(generated[1], toy.toy_sources()), shard_size=8)
    (half / "samples-00000-of-00002.jsonl.part").write_text("half a line")
    assert len(writer.missing()) == 2
    assert run(toy, copy) == {"sample": 2, "score": 22}
    assert contents(copy) == before


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"gen_length": 8}, "--gen_length (16, now 8)"),
        ({"unmask_temps": (0.0,)}, "--unmask_temps (0.0,1.0, now 0.0)"),
        ({"seeds": (0, 2)}, "--seeds (0,1, now 0,2)"),
    ],
)
def test_a_workdir_keeps_to_its_plan(toy, copy, changes, named):
    before = contents(copy)
    with pytest.raises(ValueError, match="--workdir") as caught:
        run(toy, copy, **changes)
    assert named in str(caught.value)
    assert contents(copy) == before


@pytest.mark.parametrize(
    ("loaders", "field"),
    [
        ({"load_denoiser": lambda toy: lambda _: toy.toy_denoiser(seed=5)}, "model_digest"),
        ({"load_corpus": lambda toy: lambda s: toy.toy_corpus(s, 31)}, "corpus_digest"),
    ],
)
def test_changed_weights_or_text_are_another_plan(toy, copy, loaders, field):
    changed = {name: make(toy) for name, make in loaders.items()}
    with pytest.raises(ValueError, match=field):
        run(toy, copy, sources=toy.toy_sources(**changed))


def test_a_resumed_run_may_change_its_batch_size(toy, copy):
    assert run(toy, copy, batch_size=4) == {"sample": 0, "score": 0}


@pytest.mark.parametrize("stages", ["sample", "score", "report"])
def test_an_edited_bank_stops_every_stage(toy, copy, plan, stages):
    cell = next(cell for cell in plan.cells if cell.role == "generated")
    path = next(bank_path(copy, cell).glob("*.jsonl"))
    path.write_text(path.read_text().replace('"nfe": 8', '"nfe": 4'))
    before = contents(copy)
    with pytest.raises(ValueError, match="edited"):
        run(toy, copy, stages)
    assert contents(copy) == before


def test_scoring_needs_banks(toy, tmp_path):
    with pytest.raises(ValueError, match="--stages=sample"):
        run(toy, tmp_path / "new", "score")


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"gen_length": 400}, "--reference=toy:heldout: no document has 400 tokens"),
        ({"num_samples": 4000}, "--reference=toy:heldout: 16000 disjoint windows"),
        ({"periodic": 90}, "--periodic=90: size"),
        ({"strategies": ("nones",)}, "nones"),
        ({"unmask_temps": (-1.0,)}, "unmask_temp"),
        ({"block_length": 5}, "block_length"),
        ({"seeds": ()}, "--seeds"),
        ({"seeds": (1, 1)}, "--seeds"),
        ({"seeds": (0, -1)}, "--seeds"),
        ({"ascii_min": 2.0}, "--ascii_min"),
        ({"cjk_max": -0.1}, "--cjk_max"),
        ({"num_samples": 7}, "--num_samples=7 must be at least 8"),
        ({"num_trajectories": -1}, "--num_trajectories"),
        ({"gen_length": 1}, "--gen_length=1 must be at least 2"),
        ({"pace": "slow"}, "--pace"),
        ({"num_samples": 0}, "--num_samples"),
        ({"nonsense": 1}, "nonsense"),
    ],
)
def test_unusable_settings_are_named_before_anything_is_written(toy, tmp_path, changes, match):
    with pytest.raises(ValueError, match=match):
        run(toy, tmp_path / "new", **changes)
    assert not (tmp_path / "new").exists()


def test_a_model_without_tokenizer_is_named(toy, tmp_path):
    def bare(_):
        model = toy.toy_denoiser()
        model.tokenizer = None
        return model

    with pytest.raises(ValueError, match="--denoiser=toy:denoiser has no tokenizer"):
        run(toy, tmp_path / "new", sources=toy.toy_sources(load_denoiser=bare))


@pytest.mark.parametrize(("name", "stages"), [("quickstat", "sample"), ("quickstart", "sampel")])
def test_unknown_names_list_what_is_accepted(toy, tmp_path, name, stages):
    with pytest.raises(ValueError, match=r"accepted: .*(quickstart|sample,score,report)"):
        run_experiment(name, toy.TOY_CONFIG, tmp_path / "new", stages, sources=toy.toy_sources())


def test_folders_that_are_not_ours_are_left_alone(toy, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match="is a file"):
        run(toy, tmp_path / "file")
    with pytest.raises(ValueError, match=r"no plan\.json"):
        run(toy, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_every_config_field_explains_itself():
    experiment = load_experiment("quickstart")
    for field in dataclasses.fields(experiment.Config):
        assert len(field.metadata["help"]) > 8, field.name
    assert make_config(experiment, {}) == experiment.Config()


@pytest.mark.parametrize(
    ("strategy", "most"),
    [("none", 16), ("high_entropy", 42), ("p2", 22), ("maskgit", 22), ("remdm_cap", 22)],
)
def test_forwards_are_bounded_by_what_the_kind_can_cost(strategy, most):
    cell = Cell(
        role="generated",
        strategy=strategy,
        gen_length=16,
        block_length=8,
        num_samples=4,
        num_steps=20,
        unmask_temp=1.0,
        seed=0,
    )
    assert forwards(cell) == most
    assert forwards(dataclasses.replace(cell, cfg_scale=1.0), batch_size=2) == 4 * most


def test_a_bank_of_another_cell_is_refused_at_every_stage(toy, copy, plan):
    one, other = (cell for cell in plan.cells if cell.strategy == "mirror")
    shutil.rmtree(bank_path(copy, one))
    shutil.copytree(bank_path(copy, other), bank_path(copy, one))
    for stage in ("sample", "score"):
        with pytest.raises(InputError, match="is that of another cell"):
            run_experiment("quickstart", toy.TOY_CONFIG, copy, stage, sources=toy.toy_sources())
    with pytest.raises(InputError, match="are of other texts than its bank holds now"):
        load_scores(plan, copy)


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record.update(cells=None),
        lambda record: record.update(config=[1]),
        lambda record: record["cells"].__setitem__(0, "gone"),
    ],
)
def test_an_edited_plan_is_refused_in_words(toy, copy, change):
    record = json.loads((copy / "plan.json").read_text())
    change(record)
    (copy / "plan.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match=r"plan\.json is no plan|belongs to another plan"):
        run_experiment("quickstart", toy.TOY_CONFIG, copy, "sample", sources=toy.toy_sources())


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.ENAMETOOLONG])
def test_a_workdir_that_takes_no_files_is_named(toy, tmp_path, monkeypatch, code):
    def refuse(path, value):
        raise OSError(code, os.strerror(code), str(path))

    monkeypatch.setattr("dlmeval.evals.pipeline.storage.write_json", refuse)
    with pytest.raises(InputError, match=r"plan\.json: .*name another --workdir"):
        run_experiment("quickstart", toy.TOY_CONFIG, tmp_path / "w", sources=toy.toy_sources())


def test_what_a_sampler_refuses_is_told_with_its_arm(toy, copy, plan, monkeypatch):
    cell = next(cell for cell in plan.cells if cell.role == "generated")
    shutil.rmtree(bank_path(copy, cell))

    def broken(*_, **__):
        raise ValueError("logits_fn returned NaN")

    monkeypatch.setattr("dlmeval.evals.sampling.drawing.sample_from", broken)
    with pytest.raises(InputError, match=rf"arm {cell.arm} seed 0: logits_fn returned NaN"):
        run_experiment("quickstart", toy.TOY_CONFIG, copy, "sample", sources=toy.toy_sources())


def test_an_estimate_counts_arms_that_share_a_label(plan, toy):
    cell = next(cell for cell in plan.cells if cell.strategy == "high_entropy")
    twin = dataclasses.replace(cell, remask_fraction=0.5)
    assert twin.arm == cell.arm
    references = [c for c in plan.cells if c.role == "reference"]
    both = dataclasses.replace(plan, cells=(*references, cell, twin))
    alone = dataclasses.replace(plan, cells=(*references, cell))
    counts = [estimate(p, toy.toy_sources(), 8).forwards for p in (both, alone)]
    assert sum(counts[0].values()) == 2 * sum(counts[1].values()) > 0
