"""Tables: one content in Markdown, CSV and LaTeX; the profile's marks, ranks and null band."""

import csv
import dataclasses
import io
import re

import pytest

from dlmeval.evals.report import (
    PROFILE,
    Arm,
    Entry,
    Head,
    Provenance,
    ReportData,
    Row,
    Table,
    compute_table,
    heuristics_last,
    missing,
    numbers_csv,
    perplexity_finding,
    profile_table,
    ranking_finding,
    to_csv,
    to_latex,
    to_markdown,
    with_mean_ranks,
)
from dlmeval.evals.report.rounding import latex_text, plain_text
from dlmeval.evals.scoring.scores import Score

HEADS = (Head("arm", "arm", numeric=False), Head("MAUVE", "mauve", direction="up"))


def number(value, stderr=None, direction="up"):
    return Score(value, stderr, 64, "1", direction, "mauve|K:7|v:1")


def arm(label, role="generated", **values):
    directions = {"mauve": "up", "mmd": "down", "gen_ppl": "down", "h_uni": None}
    found = {
        metric: value
        if isinstance(value, Score)
        else Score(value, 0.01, 64, "1", directions[metric], f"{metric}|v:1")
        for metric, value in values.items()
    }
    return Arm(label, role, found)


def made_up(*arms):
    return ReportData("t", tuple(arms), Provenance("cmd"))


def marks(table, key):
    place = [head.key for head in table.heads].index(key)
    return {row.entries[0].text: row.entries[place].mark for row in table.rows}


def column(table, key):
    place = [head.key for head in table.heads].index(key)
    return {row.entries[0].text: row.entries[place].number for row in table.rows}


def test_the_three_forms_hold_the_same_rows_and_numbers(report_data):
    table = profile_table(report_data)
    lines = to_markdown(table).splitlines()
    markdown = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line[:1] == "|"
    ]
    records = list(csv.DictReader(io.StringIO(to_csv(table))))
    latex = [line for line in to_latex(table).splitlines() if line.endswith(r"\\")]
    assert len(markdown) - 2 == len(records) == len(latex) - 1 == len(table.rows)
    for row, cells, record, line in zip(table.rows, markdown[2:], records, latex[1:], strict=True):
        bodies = line.removesuffix(r" \\").split(" & ")
        assert cells[0].replace("\\", "") == record["arm"] == row.entries[0].text
        for head, entry, cell, body in zip(table.heads, row.entries, cells, bodies, strict=True):
            if entry.number is None:
                continue
            assert cell.startswith(plain_text(entry.number))
            assert body.startswith(latex_text(entry.number))
            exact = record[head.key]
            assert (float(exact) if exact else None) == entry.number.value
            error = record[f"{head.key}_stderr"]
            assert (float(error) if error else None) == entry.number.stderr
            assert int(record[f"{head.key}_n"]) == entry.number.n


def test_csv_keeps_every_bit():
    value = 0.1 + 0.2
    text = to_csv(Table("t", "c", HEADS, (Row((Entry("a"), Entry(number=number(value)))),)))
    assert float(text.splitlines()[1].split(",")[1]) == value


def test_numbers_csv_signs_every_number_or_says_why_it_is_missing(report_data):
    tables = (profile_table(report_data), compute_table(report_data))
    records = list(csv.DictReader(io.StringIO(numbers_csv(tables))))
    assert len(records) == sum(
        entry.number is not None for t in tables for row in t.rows for entry in row.entries
    )
    for record in records:
        assert record["signature"] if record["value"] else record["reason"]


def test_latex_escapes_everything_it_acts_upon():
    hostile = r"\input{x} 50% & $x_1^2$ #1 ~ <b> a|b"
    table = Table(
        "t", hostile, HEADS, (Row((Entry(hostile), Entry(number=number(1.5)))),), (hostile,)
    )
    text = to_latex(table)
    assert r"\input" not in text
    body = next(line for line in text.splitlines() if "textbackslash" in line and " & " in line)
    assert body.count(" & ") == 1  # the one column border; the text's own & is escaped
    # With every escape taken out, nothing is left that LaTeX acts upon.
    cell = body.split(" & ")[0]
    plain = re.sub(r"\\(?:text[a-z]+\{\}|[&%$#_{}])", "", cell)
    assert not set("\\&%$#_{}~^<>|") & set(plain)
    assert r"50\%" in cell
    assert r"x\_1" in cell


def test_markdown_cannot_be_broken_out_of():
    row = Row((Entry("a|b\n<i>*"), Entry(number=number(1.5))))
    line = to_markdown(Table("t", "c", HEADS, (row,))).splitlines()[2]
    assert line == r"| a\|b \<i\>\* | 1.5 |"


def test_a_ragged_table_is_refused():
    with pytest.raises(ValueError, match="1 entries for 2 columns"):
        Table("t", "c", HEADS, (Row((Entry("a"),)),))


def test_marks_follow_the_direction_and_two_combined_errors():
    data = made_up(
        arm("real", "reference", mauve=number(0.99, 0.01)),
        arm("a", mauve=number(0.90, 0.03), mmd=0.5),
        arm("b", mauve=number(0.81, 0.04), mmd=0.2),  # gap 0.09 < 2 * 0.05
        arm("c", mauve=number(0.79, 0.04), mmd=0.9),  # gap 0.11 > 2 * 0.05
        arm("d", "heuristic", mauve=number(0.1, 0.0), mmd=0.1),
    )
    table = profile_table(data)
    assert marks(table, "mauve") == {"real": "", "a": "best", "b": "tied", "c": "", "d": ""}
    assert marks(table, "mmd") == {"real": "", "a": "", "b": "", "c": "", "d": "best"}


