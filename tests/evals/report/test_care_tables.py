"""Gaps, effects and tables of a grid: known numbers, refusals, sentences for either outcome."""

import dataclasses
import itertools

import numpy as np
import pytest

from dlmeval.evals import Cell, Score
from dlmeval.evals.errors import InputError
from dlmeval.evals.protocol import Point, ProtocolReport
from dlmeval.evals.report import Arm, Compute, Provenance, ReportData, numbers_csv, to_markdown
from dlmeval.evals.report.care.dose_tables import dose_table, response, response_finding
from dlmeval.evals.report.care.factors import effects_table, factor_effects
from dlmeval.evals.report.care.figures import cost_figure, interaction_figure, strategies_figure
from dlmeval.evals.report.care.findings import (
    effects_finding,
    gap_finding,
    protocol_finding,
    ranking_claim,
)
from dlmeval.evals.report.care.gap_tables import gaps_table
from dlmeval.evals.report.care.gaps import gap, interaction_gaps, paired_scores
from dlmeval.evals.report.care.matched_tables import (
    matched_finding,
    matched_table,
    saturation_finding,
)
from dlmeval.evals.report.care.pareto_figure import non_dominated_arms, pareto_figure
from dlmeval.evals.report.care.tables import (
    metrics_table,
    nfe_table,
    perplexity_metric,
    pivot_table,
    seeds_table,
)
from dlmeval.evals.report.reported_table import reported_table
from dlmeval.evals.scoring.scores import Band
from dlmeval.evals.statistics import holm, paired_test
from dlmeval.evals.workdir.seed_scores import SeededArm, SeedScores

# care.md, 6.2, G4: two arms whose means, errors and paired error are known.
NONE, REMASKED = (0.9851, 0.9124, 0.9465), (0.6061, 0.6578, 0.6921)
TEMPS, STEPS, SEEDS = (0.0, 0.1, 0.25, 0.5), (20, 40), (1, 2, 3)


def seeded(strategy="none", values=NONE, temp=0.25, steps=40, *, seeds=SEEDS, prompts=None, **new):
    """An arm with one MAUVE a seed; `None` is a value that could not be measured."""
    fields = {"role": "generated", "gen_length": 8, "num_samples": 16, "part": 0, "offset": 0}
    fields |= {"strategy": strategy, "unmask_temp": temp, "num_steps": steps, "seed": seeds[0]}
    if strategy != "none":
        fields["remask_fraction"] = 0.15
    cell = Cell(**(fields | new))
    found = {}
    for seed, value in zip(seeds, values, strict=True):
        reason = None if value is not None else "15 accepted samples are too few"
        signed = f"mauve|K:2|n:16|ref:r{seed}|v:1"
        score = Score(value, None if reason else 0.01, 16, "score", "up", signed, reason)
        given = (prompts or {}).get(seed, f"prompts {seed}")
        found[seed] = SeedScores({"mauve": score}, f"reference {seed}", given)
    return SeededArm(cell.arm, cell, found)


def grid(value, strategies=("none", "high_entropy"), temps=TEMPS, steps=STEPS):
    """A full grid: value(strategy place, temperature, steps, seed)."""
    return [
        seeded(s, [value(place, t, n, seed) for seed in SEEDS], t, n)
        for place, s in enumerate(strategies)
        for t in temps
        for n in steps
    ]


def noise(*key):
    return float(np.random.default_rng([int(100 * part) for part in key]).normal())


def report_data(arms, nfe=None):
    """The averages of `collect` for seeded arms, with a null band."""
    found = []
    for arm in arms:
        values = [s.metrics["mauve"].value for s in arm.seeds.values()]
        settings = ("strategy", "unmask_temp", "num_steps", "remask_fraction")
        count = (nfe or (lambda cell: cell.num_steps))(arm.cell)
        mean = Score(float(np.mean(values)), 0.02, 48, "score", "up", "mauve|K:2|v:1")
        nfe_mean = Score(float(count), 0.5, 48, "forwards/sample", None, "nfe_mean|n:48")
        found.append(
            Arm(
                arm.label,
                "generated",
                {"mauve": mean, "nfe_mean": nfe_mean},
                {name: getattr(arm.cell, name) for name in settings},
                Compute(arm.cell.num_steps, count, count - 1, count + 2, 3 * count, 48),
            )
        )
    band = {"mauve": Band(0.95, 0.9, 0.99, 0.02, 4, "score", "mauve|null")}
    return ReportData("t", tuple(found), Provenance("cmd"), null_band=band)


