"""The experiments care, matched and dose: from settings to a page, on toys and made scores."""

import csv

import pytest
import written_run as made

from dlmeval.evals.experiments import care, dose, matched
from dlmeval.evals.pipeline import run_experiment
from dlmeval.evals.workdir.plan import make_plan
from dlmeval.evals.workdir.seed_scores import read_seeded_arms

WORLD = {
    "denoiser": "toy:denoiser",
    "scorer": "toy:scorer",
    "reference": "toy:heldout",
    "training": None,
    "gen_length": 8,
    "prefix_length": 4,
    "num_samples": 16,
    "seeds": (1, 2),
    "num_null_banks": 0,
    "num_mauve_seeds": 1,
    "batch_size": 16,
    "shard_size": 16,
}
CARE = WORLD | {
    "unmask_temps": (0.0, 0.5),
    "num_steps": (4,),
    "more_strategies": ("none", "random"),
    "more_steps": 4,
}
ONE_SEED = WORLD | {"seeds": (1,)}
MATCHED = ONE_SEED | {"unmask_temps": (0.5,), "targets": (12,), "match_modes": ("cap", "idle")}
DOSE = ONE_SEED | {"fractions": (0.0, 0.5), "num_steps": (4,), "num_recorded": 4}


@pytest.fixture(scope="module")
def sources(toy):
    return toy.toy_sources()


def rows(workdir, table):
    with (workdir / "report" / "tables" / f"{table}.csv").open(
        newline="", encoding="utf-8"
    ) as file:
        return list(csv.DictReader(file))


def test_a_tiny_grid_end_to_end(sources, tmp_path):
    done = run_experiment("care", CARE | {"causal_arm": False}, tmp_path / "run", sources=sources)
    assert done == {"sample": 12, "score": 12, "report": 1}
    metrics = {row["arm"]: row for row in rows(tmp_path / "run", "metrics")}
    labels = ["none t=0 N=4", "high_entropy t=0.5 N=4", "random t=0 N=4"]
    assert set(labels) < set(metrics)
    assert float(metrics[labels[0]]["nfe_mean"]) == 4
    assert float(metrics[labels[1]]["nfe_mean"]) > 4
    assert float(metrics[labels[0]]["gen_ppl_given_prefix"]) > 1
    # `random` stands beside the grid: in the table of strategies, and in no gap.
    assert [row["arm"] for row in rows(tmp_path / "run", "strategies")][-1] == labels[2]
    assert [row["arm"] for row in rows(tmp_path / "run", "gaps_mauve")] == [labels[1]]
    page = (tmp_path / "run" / "report" / "index.html").read_text(encoding="utf-8")
    assert "No ranking of strategies in MAUVE is claimed" in page
    arms = {arm.label: arm for arm in read_seeded_arms(tmp_path / "run")}
    assert {"reference", *labels} < set(arms)
    for seed in (1, 2):
        prompts = {arm.seeds[seed].prompts for arm in arms.values()}
        assert len(prompts) == 1
        assert None not in prompts
    assert arms[labels[0]].seeds[1].reference != arms[labels[0]].seeds[2].reference


def test_strategies_at_matched_compute_end_to_end(sources, tmp_path):
    run_experiment("matched", MATCHED, tmp_path / "run", sources=sources)
    found = {row["arm"]: row for row in rows(tmp_path / "run", "matched")}
    cap, idle = found["none t=0.5 NFE=12 cap"], found["none t=0.5 NFE=12 idle"]
    assert (float(cap["nfe_mean"]), cap["outcome"]) == (8, "saturated")
    assert (float(idle["nfe_mean"]), idle["outcome"]) == (12, "met")
    # Idle forwards buy nothing: the same texts, so the same scores.
    assert idle["mauve"] == cap["mauve"]
    remasked = found["high_entropy t=0.5 NFE=12 cap"]
    assert float(remasked["nfe_mean"]) == pytest.approx(12, abs=2)
    assert float(remasked["num_steps"]) < 12
    gaps = rows(tmp_path / "run", "gaps_mauve")
    assert [row["baseline"] for row in gaps] == ["none t=0.5 NFE=12 cap", "none t=0.5 NFE=12 idle"]
    assert all("one axis of at least 2 values" in row["verdict"] for row in gaps)  # one seed
    page = (tmp_path / "run" / "report" / "index.html").read_text(encoding="utf-8")
    assert "saturate below their target and cost less: none t=0.5 NFE=12 cap." in page