def test_guardrails_have_no_best():
    data = made_up(*(arm(x, gen_ppl=5.0, h_uni=h) for x, h in (("a", 3.0), ("b", 4.0))))
    table = profile_table(data)
    assert set(marks(table, "h_uni").values()) == {""}
    assert next(head for head in table.heads if head.key == "h_uni").direction == ""


def test_perplexity_never_stands_without_the_entropies():
    keys = [column.metric for column in PROFILE]
    assert keys[:3] == ["gen_ppl", "h_uni", "h_pos"]


def test_mean_rank_by_hand():
    # mauve ranks a 1, b and c tied at 2.5, d 4; mmd ranks b 1, a 2, c 3, d 4.
    data = made_up(
        arm("real", "reference", mauve=1.0, mmd=0.0),
        arm("a", mauve=0.9, mmd=0.2),
        arm("b", mauve=0.5, mmd=0.1),
        arm("c", "autoregressive", mauve=0.5, mmd=0.3),
        arm("d", "heuristic", mauve=0.1, mmd=0.4),
    )
    found = column(profile_table(data), "mean_rank")
    values = {label: score.value for label, score in found.items()}
    assert values == {"real": None, "a": 1.5, "b": 1.75, "c": 2.75, "d": 4.0}
    assert "mauve,mmd" in found["a"].signature
    assert found["a"].n == 2


def test_an_arm_without_a_ranked_column_has_no_mean_rank_over_fewer():
    data = made_up(
        arm("a", mauve=0.9, mmd=0.2),
        arm("b", mauve=0.5, mmd=missing("no kernel")),
    )
    ranked = {x.label: x.score("mean_rank") for x in with_mean_ranks(data).arms}
    assert ranked["a"].value == 1.0
    assert ranked["b"].value is None
    assert "missing" in ranked["b"].reason


def test_null_band_rows_stand_first_and_show_the_range(report_data):
    table = profile_table(report_data)
    low, high = table.rows[:2]
    assert low.fixed
    assert high.fixed
    found = column(table, "mauve")
    band = report_data.null_band["mauve"]
    assert (found["null band, low"].value, found["null band, high"].value) == (band.low, band.high)
    assert found["null band, low"].n == band.num_banks
    assert column(table, "gen_ppl")["null band, low"].value is None


def test_compute_shows_counted_forwards_beside_nominal_steps(report_data):
    table = compute_table(report_data)
    label = "high_entropy t=0.25 N=32"
    row = {head.key: column(table, head.key)[label] for head in table.heads[2:]}
    assert [row[key].value for key in row] == [32, 35.25, 32, 70, 138]
    assert all(score.signature and score.n == 128 for score in row.values())
    assert column(table, "nfe_mean")["mirror 40"].value is None
    assert "reference" not in column(table, "nfe_mean")


def test_findings_hold_whichever_way_it_turns_out(report_data):
    assert perplexity_finding(report_data).startswith("3 of 4 naive samplers have a lower")
    assert heuristics_last(report_data) == []
    assert ranking_finding(report_data).startswith("Every distributional column (MAUVE, energy")
    turned = made_up(
        arm("a", gen_ppl=5.0, mauve=0.9, mmd=0.2),
        arm("b", gen_ppl=9.0, mauve=0.4, mmd=0.1),
        arm("n", "heuristic", gen_ppl=7.0, mauve=0.5, mmd=0.3),
    )
    assert heuristics_last(turned) == [("mauve", "n", "b")]
    assert "0 of 1 naive" in perplexity_finding(turned)
    collapsed = made_up(
        arm("good", gen_ppl=20.0, mauve=0.9, mmd=0.1),
        arm("collapsed", gen_ppl=2.0, h_uni=1.5, mauve=0.1, mmd=0.4),
        arm("n", "heuristic", gen_ppl=7.0, mauve=0.2, mmd=0.3),
    )
    found = perplexity_finding(collapsed)
    assert "1 of 1 naive samplers" in found
    assert "best diffusion arm (good: 20" in found
    assert "collapsed (2" in found
    text = ranking_finding(turned)
    assert text.startswith("1 of 2 distributional columns (MMD)")
    assert "MAUVE: n is not worse than b" in text


def test_a_tie_with_a_naive_sampler_is_an_exception():
    data = made_up(arm("a", mauve=0.5), arm("n", "heuristic", mauve=0.5))
    assert heuristics_last(data) == [("mauve", "n", "a")]


def test_records_refuse_what_a_report_cannot_show(report_data):
    with pytest.raises(ValueError, match="repeated: \\['a'\\]"):
        made_up(arm("a", mauve=0.5), arm("a", mauve=0.4))
    with pytest.raises(ValueError, match="role='teacher'"):
        arm("a", "teacher", mauve=0.5)
    traced = report_data.trajectories[0]
    with pytest.raises(ValueError, match="pieces has shape"):
        dataclasses.replace(traced, pieces=traced.pieces[:-1])