def verdict(*failed):
    points = tuple(Point(n, f"point {n}", n not in failed, "why") for n in range(1, 8))
    return ProtocolReport(points, not failed)


def column(table, key):
    place = [head.key for head in table.heads].index(key)
    return [row.entries[place] for row in table.rows]


def test_a_gap_is_the_papers_statistic():
    found = gap(seeded(), seeded("high_entropy", REMASKED), "mauve")
    assert found.means == pytest.approx((0.948, 0.652), abs=5e-4)
    assert (found.test.mean, found.test.stderr) == pytest.approx((0.296, 0.0415), abs=5e-5)
    # With three seeds the interval is the range of the differences, and says so.
    assert found.interval[:2] == pytest.approx((0.2544, 0.3790), abs=1e-9)
    assert "bounded by the data range" in found.warning
    assert found.adjusted is None


def test_pairs_follow_the_seeds_and_not_their_order():
    shuffled = seeded("random", (30.0, 10.0, 20.0), seeds=(3, 1, 2))
    assert paired_scores(seeded(values=(1.0, 2.0, 3.0)), shuffled, "mauve") == (
        [1.0, 2.0, 3.0],
        [10.0, 20.0, 30.0],
    )


@pytest.mark.parametrize(
    ("other", "named"),
    [
        (None, "no arm the second arm"),
        (seeded("random", NONE[:2], seeds=(1, 2)), "only none t=0.25 N=40 has 3"),
        (seeded("random", NONE, seeds=(1, 2, 4)), "only none t=0.25 N=40 has 3"),
        (seeded("random", NONE, prompts={2: "others"}), "not paired at seed 2: their prompts"),
        (seeded("random", (0.9, None, 0.8)), "no mauve at seed 2: 15 accepted samples are too"),
    ],
)
def test_what_is_not_paired_is_refused(other, named):
    with pytest.raises(InputError, match=named):
        paired_scores(seeded(), other, "mauve")
    if other is not None:
        refused = gap(seeded(), other, "mauve")
        assert named in refused.reason
        assert (refused.test, refused.interval, refused.separated) == (None, None, False)


def test_other_references_and_metrics_that_were_not_scored_are_refused():
    moved = seeded("random")
    seeds = {seed: s._replace(reference="another bank") for seed, s in moved.seeds.items()}
    with pytest.raises(InputError, match="seed 1: their reference differ"):
        paired_scores(seeded(), moved._replace(seeds=seeds), "mauve")
    with pytest.raises(InputError, match="has no jcd at seed 1: it was not scored"):
        paired_scores(seeded(), seeded("random"), "jcd")


def test_the_family_is_every_strategy_at_every_stochastic_setting():
    arms = grid(lambda s, t, n, seed: 0.9 - 0.2 * s * t + 0.01 * noise(s, t, n, seed))
    arms.append(seeded("agreement", NONE, 0.0, 40))  # beside the grid, at temperature 0
    gaps = interaction_gaps(arms, "mauve")
    settings = [(g.cell_of.cell.unmask_temp, g.cell_of.cell.num_steps) for g in gaps]
    assert settings == list(itertools.product(TEMPS[1:], STEPS))
    by_label = {arm.label: arm for arm in arms}
    tests = []
    for one in gaps:
        assert one.first == one.second.replace("high_entropy", "none")
        pair = paired_scores(by_label[one.first], by_label[one.second], "mauve")
        tests.append(paired_test(*pair))
    assert [one.test for one in gaps] == tests
    assert [one.adjusted for one in gaps] == holm([test.p for test in tests])


