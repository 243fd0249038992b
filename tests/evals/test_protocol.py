"""The seven points: a run that meets them, one corruption a point, and files that are no files."""

import copy
import itertools
import json
import re
import shutil
from xml.etree import ElementTree

import pytest
import written_run as made

from dlmeval.evals.errors import InputError
from dlmeval.evals.pipeline import run_experiment
from dlmeval.evals.protocol import badge, badge_svg, validate_run, write_badge
from dlmeval.evals.protocol.tables import protocol_table
from dlmeval.evals.report import to_markdown
from dlmeval.evals.storage import read_json, write_json
from dlmeval.evals.workdir.plan import read_plan
from dlmeval.evals.workdir.sample_stage import bank_path
from dlmeval.evals.workdir.score_stage import score_path


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A run that meets all seven points; copy it before changing it."""
    return made.write_run(tmp_path_factory.mktemp("runs") / "good")


@pytest.fixture(scope="module")
def prefixed(tmp_path_factory):
    """The same with prefixes of four tokens."""
    folder = tmp_path_factory.mktemp("runs") / "prefixed"
    return made.write_run(folder, made.cells(prefix_length=4))


@pytest.fixture
def run(good, tmp_path):
    return shutil.copytree(good, tmp_path / "run")


def pick(workdir, strategy="high_entropy", temp=0.25, seed=2):
    for cell in read_plan(workdir).cells:
        if (cell.strategy, cell.unmask_temp, cell.seed) == (strategy, temp, seed):
            return cell
    raise AssertionError(f"no {strategy} at {temp} with seed {seed}")


def failed(report):
    return [point.number for point in report.points if not point.passed]


def reason(report, number):
    return report.points[number - 1].reason


def test_a_good_run_meets_all_seven_and_says_what_it_found(good):
    report = validate_run(good)
    assert [point.number for point in report.points] == [1, 2, 3, 4, 5, 6, 7]
    assert failed(report) == []
    assert report.passed
    assert "8 to 15 forwards a sample, counted in every row of 24 banks" in reason(report, 1)
    assert "no arm has a target_nfe" in reason(report, 1)
    assert "8 arms share seeds 1, 2, 3 and their references;" in reason(report, 4)
    assert "2 degrees of freedom" in reason(report, 4)
    assert "high_entropy at t=0.1, 0.25, 0.5" in reason(report, 6)


def test_prefixes_are_judged_where_there_are_any(prefixed):
    report = validate_run(prefixed)
    assert report.passed, report
    assert "references and prefixes" in reason(report, 4)


@pytest.mark.slow
def test_a_run_of_the_pipeline_meets_all_seven(toy, tmp_path):
    changes = {"gen_length": 8, "num_samples": 8, "num_steps": (4,), "num_mauve_seeds": 1}
    changes |= {"seeds": (0, 1, 2), "unmask_temps": (0.0, 0.1, 0.25, 0.5), "num_null_banks": 0}
    changes |= {"num_trajectories": 0, "gradient_batches": None}
    config = toy.TOY_CONFIG | changes
    run_experiment("quickstart", config, tmp_path, "sample,score", sources=toy.toy_sources())
    report = validate_run(tmp_path)
    assert report.passed, report
    assert "hold the same texts" in reason(report, 4)  # nothing is random at temperature 0


# One manifest a point; what else fails follows from the same edit: a cell that is not the planned
# one is no full disclosure (7), and neither is it an arm with all seeds (4).
MANIFESTS = [
    (1, [1], lambda m: m["measured"].update(nfe_mean=9.0), "nfe_mean is 9 and its rows give"),
    (1, [1], lambda m: m["measured"].pop("launches"), "lacks measured.launches"),
    (1, [1], lambda m: made.counted(m, 3), "3 launches cannot give a sample 15 forwards"),
    (2, [2, 7], lambda m: m.update(bank_digest="0" * 64), "holds scores of other texts"),
    (3, [3, 4, 6, 7], lambda m: m["cell"].update(unmask_temp=0.2), "at seed 2 has t=0, 0.1, 0.2"),
    (4, [3, 4, 6, 7], lambda m: m["cell"].update(seed=9), "different seeds"),
    (5, [5], lambda m: m["measured"].update(accepted=7), "accepted is 7; 8 rows are accepted"),
    (5, [5, 7], lambda m: m["cell"].update(ascii_min=0.5), "ascii_min is 0.5; the protocol"),
    (6, [3, 4, 6, 7], lambda m: m["cell"].update(model_digest="0" * 64), "no `none` arm"),
    (7, [7], lambda m: m["sampler"].pop("noise"), "lacks sampler.noise"),
    (7, [7], lambda m: m["model"].pop("dtype"), "lacks model.dtype"),
    (7, [7], lambda m: m["model"].update(dtype="bfloat16"), "arms of one model differ in dtype"),
    (7, [7], lambda m: m["cell"].update(pace="ceil"), "its fingerprint differs (pace)"),
    (7, [7], lambda m: m["sampler"].update(top_p=0.9), "top_p is 0.9, which narrows"),
    (7, [7], lambda m: m["sampler"].update(noise="gumbel_fp32"), "an ablation"),
    (7, [7], lambda m: m.update(n=9), "n is 9 and there are 8 rows"),
    (7, [7], lambda m: m.update(status="started"), "status is 'started'"),
]


@pytest.mark.parametrize(("point", "expected", "change", "found"), MANIFESTS)
def test_one_corrupted_manifest_fails_its_point(run, point, expected, change, found):
    cell = pick(run)
    made.edit(made.manifest_path(run, cell), change)
    report = validate_run(run)
    assert not report.passed
    assert failed(report) == expected
    assert found in reason(report, point)
    assert cell.fingerprint in " ".join(p.reason for p in report.points) or "differ" in found


def test_a_baseline_of_other_settings_is_none(tmp_path):
    other = made.cells([("none", 0.25)], block_length=4)
    arms = made.cells([("high_entropy", 0.25)]) + [c for c in other if c.role == "generated"]
    report = validate_run(made.write_run(tmp_path / "run", arms))
    assert failed(report) == [3, 6, 7]
    assert "high_entropy t=0.25 N=8 and none t=0.25 N=8 differ in settings" in reason(report, 6)
    assert "arms of one model differ in block_length (16, 4)" in reason(report, 7)


def test_a_changed_prompt_is_another_prefix(prefixed, tmp_path):
    run = shutil.copytree(prefixed, tmp_path / "run")
    file = made.manifest_path(run, pick(run))
    made.edit(file, lambda m: m["prompts"].update(digest="0" * 64))
    report = validate_run(run)
    assert failed(report) == [4]
    assert "arms of seed 2 continue different prefixes" in reason(report, 4)
    made.edit(file, lambda m: m.update(prompts=None))
    report = validate_run(run)
    assert failed(report) == [4, 7]
    assert "lacks prompts.digest" in reason(report, 7)


SCORES = [
    ([2], lambda s: s.pop("self_bleu"), 2, "lacks self_bleu"),
    ([2], lambda s: s["mauve"].update(value=None, reason="3 usable texts"), 2, "(3 usable texts)"),
    ([2], lambda s: s["gen_ppl"].update(value=float("inf")), 2, "must be a finite number"),
    ([2], lambda s: s["distinct_3"].pop("signature"), 2, "lacks distinct_3.signature"),
    ([2], lambda s: s["mauve"].update(value=7.0), 2, "mauve is 7, which no text has"),
    ([2], lambda s: s["self_bleu"].update(value=-0.5), 2, "self_bleu is -0.5, which no text has"),
    ([2], lambda s: s["gen_ppl"].update(value=0.4), 2, "gen_ppl is 0.4, which no text has"),
    (
        [5],
        lambda s: s["mauve"].update(n=9, signature=s["mauve"]["signature"].replace("n:8", "n:9")),
        5,
        "mauve is of 9 texts and the filter accepts 8",
    ),
    ([2], lambda s: s["mauve"].update(n=6), 2, "signature of mauve does not name it and its n"),
    (
        [2],
        lambda s: s["mauve"].update(signature=s["mauve"]["signature"].replace("c:5.0", "c:1.0")),
        2,
        "mauve is measured in different ways",
    ),
    ([4], lambda s: s.update(reference_digest="0" * 64), 4, "scored against another bank"),
    ([1], lambda s: s["nfe_mean"].update(value=8.0), 1, "nfe_mean is not the"),
    ([5], lambda s: s["acceptance"].update(value=0.5), 5, "acceptance is 0.5"),
]


@pytest.mark.parametrize(("expected", "change", "point", "found"), SCORES)
def test_one_corrupted_score_file_fails_its_point(run, expected, change, point, found):
    path = score_path(run, pick(run))
    record = read_json(path)
    change(record)
    path.write_text(json.dumps(record), encoding="utf-8")  # as an editor would, infinity and all
    report = validate_run(run)
    assert failed(report) == expected
    assert found in reason(report, point)


@pytest.mark.parametrize("both", [True, False])
def test_a_perplexity_given_prefixes_counts_as_one(run, both):
    given = "gen_ppl_given_prefix"

    def add(record):
        leaf = record["gen_ppl"] if both else record.pop("gen_ppl")
        record[given] = leaf | {"signature": leaf["signature"].replace("gen_ppl", given)}

    for cell in read_plan(run).cells:
        made.edit(score_path(run, cell), add)
    report = validate_run(run)
    assert report.passed
    assert f"{given}, mauve" in reason(report, 2)
    assert ("gen_ppl, " in reason(report, 2)) == both
    made.edit(score_path(run, pick(run)), lambda s: s.pop(given))
    report = validate_run(run)
    assert failed(report) == [2]
    named = "perplexity is measured in different ways" if both else "lacks gen_ppl"
    assert named in reason(report, 2)


@pytest.mark.parametrize(
    ("unwanted", "expected", "found"),
    [
        (lambda c: c.unmask_temp == 0.1 and c.strategy == "none", 3, "none N=8 has t=0, 0.25, 0.5"),
        (lambda c: c.unmask_temp not in (None, 0.25), 3, "single_temp, no ranking claims"),
        (lambda c: c.seed == 3, 4, "at least 3 seeds are needed and there are 1, 2"),
        (lambda c: c.strategy == "none", 6, "no `none` arm at a temperature above 0"),
    ],
)
def test_arms_that_were_never_planned(run, unwanted, expected, found):
    made.drop_from_plan(run, unwanted)
    report = validate_run(run)
    assert failed(report) == [expected]
    assert found in reason(report, expected)


def test_seeds_must_be_those_of_all_arms(run):
    made.drop_from_plan(run, lambda c: (c.strategy, c.unmask_temp, c.seed) == ("none", 0.5, 1))
    report = validate_run(run)
    assert failed(report) == [3, 4, 6]
    assert "none N=8 at seed 1 has t=0, 0.1, 0.25 and lacks 0.5" in reason(report, 3)
    assert "2, 3 in none t=0.5 N=8" in reason(report, 4)


def test_a_sweep_is_asked_of_every_budget(tmp_path):
    arms = [("none", temp) for temp in (0.0, 0.1, 0.25, 0.5)]
    short = made.cells([("none", 0.25)], seeds=(1,), num_steps=4)
    found = made.cells(arms, seeds=(1,)) + [c for c in short if c.role == "generated"]
    report = validate_run(made.write_run(tmp_path / "run", found))
    assert failed(report) == [3, 4]
    assert "none N=4 has t=0.25 and lacks 0, 0.1, 0.5" in reason(report, 3)


def rewrite_rows(folder, change):
    """Edits the rows of a bank and makes its manifest vouch for them, as a careful forger would."""
    (path,) = folder.glob("*.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        change(row)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_rows_are_read_not_believed(run):
    cell = pick(run)
    rewrite_rows(bank_path(run, cell), lambda row: row.update(nfe=8))
    report = validate_run(run)
    assert failed(report) == [1, 7]
    assert "does not match its sha256" in reason(report, 7)
    rewrite_rows(bank_path(run, cell), lambda row: row.update(nfe=0))
    assert "NFE 0, so nothing was counted" in reason(validate_run(run), 1)


def test_verdicts_of_the_filter_are_made_again(run):
    rewrite_rows(bank_path(run, pick(run)), lambda row: row.update(text="日本語" + row["text"][:9]))
    report = validate_run(run)
    assert failed(report) == [5, 7]
    assert "8 of its verdicts are not those of the language filter" in reason(report, 5)


def test_arms_that_accept_unlike_shares_are_warned_about(run):
    for seed in (1, 2, 3):
        cell = pick(run, seed=seed)
        folder = bank_path(run, cell)
        rewrite_rows(
            folder,
            lambda row: row.update(text="", accepted=False) if row["index"] == 0 else None,
        )
        made.edit(folder / "manifest.json", lambda m: m["measured"].update(accepted=7))
        made.edit(score_path(run, cell), lambda s: s["acceptance"].update(value=7 / 8))
    assert "gen_ppl is of 8 texts and the filter accepts 7" in reason(validate_run(run), 5)

    def of_seven(scores):
        for name in made.METRICS:
            text = scores[name]["signature"].replace("n:8", "n:7")
            scores[name].update(n=7, signature=text)

    for seed in (1, 2, 3):
        made.edit(score_path(run, pick(run, seed=seed)), of_seven)
    report = validate_run(run)
    assert not {2, 5} & set(failed(report))
    assert "warning: acceptance differs by 12.5 percentage points" in reason(report, 5)


def matched_run(folder, nfe, saturated=frozenset(), target=14):
    """Arms with a target of 14 forwards, of which `none` can spend 8."""
    arms = [("none", 0.25), ("high_entropy", 0.25)]
    found = made.cells(arms, num_steps=None, target_nfe=target, match_mode="cap")

    def match(cell):
        return {"target": target, "mode": "cap", "saturated": cell.strategy in saturated}

    return made.write_run(folder, found, nfe=nfe, match=match)


def test_matched_arms_meet_their_target_or_are_flagged(tmp_path):
    good = matched_run(tmp_path / "good", made.default_nfe, {"none"})
    report = validate_run(good)
    assert failed(report) == [3]
    assert "6 banks matched to within max(1, 1 %)" in reason(report, 1)
    assert "flagged as saturated (none t=0.25 NFE=14 cap" in reason(report, 1)
    low = validate_run(matched_run(tmp_path / "low", made.default_nfe))
    assert failed(low) == [1, 3]
    assert re.search(r"NFE 8 is off its target 14 ± 1 and it is not flagged", reason(low, 1))
    dear = matched_run(tmp_path / "dear", lambda cell, row: 16, {"none", "high_entropy"})
    assert failed(validate_run(dear)) == [1, 3]


def test_a_match_is_that_of_the_cell(tmp_path):
    run = matched_run(tmp_path / "run", made.default_nfe, {"none"})
    file = made.manifest_path(run, pick(run))
    for change, found in (
        (lambda m: m["match"].update(target=13), "match.target is 13 and its cell says 14"),
        (lambda m: m.update(match=None), "match is None"),
    ):
        made.edit(file, change)
        report = validate_run(run)
        assert failed(report) == [1, 3]
        assert found in reason(report, 1)


@pytest.mark.parametrize(
    ("number", "damage"),
    [
        (7, lambda folder: (folder / "manifest.json").unlink()),
        (7, lambda folder: (folder / "manifest.json").write_text('{"files": ')),
        (7, lambda folder: (folder / "manifest.json").write_text("[1, 2]")),
        (1, lambda folder: next(folder.glob("*.jsonl")).unlink()),
        (1, lambda folder: next(folder.glob("*.jsonl")).write_text('{"nfe": 3}\nnot json\n')),
        (1, lambda folder: next(folder.glob("*.jsonl")).write_bytes(b"\xff\xfe\n")),
    ],
)
def test_a_damaged_bank_is_named(run, number, damage):
    folder = bank_path(run, pick(run))
    damage(folder)
    report = validate_run(run)
    assert number in failed(report)
    assert str(folder) in reason(report, number)


def test_a_lost_file_is_one_problem_and_no_gap_in_the_design(run):
    file = made.manifest_path(run, pick(run))
    file.unlink()
    for number in (3, 6):
        assert reason(validate_run(run), number) == f"{file} is missing"


def test_a_lost_score_file_fails_what_needs_it(run):
    file = score_path(run, pick(run))
    file.unlink()
    report = validate_run(run)
    assert failed(report) == [2, 4, 5]
    assert all(f"{file} is missing" in reason(report, number) for number in (2, 4, 5))


def leaves(value, path=()):
    if isinstance(value, dict):
        for name, inner in value.items():
            yield (*path, name)
            yield from leaves(inner, (*path, name))


def test_no_value_of_a_manifest_or_score_file_ends_in_a_traceback(tmp_path):
    small = made.cells([("none", 0.25), ("high_entropy", 0.25)], seeds=(1,), prefix_length=4)
    run = made.write_run(tmp_path / "run", small)
    cell = pick(run, seed=1)
    reference = read_plan(run).cells[0]
    odd = itertools.cycle([None, "x", -1, [], {}, float("nan"), 1e300, True, 10**400])
    for path in (
        made.manifest_path(run, cell),
        made.manifest_path(run, reference),
        score_path(run, cell),
    ):
        stored = read_json(path)
        for names in leaves(stored):
            record = copy.deepcopy(stored)
            inner = record
            for name in names[:-1]:
                inner = inner[name]
            inner[names[-1]] = next(odd)
            path.write_text(json.dumps(record), encoding="utf-8")
            report = validate_run(run)
            assert len(report.points) == 7, names
            assert all(point.reason for point in report.points), names
        write_json(path, stored)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (None, "plan.json is missing"),
        ("{", "is not JSON"),
        ('{"experiment": "calibration"}', "lists no cells"),
        ('{"cells": [3]}', "cell 0 lacks fingerprint"),
        ('{"cells": [{"fingerprint": "../../etc"}]}', "must be a sha256"),
    ],
)
def test_without_a_plan_all_points_fail_and_say_why(run, content, found):
    (run / "plan.json").unlink()
    if content is not None:
        (run / "plan.json").write_text(content)
    report = validate_run(run)
    assert failed(report) == [1, 2, 3, 4, 5, 6, 7]
    assert all(found in point.reason for point in report.points)


def test_a_run_without_generated_arms_has_nothing_to_judge(run):
    made.drop_from_plan(run, lambda cell: cell.role == "generated")
    report = validate_run(run)
    assert failed(report) == [1, 2, 3, 4, 5, 6, 7]
    assert "nothing to judge" in reason(report, 1)


def test_a_folder_that_is_none_is_refused(tmp_path):
    with pytest.raises(InputError, match="is no folder; name the --workdir"):
        validate_run(tmp_path / "absent")


def test_orders_without_none_are_set_against_origin(tmp_path):
    arms = made.cells([("origin", 0.25), ("entropy", 0.25)])
    report = validate_run(made.write_run(tmp_path / "dream", arms))
    assert failed(report) == [3]
    assert "computed: entropy at t=0.25" in reason(report, 6)
    arms = made.cells([("origin", 0.25), ("high_entropy", 0.25)])
    report = validate_run(made.write_run(tmp_path / "other", arms))
    assert failed(report) == [3, 6]


def test_badges_name_the_points_that_are_met(run, tmp_path):
    report = validate_run(run)
    assert badge(report) == "care: 7/7 [1..7]"
    made.drop_from_plan(run, lambda c: c.seed == 3 or c.unmask_temp == 0.1)
    partial = validate_run(run)
    assert badge(partial) == "care: 5/7 [1..2,5..7]"
    shutil.rmtree(run / "banks")
    assert badge(validate_run(run)) == "care: 0/7 []"
    images = {badge_svg(one) for one in (report, partial)}
    assert len(images) == 2
    for image in images:
        root = ElementTree.fromstring(image)
        assert root.tag.endswith("svg")
        texts = [element.text for element in root.iter() if element.tag.endswith("}text")]
        assert texts[0] == "care"
        assert re.fullmatch(r"\d/7 \[.*\]", texts[1])
    assert "4 seeds and pairing: not met" in badge_svg(partial)
    for one in (report, partial):  # judged again, the badge is made anew
        write_badge(tmp_path / "badge.svg", one)
        assert (tmp_path / "badge.svg").read_text() == badge_svg(one)


def test_the_table_of_points_shows_every_reason(run):
    report = validate_run(run)
    shown = to_markdown(protocol_table(report))
    assert shown.count("| met |") == 7
    assert "8 arms share seeds 1, 2, 3 and their references;" in shown