def test_a_dose_end_to_end(sources, tmp_path):
    run_experiment("dose", DOSE, tmp_path / "run", sources=sources)
    found = rows(tmp_path / "run", "dose")
    assert [(row["strategy"], row["remask_fraction"]) for row in found] == [
        (name, f) for name in ("high_entropy", "random") for f in ("0", "0.5")
    ]
    churn = [float(row["replacement_rate"]) for row in found]
    assert churn[0] == churn[2] == 0  # nothing is put back at fraction 0
    assert churn[3] > churn[2]
    # And then both strategies are no remasking: the same texts at the same cost.
    assert found[0]["mauve"] == found[2]["mauve"]
    assert float(found[0]["nfe_mean"]) == 4
    page = (tmp_path / "run" / "report" / "index.html").read_text(encoding="utf-8")
    assert "Rank correlation of churn and MAUVE" in page


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A full grid of made scores that meets all seven points: remasking loses 0.3 at t > 0."""
    workdir = tmp_path_factory.mktemp("runs") / "care"

    def value(name, cell):
        if name == "mauve" and cell.strategy == "high_entropy" and cell.unmask_temp:
            return made.default_value(name, cell) - 0.3
        return made.default_value(name, cell)

    made.write_run(workdir, made.cells(prefix_length=4), value=value)

    def planned(record):
        record["experiment"] = "care"
        record["config"] |= {
            "strategies": ["none", "high_entropy"],
            "unmask_temps": [0.0, 0.1, 0.25, 0.5],
            "num_steps": [8],
            "seeds": [1, 2, 3],
            "reference": "toy:heldout",
        }

    made.edit(workdir / "plan.json", planned)
    return workdir


def test_the_page_says_what_the_scores_say(written):
    care.report(written, sources=made.sources())
    report = written / "report"
    page = (report / "index.html").read_text(encoding="utf-8")
    assert "Protocol: care: 7/7 [1..7]; all seven points are met." in page
    assert "3 of 3 gaps tested; 3 of them are separated" in page
    assert "none has the best mean MAUVE" in page
    assert "care: 7/7" in (report / "badge.svg").read_text(encoding="utf-8")
    gaps = [float(row["gap"]) for row in rows(written, "gaps_mauve")]
    assert all(0.3 < gap < 0.6 for gap in gaps)
    names = {path.stem for path in (report / "tables").iterdir()}
    assert {
        "nfe",  # the paper's Table 3
        "mauve_by_budget",  # 5
        "metrics",  # 6
        "gaps_mauve",  # 7
        "anova_mauve",  # 8
        "anova_gen_ppl",
        "seeds_mauve",  # 13
        "perplexity_by_temperature",  # 17
        "acceptance",  # 19 and 20
        "protocol",
        "reported",
    } <= names
    figures = {path.name for path in (report / "figures").iterdir()}
    assert {"interaction_mauve.svg", "cost_mauve.png", "strategies_mauve.svg"} <= figures
    before = {p: p.read_bytes() for p in report.rglob("*") if p.is_file()}
    care.report(written, sources=made.sources())
    assert {p: p.read_bytes() for p in report.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize(
    ("experiment", "changes", "named"),
    [
        (matched, {"num_steps": (4,)}, "--num_steps=(4,) is searched here; give --targets"),
        (matched, {"match_modes": ("bon",)}, "--match_modes=bon is unknown; accepted: cap"),
        (matched, {"targets": ()}, "--targets is empty"),
        (dose, {"num_steps": (4, 8)}, "--num_steps=(4, 8): doses differ in fraction alone"),
        (dose, {"fractions": (0.0, 1.5)}, "--fractions=(0.0, 1.5) must be at most 1"),
        (dose, {"strategies": ("none",)}, "--strategies=none puts nothing back"),
        (dose, {"num_recorded": 99}, "--num_recorded=99 exceeds --num_samples=64"),
        (care, {"more_steps": 0}, "--more_steps=0 must be at least 1"),
    ],
)
def test_unusable_settings_are_named(experiment, changes, named):
    with pytest.raises(ValueError) as caught:
        experiment.Config(**changes)
    assert named in str(caught.value)


def test_plans_hold_what_is_compared(toy, sources):
    plan = make_plan("care", CARE | {"seeds": (1,)}, sources)
    drawn = [(c.strategy, c.unmask_temp) for c in plan.cells if c.role == "generated"]
    assert drawn.count(("none", 0.0)) == 1  # --more_strategies repeats no arm of the grid
    assert drawn[-1] == ("random", 0.0)
    assert [c.role for c in plan.cells].count("autoregressive") == 1
    other = toy.toy_sources(load_scorer=lambda _: _other_tokenizer(toy))
    with pytest.raises(ValueError, match=r"cuts the text otherwise.*--causal_arm=false does"):
        make_plan("care", CARE, other)
    make_plan("care", CARE | {"causal_arm": False}, other)
    modes = [
        (c.strategy, c.target_nfe, c.match_mode)
        for c in make_plan("matched", MATCHED | {"targets": (6, 12)}, sources).cells
        if c.role == "generated" and c.seed == 1
    ]
    assert modes == [
        ("none", 6, "cap"),  # cannot saturate at 6 of 8 tokens
        ("none", 12, "cap"),
        ("none", 12, "idle"),
        ("high_entropy", 6, "cap"),
        ("high_entropy", 12, "cap"),
    ]
    doses = make_plan("dose", DOSE | {"random": False}, sources).cells
    recorded = [c.remask_fraction for c in doses if c.role == "trajectory"]
    assert recorded == [0.0, 0.5]
    with pytest.raises(ValueError, match="--strategies=nonesuch"):
        make_plan("matched", MATCHED | {"strategies": ("nonesuch",)}, sources)


def _other_tokenizer(toy):
    class Shouting(toy.Letters):
        def encode(self, text):
            return super().encode(text.upper())

    scorer = toy.toy_scorer()
    scorer.tokenizer = Shouting()
    return scorer