def test_a_missing_baseline_is_a_refused_row_that_counts_in_the_family():
    arms = [seeded(temp=0.25), seeded("random", REMASKED), seeded("random", REMASKED, temp=0.5)]
    found = interaction_gaps(arms, "mauve")
    assert [one.first for one in found] == ["none t=0.25 N=40", None]
    assert "there is no arm none t=0.5 N=40" in found[1].reason
    assert found[0].adjusted == pytest.approx(2 * found[0].test.p)
    other_budget = [seeded(steps=20), seeded("random", REMASKED, steps=40)]
    assert interaction_gaps(other_budget, "mauve")[0].reason.startswith("there is no arm none")


def test_orders_are_measured_from_origin_and_targets_from_every_mode():
    orders = [seeded("origin"), seeded("entropy", REMASKED)]
    assert [one.first for one in interaction_gaps(orders, "mauve")] == ["origin t=0.25 N=40"]
    target = {"steps": None, "target_nfe": 12}
    modes = [seeded(match_mode=mode, **target) for mode in ("cap", "idle")]
    remasked = seeded("random", REMASKED, match_mode="cap", **target)
    found = interaction_gaps([*modes, remasked], "mauve")
    assert [one.first for one in found] == ["none t=0.25 NFE=12 cap", "none t=0.25 NFE=12 idle"]


def test_the_gap_table_shows_numbers_and_reasons():
    arms = [seeded(), seeded("high_entropy", REMASKED), seeded("random", REMASKED, temp=0.5)]
    table = gaps_table(interaction_gaps(arms, "mauve"))
    assert [entry.text for entry in column(table, "arm")] == [
        "high_entropy t=0.25 N=40",
        "random t=0.5 N=40",
    ]
    first, second = column(table, "gap")
    assert (first.number.value, first.number.stderr) == pytest.approx((0.296, 0.0415), abs=5e-5)
    assert first.number.signature.startswith("gap|paired:seeds|of:mauve|K:2")
    assert "there is no arm none" in second.number.reason
    assert column(table, "verdict")[0].text == "separated; interval is the range of the seeds"
    assert column(table, "p_holm")[0].number.value == pytest.approx(2 * 0.0191, abs=5e-4)
    assert "one family of tests" in to_markdown(table)


def test_effects_are_those_that_were_put_in():
    arms = grid(lambda s, t, n, seed: s + 0.01 * noise(s, t, n, seed) + 5.0 * seed)
    found = factor_effects(arms, "mauve", num_permutations=199)
    assert found.row("strategy").partial_eta2 > 0.99
    assert found.row("temperature").partial_eta2 < 0.5
    assert found.permuted["strategy"].p == pytest.approx(1 / 200)
    # The seeds' own level is taken out by the blocks, and drowns everything without them.
    plain = {row.factor: row for row in found.plain}
    assert found.row("strategy").f > 1000 > 10 > plain["strategy"].f
    assert found.row("seed").df == 2
    without = factor_effects(
        grid(lambda s, t, n, seed: s + 0.01 * noise(s, t, n, seed)), "mauve", num_permutations=9
    )
    assert without.row("strategy").f == pytest.approx(found.row("strategy").f, rel=1e-6)
    low, high = found.intervals["strategy"]
    assert low < found.row("strategy").partial_eta2 < 1
    assert high <= 1


def test_the_effects_table_has_every_row_and_its_warnings():
    still = grid(lambda s, t, n, seed: s + t + (noise(s, t, n, seed) if t else 0.0), steps=(40,))
    effects = factor_effects(still, "mauve", num_permutations=19)
    assert effects.dropped == ("steps",)
    assert set(effects.still) == {("none", 0.0), ("high_entropy", 0.0)}
    table = effects_table(effects, "MAUVE")
    assert [entry.text for entry in column(table, "effect")] == [
        "strategy",
        "temperature",
        "strategy:temperature",
        "seed",
        "residual",
    ]
    assert [entry.number.value for entry in column(table, "df")] == [1, 3, 3, 2, 14]
    notes = " ".join(table.notes)
    assert "all seeds are equal in 2 cells" in notes
    assert "not tested: steps" in notes
    assert "permutations:19" in column(table, "p_permuted")[0].number.signature


