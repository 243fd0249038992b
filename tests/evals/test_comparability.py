"""Comparing two runs: which fields forbid it, which arms meet, and how differences are taken."""

import json
import math
import shutil

import numpy as np
import pytest
import written_run as made
from scipy import stats

from dlmeval.evals.errors import InputError
from dlmeval.evals.protocol import UnlikeRunsError, comparability_key, compare_runs
from dlmeval.evals.protocol.records import read_run
from dlmeval.evals.protocol.tables import comparison_table
from dlmeval.evals.report import to_markdown
from dlmeval.evals.storage import read_json
from dlmeval.evals.workdir.plan import read_plan
from dlmeval.evals.workdir.score_stage import score_path

COMPARED = (*made.METRICS, "nfe_mean", "acceptance")
WARM = (("none", 0.25), ("high_entropy", 0.25))


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A run of two arms at three seeds."""
    return made.write_run(tmp_path_factory.mktemp("runs") / "base", made.cells(WARM))


def other_values(name, cell):
    """Scores of another model of the world: shifted, and by seed."""
    return made.default_value(name, cell) + 0.01 * cell.seed**2


def rows_of(comparison, metric):
    return [row for row in comparison.rows if row.metric == metric]


def stored(workdir, strategy, metric):
    """Values of an arm, seed by seed."""
    return [
        read_json(score_path(workdir, cell))[metric]["value"]
        for cell in read_plan(workdir).cells
        if cell.strategy == strategy
    ]


def test_like_runs_are_paired_seed_by_seed(base, tmp_path):
    other = made.write_run(tmp_path / "other", made.cells(WARM), value=other_values)
    comparison = compare_runs(base, other)
    assert len(comparison.rows) == 2 * len(COMPARED)
    for row, strategy in zip(rows_of(comparison, "mauve"), ("none", "high_entropy"), strict=True):
        a, b = (np.array(stored(run, strategy, "mauve")) for run in (base, other))
        oracle = stats.ttest_rel(a, b)
        assert row.arms == (f"{strategy} t=0.25 N=8",) * 2
        assert row.test.t == pytest.approx(oracle.statistic)
        assert row.test.p == pytest.approx(oracle.pvalue)
        assert row.difference.value == pytest.approx((a - b).mean())
        assert row.difference.stderr == pytest.approx(stats.sem(a - b))
        assert row.note == "paired over seeds 1, 2, 3"
        assert row.scores[0].value == pytest.approx(a.mean())
        assert row.difference.n == 2 * 3 * made.ROWS


def test_a_run_equals_itself_and_nothing_is_made_up(base):
    for row in compare_runs(base, base).rows:
        assert row.difference.value == 0.0
        assert row.difference.stderr == 0.0
        assert row.test.p is None
        assert row.note == "paired over seeds 1, 2, 3; no test, as all differences are equal"


@pytest.mark.parametrize(
    ("cells", "note"),
    [
        (made.cells(WARM, seeds=(4, 5, 6)), "unpaired: seeds 1, 2, 3 and 4, 5, 6"),
        (made.cells(WARM, seeds=(1, 2)), "unpaired: seeds 1, 2, 3 and 1, 2"),
    ],
)
def test_other_seeds_are_compared_unpaired(base, tmp_path, cells, note):
    comparison = compare_runs(base, made.write_run(tmp_path / "other", cells))
    for row in comparison.rows:
        assert row.test is None
        assert row.note == note
        one, other = row.scores
        assert row.difference.value == pytest.approx(one.value - other.value)
        assert row.difference.stderr == pytest.approx(math.hypot(one.stderr, other.stderr))


def test_other_references_or_prompts_are_not_paired(base, tmp_path):
    prefixed = made.write_run(tmp_path / "prefixed", made.cells(WARM, prefix_length=4))
    for what, source, path_of in (
        ("references", base, score_path),
        ("prompts", prefixed, made.manifest_path),
    ):
        changed = shutil.copytree(source, tmp_path / what)
        for cell in read_plan(changed).cells:
            if cell.role == "generated" and cell.seed == 2:
                change = {"reference_digest": "0" * 64}
                if what == "prompts":
                    change = {"prompts": {"prefix_length": 4, "digest": "0" * 64}}
                made.edit(path_of(changed, cell), lambda record, c=change: record.update(c))
        row = compare_runs(source, changed).rows[0]
        assert (row.test, row.note) == (None, f"unpaired: other {what} at seed 2")
        assert row.difference.stderr > 0


@pytest.mark.parametrize(
    ("changes", "field", "values"),
    [
        ({"gen_length": 12}, "gen_length", ("16", "12")),
        ({"noise": "gumbel_high"}, "noise", ('"inverse_cdf"', '"gumbel_high"')),
        ({"cfg_scale": 1.5}, "cfg_scale", ("0.0", "1.5")),
        ({"num_samples": 4}, "num_samples", ("8", "4")),
        ({"model_digest": "cd" * 32}, "model_digest", ("abababababab…", "cdcdcdcdcdcd…")),
        ({"ascii_min": 0.5}, "ascii_min", ("0.85", "0.5")),
        ({"corpus_digest": "ef" * 32}, "reference_digest", (None, "efefefefefef…")),
        ({"prefix_length": 4}, "prefix_length", ("null", "4")),
        ({"arms": [("none", 0.25), ("none", 0.5)]}, "unmask_temp", ("0.25", "0.25, 0.5")),
    ],
)
def test_unlike_runs_are_refused_and_the_fields_named(base, tmp_path, changes, field, values):
    other = tmp_path / "other"
    made.write_run(other, made.cells(**{"arms": WARM} | changes))
    with pytest.raises(UnlikeRunsError, match=f"must not be compared.*{field}: ") as caught:
        compare_runs(base, other)
    found = {d.field: (d.first, d.second) for d in caught.value.differences}
    first, second = found.pop(field)
    assert first == values[0] or values[0] is None
    assert second == values[1]
    # A longer text is one block that is longer; prefixes name their text.
    assert set(found) <= {"block_length", "corpus_digest"}
    assert isinstance(caught.value, InputError)


def test_numbers_measured_otherwise_are_refused(base, tmp_path):
    other = shutil.copytree(base, tmp_path / "other")

    def rescale(record):
        text = record["mauve"]["signature"]
        record["mauve"]["signature"] = text.replace("c:5.0", "c:1.0")

    for cell in read_plan(other).cells:
        if cell.role == "generated":
            made.edit(score_path(other, cell), rescale)
    with pytest.raises(UnlikeRunsError, match=r"settings of mauve: .*c:5\.0.*c:1\.0"):
        compare_runs(base, other)


def test_versions_and_numerics_count(base, tmp_path):
    other = shutil.copytree(base, tmp_path / "other")
    for cell in read_plan(other).cells:
        if cell.role == "generated":
            made.edit(
                made.manifest_path(other, cell),
                lambda m: (m["environment"].update(dlmeval="9"), m["model"].update(dtype="bf16")),
            )
    with pytest.raises(UnlikeRunsError) as caught:
        compare_runs(base, other)
    assert [difference.field for difference in caught.value.differences] == ["dlmeval", "dtype"]


def test_strategy_budget_seed_and_folder_are_not_in_the_key(base, tmp_path):
    keys = []
    for place, changes in enumerate(
        (
            {},
            {"arms": [("agreement", 0.25)], "remask_fraction": 0.3, "pool": "decided"},
            {"num_steps": 4},
            {"num_steps": None, "target_nfe": 14, "match_mode": "cap"},
            {"seeds": (7,)},
            {"model": "elsewhere"},
            {"loop": "care", "top_p": 1.0, "block_length": 16},  # the defaults, written out
        )
    ):
        match = None
        if "target_nfe" in changes:
            match = lambda cell: {"target": 14, "mode": "cap", "saturated": False}  # noqa: E731
        fields = {"arms": WARM[:1], "seeds": (1,)} | changes
        run = read_run(made.write_run(tmp_path / f"run{place}", made.cells(**fields), match=match))
        keys.append(comparability_key(run, run.with_role("generated")[0]))
    assert all(key == keys[0] for key in keys)
    assert {"gen_length", "unmask_temp", "noise", "pace", "num_samples"} <= set(keys[0])


def test_the_only_other_strategy_at_a_setting_is_the_rival(base, tmp_path):
    cells = made.cells([("none", 0.25), ("agreement", 0.25)])
    rival = made.write_run(tmp_path / "rival", cells, value=other_values)
    rows = rows_of(compare_runs(base, rival), "mauve")
    assert [row.arms for row in rows] == [
        ("none t=0.25 N=8", "none t=0.25 N=8"),
        ("high_entropy t=0.25 N=8", "agreement t=0.25 N=8"),
    ]
    assert rows[1].note == "paired over seeds 1, 2, 3"


def test_arms_of_one_run_alone_stand_alone(base, tmp_path):
    arms = [("none", 0.25), ("agreement", 0.25), ("random", 0.25)]
    rows = rows_of(compare_runs(base, made.write_run(tmp_path / "more", made.cells(arms))), "mauve")
    assert [row.arms for row in rows[1:]] == [
        ("high_entropy t=0.25 N=8", None),
        (None, "agreement t=0.25 N=8"),
        (None, "random t=0.25 N=8"),
    ]
    for row in rows[1:]:
        assert row.difference is None
        assert row.note == "the other run has no such arm"
        assert sum(score is not None for score in row.scores) == 1


def test_a_missing_number_gives_no_difference(base, tmp_path):
    other = shutil.copytree(base, tmp_path / "other")
    cell = next(cell for cell in read_plan(other).cells if cell.strategy == "none")
    missing = {"value": None, "stderr": None, "reason": "3 usable texts; at least 8 are needed"}
    made.edit(score_path(other, cell), lambda s: s["mauve"].update(missing))
    row = rows_of(compare_runs(base, other), "mauve")[0]
    assert row.difference is None
    assert row.note == "3 usable texts; at least 8 are needed"


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (lambda run, cell: score_path(run, cell).unlink(), "scores/.* is missing"),
        (lambda run, cell: made.manifest_path(run, cell).unlink(), "banks/.* is missing"),
        (lambda run, cell: (run / "plan.json").unlink(), "plan.json is missing"),
        (
            lambda run, cell: made.edit(score_path(run, cell), lambda s: s.pop("gen_ppl")),
            "lacks gen_ppl",
        ),
        (
            lambda run, cell: made.edit(score_path(run, cell), lambda s: s["mauve"].update(rank=3)),
            "mauve: .*rank",
        ),
    ],
)
def test_damaged_runs_are_refused_by_file(base, tmp_path, damage, found):
    run = shutil.copytree(base, tmp_path / "run")
    cell = next(cell for cell in read_plan(run).cells if cell.role == "generated")
    damage(run, cell)
    for pair in ((base, run), (run, base)):
        with pytest.raises(InputError, match=found):
            compare_runs(*pair)


def test_runs_without_arms_have_nothing_to_compare(base, tmp_path):
    run = shutil.copytree(base, tmp_path / "run")
    made.drop_from_plan(run, lambda cell: cell.role == "generated")
    with pytest.raises(InputError, match="no generated arms"):
        compare_runs(base, run)


def test_the_table_has_a_row_an_arm_and_metric(base, tmp_path):
    other = made.write_run(tmp_path / "other", made.cells(WARM), value=other_values)
    shown = to_markdown(comparison_table(compare_runs(base, other)))
    assert shown.count("paired over seeds 1, 2, 3") == 2 * len(COMPARED)
    assert "| none t=0.25 N=8 | mauve |" in shown
    assert f"A is {base}".replace("_", "\\_") in shown


@pytest.mark.parametrize(
    ("leaf", "odd"),
    [
        ("n", None),
        ("n", [1]),
        ("n", True),
        ("n", -1),
        ("signature", 5),
        ("signature", []),
        ("unit", 0.25),
        ("direction", "x"),
        ("direction", []),
        ("value", "0.5"),
        ("value", 10**400),
        ("stderr", "0.1"),
    ],
)
def test_a_score_edited_into_something_else_is_refused_by_name(base, tmp_path, leaf, odd):
    run = shutil.copytree(base, tmp_path / "run")
    cell = next(c for c in read_plan(run).cells if c.role == "generated")
    path = score_path(run, cell)
    made.edit(path, lambda record: record["mauve"].update({leaf: odd}))
    with pytest.raises(InputError, match=r"\.json.*mauve"):
        compare_runs(run, base)


def test_a_setting_that_is_no_number_is_refused_by_file(base, tmp_path):
    run = shutil.copytree(base, tmp_path / "run")
    cell = next(c for c in read_plan(run).cells if c.role == "generated")
    path = made.manifest_path(run, cell)
    record = json.loads(path.read_text())
    record["cell"]["cjk_max"] = float("nan")
    path.write_text(json.dumps(record))
    with pytest.raises(InputError, match=r"manifest\.json: cjk_max is nan"):
        compare_runs(run, base)