def test_an_unbalanced_grid_is_refused_by_the_name_of_its_hole():
    arms = grid(lambda s, t, n, seed: noise(s, t, n, seed))
    with pytest.raises(InputError, match=r"strategy='high_entropy', temperature=0\.5, steps=40"):
        factor_effects(arms[:-1], "mauve", num_permutations=9)
    with pytest.raises(InputError, match="shares its cell of the grid"):
        factor_effects([*arms, seeded(temp=0.5, steps=40)], "mauve", num_permutations=9)
    with pytest.raises(InputError, match="no effect"):
        factor_effects([seeded()], "mauve", num_permutations=9)


def test_the_gap_sentence_holds_for_either_outcome():
    def sentence(distance, spread):
        def value(s, t, n, seed):
            return 0.9 - distance * s + spread * noise(s, t, n, seed)

        return gap_finding(interaction_gaps(grid(value, steps=(40,)), "mauve"))

    apart, close = sentence(0.5, 0.002), sentence(0.0, 0.1)
    assert "none t=0.25 N=40 minus high_entropy t=0.25 N=40 in MAUVE: 0.5" in apart
    assert ": separated from 0 at the 5 % level" in apart
    assert "3 of 3 gaps tested; 3 of them are separated" in apart
    assert ": not separated from 0 at the 5 % level" in close
    assert "0 of them are separated" in close
    assert gap_finding([]) == ""
    alike = gap_finding([gap(seeded(), seeded("random"), "mauve")])
    assert "could be tested: all 3 differences are equal" in alike


def test_a_ranking_needs_the_protocol_and_a_separation():
    far = grid(lambda s, t, n, seed: 0.9 - 0.3 * s + 0.001 * noise(s, t, n, seed))
    near = grid(lambda s, t, n, seed: 0.9 + 0.05 * noise(s, t, n, seed))
    assert "none has the best mean MAUVE" in ranking_claim(far, "mauve", verdict())
    assert "separated from high_entropy; budgets" in ranking_claim(far, "mauve", verdict())
    assert "so no order is claimed" in ranking_claim(near, "mauve", verdict())
    refused = ranking_claim(far, "mauve", verdict(3, 7))
    assert refused == ("No ranking of strategies in MAUVE is claimed: protocol point 3 not met.")
    lone = [*far, seeded("random", NONE, 0.0, 40)]
    assert "random was not run at the settings" in ranking_claim(lone, "mauve", verdict())
    assert protocol_finding(verdict()).endswith("all seven points are met.")
    assert "5/7 [1..2,4..6]. Not met: point 3 (point 3), 7" in protocol_finding(verdict(3, 7))


def test_effects_in_a_sentence_largest_first():
    warm = grid(lambda s, t, n, seed: t + 0.05 * s + 0.01 * noise(s, t, n, seed))
    text = effects_finding(factor_effects(warm, "mauve", num_permutations=199))
    assert text.startswith("Effects on MAUVE, largest first: temperature (partial η² = ")
    assert "; strategy (partial η² = " in text
    assert text.count("not separated from noise") == 2  # steps, strategy by temperature
    flat = grid(lambda s, t, n, seed: 1.0)
    found = factor_effects(flat, "mauve", num_permutations=9)
    assert "does not vary between seeds" in effects_finding(found)


def test_tables_put_every_arm_in_its_place():
    arms = grid(lambda s, t, n, seed: 0.1 * s + t + n / 1000 + 0.001 * seed)
    data = report_data(
        arms, nfe=lambda cell: cell.num_steps * (2 if cell.strategy != "none" else 1)
    )
    table = pivot_table(
        data, "mauve", rows=("strategy", "num_steps"), along="unmask_temp", name="x", caption="c"
    )
    assert [entry.text for entry in column(table, "arm")] == [
        "none N=20",
        "none N=40",
        "high_entropy N=20",
        "high_entropy N=40",
    ]
    assert [head.title for head in table.heads[1:]] == ["t=0", "t=0.1", "t=0.25", "t=0.5"]
    values = [entry.number.value for entry in column(table, "unmask_temp_0.25")]
    assert values == pytest.approx([0.272, 0.292, 0.372, 0.392])
    counted = nfe_table(data)
    assert [entry.number.value for entry in column(counted, "nfe_mean")] == [20, 40, 40, 80]
    assert [entry.number.value for entry in column(counted, "nfe_max")] == [22, 42, 42, 82]
    assert [entry.number.value for entry in column(counted, "launches")] == [240, 480, 480, 960]
    seeds = seeds_table(arms, "mauve", data)
    assert column(seeds, "seed_2")[0].number == arms[0].seeds[2].metrics["mauve"]
    assert column(seeds, "mean")[0].number.value == pytest.approx(0.022)
    with pytest.raises(ValueError, match="share a place of table 'x'"):
        pivot_table(data, "mauve", rows=("strategy",), along="unmask_temp", name="x", caption="c")


def test_the_metrics_table_stands_beside_real_text_and_names_the_perplexity():
    data = report_data(grid(lambda s, t, n, seed: t))
    table = metrics_table(data)
    assert [row.fixed for row in table.rows[:3]] == [True, True, False]
    assert column(table, "mauve")[0].number.value == 0.9
    assert "gen_ppl" in [head.key for head in table.heads]
    given = Score(12.0, 1.0, 48, "perplexity", "down", "gen_ppl_given_prefix|v:1")
    arms = [
        dataclasses.replace(arm, scores={**arm.scores, "gen_ppl_given_prefix": given})
        for arm in data.arms
    ]
    assert perplexity_metric(data) == "gen_ppl"
    assert perplexity_metric(dataclasses.replace(data, arms=tuple(arms))) == "gen_ppl_given_prefix"
    assert perplexity_metric(dataclasses.replace(data, arms=(*arms[1:], data.arms[0]))) == "gen_ppl"
    lines = numbers_csv((table,)).splitlines()
    assert len([line for line in lines if ",mauve," in line and "mauve|K:2" in line]) == 16


def match(saturated=False, target=12, num_steps=9):
    config = {"num_steps": num_steps}
    return {"target": target, "tolerance": 1.0, "saturated": saturated, "config": config}


def test_saturated_baselines_do_not_count_as_equal_compute():
    def arm(strategy, mode, values, nfe, **fields):
        made = seeded(strategy, values, steps=None, target_nfe=12, match_mode=mode)
        count = Score(nfe, 0.1, 16, "forwards/sample", None, "nfe_mean|n:16")
        seeds = {
            seed: s._replace(metrics={**s.metrics, "nfe_mean": count}, match=match(**fields))
            for seed, s in made.seeds.items()
        }
        return made._replace(seeds=seeds)

    arms = [
        arm("none", "cap", NONE, 8.0, saturated=True),
        arm("none", "idle", NONE, 12.0, num_steps=12),
        arm("random", "cap", (0.99, 0.98, 0.985), 13.5),
    ]
    gaps = interaction_gaps(arms, "mauve")
    assert len(gaps) == 2
    assert "higher mean MAUVE in 1 of 1 comparisons" in matched_finding(gaps, arms)
    assert saturation_finding(arms).endswith("cost less: none t=0.25 NFE=12 cap.")
    assert saturation_finding(arms[1:]) == "Every arm meets its target."
    named = {arm.label: arm for arm in report_data(arms, nfe=lambda cell: 12).arms}
    settings = {"target_nfe": 12}
    data = dataclasses.replace(
        report_data(arms, nfe=lambda cell: 12),
        arms=tuple(
            dataclasses.replace(
                one, fields={**one.fields, **settings, "match_mode": label.split()[-1]}
            )
            for label, one in named.items()
        ),
    )
    table = matched_table(data, arms)
    assert [entry.text for entry in column(table, "outcome")] == [
        "saturated",
        "met",
        "missed by 0.5 beyond the tolerance",
    ]
    assert [entry.number.value for entry in column(table, "num_steps")] == [9, 12, 9]
    lost = arms[1]._replace(
        seeds={seed: s._replace(match=None) for seed, s in arms[1].seeds.items()}
    )
    with pytest.raises(InputError, match="has a target but no record of its match"):
        matched_table(data, [arms[0], lost, arms[2]])


def test_a_response_is_a_rank_correlation_with_its_exact_p():
    fractions = (0.05, 0.1, 0.15, 0.2, 0.3)
    arms = [seeded("random", (0.9 - f, 0.9 - f, 0.9 - f), remask_fraction=f) for f in fractions]
    arms = [arm._replace(label=f"random f={f}") for arm, f in zip(arms, fractions, strict=True)]
    arms.append(seeded("high_entropy"))
    data = report_data(arms)
    churn = {
        arm.label: Score(float(place), 0.1, 8, "", None, "replacement_rate|n:8")
        for place, arm in enumerate(arms)
    }
    falling, lone = response(data, churn)
    assert (falling.strategy, falling.rho, falling.n) == ("random", -1.0, 5)
    assert falling.p == pytest.approx(2 / 120)  # of 5! pairings, two are as far from 0
    assert (lone.rho, lone.p, lone.n) == (None, None, 1)
    text = response_finding([falling, lone])
    assert "random: ρ = −1.00 over 5 fractions, p = 0.017, separated from 0" in text
    assert "high_entropy: no correlation" in text
    rows = dose_table(data, churn).rows
    assert [row.entries[2].text for row in rows] == ["0.05", "0.1", "0.15", "0.2", "0.3", "0.15"]


def test_reported_numbers_stay_text():
    table = reported_table("care", ("mauve", "interaction_gap"))
    assert len(table.rows) > 5
    assert all(entry.number is None for row in table.rows for entry in row.entries)
    assert not reported_table("care", ("no such metric",)).rows


def test_figures_draw_every_arm():
    arms = grid(lambda s, t, n, seed: 0.5 + 0.1 * s * t + 0.01 * noise(s, t, n, seed))
    data, gaps = report_data(arms), interaction_gaps(arms, "mauve")
    for figure in (interaction_figure(data), cost_figure(data), strategies_figure(data, gaps)):
        assert figure.png.startswith(b"\x89PNG")
        shown = [
            arm
            for arm in data.arms
            if figure.name != "strategies_mauve" or arm.fields["unmask_temp"]
        ]
        assert all(f"{arm.label}: " in figure.alt for arm in shown)


def test_the_pareto_figure_rings_what_no_other_dominates_over_all_budgets():
    ppl = {(0.0, 20): 9.0, (0.0, 40): 5.0, (0.25, 20): 8.0, (0.25, 40): 6.0}
    mauve = {(0.0, 20): 0.5, (0.0, 40): 0.5, (0.25, 20): 0.9, (0.25, 40): 0.8}
    arms = [
        Arm(
            f"none t={t:g} N={n}",
            "generated",
            {
                "gen_ppl": Score(ppl[t, n], 0.1, 4, "", "down", "gen_ppl"),
                "mauve": Score(mauve[t, n], 0.01, 4, "", "up", "mauve"),
            },
            {"strategy": "none", "unmask_temp": t, "num_steps": n},
        )
        for t, n in ppl
    ]
    lone = dataclasses.replace(
        arms[0], label="unscored", scores={"gen_ppl": arms[0].scores["mauve"]}
    )
    data = dataclasses.replace(report_data([]), arms=(*arms, lone))
    edge = non_dominated_arms(arms, "gen_ppl", "mauve")
    assert [arm.label for arm in edge] == ["none t=0 N=40", "none t=0.25 N=20", "none t=0.25 N=40"]
    figure = pareto_figure(data)
    assert "Not dominated: none t=0 N=40, none t=0.25 N=20, none t=0.25 N=40." in figure.alt
    assert "none t=0 N=20: 0.5" in figure.alt
    assert "unscored" not in figure.alt
    twins = dataclasses.replace(arms[1], label="twin", fields={**arms[1].fields, "num_steps": 80})
    drawn = pareto_figure(dataclasses.replace(data, arms=(*arms, twins))).svg
    assert "t=0 N=40/80" in drawn  # equal points share one text
    assert pareto_figure(dataclasses.replace(data, arms=())).png.startswith(b"\x89PNG")


def test_sentences_print_signs_and_large_ratios_as_people_write_them():
    arms = [seeded("none", REMASKED), seeded("high_entropy", NONE)]
    text = gap_finding(interaction_gaps(arms, "mauve"))
    assert "−0.296 ± 0.042" in text
    assert "t(2) = −7.1" in text
    assert "-" not in text
    steep = grid(lambda s, t, n, seed: 100.0 * t + 0.01 * noise(s, t, n, seed))
    text = effects_finding(factor_effects(steep, "mauve"))
    assert "e+" not in text.replace("strategy", "")
