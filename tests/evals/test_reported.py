"""The papers' numbers: read as printed, refused when malformed, and kept out of everything else."""

import json
import pathlib
import re
import subprocess

import pytest

from dlmeval.evals import InputError, reported
from dlmeval.evals.reported import Measured, Printed, read_reported, reported_claim, reported_column

ROOT = pathlib.Path(reported.__file__).resolve().parents[1]
CLAIM = {
    "id": "care.a",
    "paper": "care",
    "where": "Table 1",
    "statement": "Something is so.",
    "values": {"value": "0.080", "several": ["1", "-2.5", "1e6"]},
    "unit": None,
    "tag": "exact",
    "comment": None,
}


@pytest.fixture(scope="module")
def claims():
    return read_reported()


@pytest.fixture
def read(tmp_path):
    """Reads claims from a file that holds the given value."""

    def run(value):
        path = tmp_path / "claims.json"
        path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
        return read_reported(path)

    return run


def test_numbers_carry_the_rounding_they_were_printed_with(read):
    (claim,) = read([CLAIM])
    number = claim.number("value")
    assert (number.text, number.value) == ("0.080", 0.08)
    assert number.half_unit == pytest.approx(0.0005)
    assert (number.low, number.high) == pytest.approx((0.0795, 0.0805))
    assert all(number.admits(x) for x in (0.0795, 0.08, 0.0804, 0.0805))
    assert not any(number.admits(x) for x in (0.0794, 0.0806))
    assert [n.value for n in claim.numbers("several")] == [1, -2.5, 1e6]
    assert [n.half_unit for n in claim.numbers("several")] == pytest.approx([0.5, 0.05, 5e5])
    assert reported.shown(claim.numbers("several")) == "1, -2.5, 1e6"


def test_names_and_counts_of_numbers_are_checked(read):
    (claim,) = read([CLAIM])
    with pytest.raises(InputError, match=r"no number 'other'; it has \['several', 'value'\]"):
        claim.numbers("other")
    with pytest.raises(InputError, match="3 numbers 'several'; one is needed"):
        claim.number("several")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"novelty": 1}, "unknown fields \\['novelty'\\]"),
        ({"unit": ...}, "missing fields \\['unit'\\]"),
        ({"tag": "maths"}, "tag is 'maths'; accepted: exact, gpt2-large"),
        ({"paper": "genppl"}, "accepted: care, genppl, and the id"),
        ({"paper": "other"}, "paper is 'other'"),
        ({"where": ""}, "where is ''"),
        ({"statement": 3}, "statement is 3"),
        ({"comment": 3}, "comment is 3; it must be a text or null"),
        ({"values": ["0.1"]}, "values must be an object"),
        ({"values": {"value": 0.08}}, r"value is 0.08; a number is a string .* such as \"0.080\""),
        ({"values": {"value": "NaN"}}, "value is 'NaN'"),
        ({"values": {"value": "about 4"}}, "value is 'about 4'"),
        ({"values": {"value": []}}, r"value is \[\]"),
        ({"measured": {"metric": "mauve"}}, "measured has the fields metric, subject, corpus"),
        (
            {"measured": {"metric": "mauve", "subject": "a", "corpus": "c4"}},
            "corpus is 'c4'; accepted: owt, lm1b or null",
        ),
        (
            {"measured": {"metric": "mauve", "subject": "a"}, "values": {}},
            "a measurement needs one number named 'value'",
        ),
    ],
)
def test_malformed_claims_are_refused_by_name(read, change, message):
    record = {k: v for k, v in (CLAIM | change).items() if v is not ...}
    with pytest.raises(InputError, match=message):
        read([record])


def test_malformed_files_are_refused(read, tmp_path):
    with pytest.raises(InputError, match=r"two claims each of the ids \['care.a'\]"):
        read([CLAIM, CLAIM])
    with pytest.raises(InputError, match="holds dict; it must be a list"):
        read({})
    with pytest.raises(InputError, match=r"claims.json\[0\]: unknown fields \[\], missing fields"):
        read(["claim"])
    with pytest.raises(InputError, match="is not JSON"):
        read("[")
    with pytest.raises(InputError, match="is missing"):
        read_reported(tmp_path / "none.json")


def test_the_file_reads_and_every_kind_of_claim_is_there(claims):
    assert {claim.tag for claim in claims} == set(reported.TAGS)
    assert {claim.paper for claim in claims} == set(reported.PAPERS)
    assert all(isinstance(n, Printed) for c in claims for v in c.values.values() for n in v)
    # Claims without a number are theorems, constructions or prose.
    assert all(claim.values or claim.measured is None for claim in claims)


def test_every_contradiction_of_the_specification_is_commented_on(claims):
    text = "\n".join(claim.comment or "" for claim in claims)
    assert [n for n in range(1, 11) if not re.search(rf"\bC{n}\b", text)] == []


def test_claims_of_one_measurement_agree(claims):
    """What several claims print of the same thing is the same number."""
    gap = reported_claim(claims, "care.gap.llada")
    assert gap.number("value") == reported_claim(claims, "care.gap.difference").number("difference")
    assert gap.number("stderr") == reported_claim(claims, "care.gap.t").number("stderr")
    assert gap.number("p") == reported_claim(claims, "care.gap.p").number("p")
    pairs = [
        ("genppl.periodic.below-data", "value", "genppl.periodic.gen-ppl-lm1b"),
        ("genppl.periodic.below-data", "bound", "genppl.data.gen-ppl-lm1b"),
        ("genppl.jcd.plaid", "jcd", "genppl.plaid.jcd"),
        ("genppl.jcd.plaid", "coverage", "genppl.plaid.coverage"),
        ("genppl.jcd.elf-m", "fidelity", "genppl.elf-m.fidelity"),
        ("genppl.rank.cobit-m", "mean_rank", "genppl.cobit-m.mean-rank"),
        ("care.stable.ratio", "below", "care.stable.high-entropy"),
        ("care.gap.difference", "minuend", "care.mauve.none-256-t025"),
        ("care.gap.difference", "subtrahend", "care.mauve.high-entropy-256-t025"),
        ("care.moe.gain", "minuend", "care.mauve.moe-t01"),
        ("care.temperature.gain", "minuend", "care.mauve.none-t01"),
        ("care.leaderboard.spread", "below", "care.gap.dream"),
    ]
    for name, number, other in pairs:
        first = reported_claim(claims, name).number(number)
        assert first == reported_claim(claims, other).number("value"), name


def test_columns_hold_what_the_papers_measured(claims):
    column = reported_column(claims, "gen_ppl", corpus="owt", paper="genppl")
    assert set(column) == {"Reference", "Periodic-400", "CoBit-M"}
    assert column["Reference"] == reported_claim(claims, "genppl.data.gen-ppl-owt").number("value")
    assert set(reported_column(claims, "gen_ppl", corpus="lm1b")) == {"Reference", "Periodic-64"}
    assert set(reported_column(claims, "interaction_gap")) == {
        *("LLaDA-8B-Base", "LLaDA-MoE-7B-A1B", "Dream-7B-Base")
    }
    assert reported_column(claims, "interaction_gap", paper="genppl") == {}
    assert reported_column(claims, "no_such_metric") == {}


def test_columns_never_mix_two_numbers_of_a_subject(claims):
    with pytest.raises(InputError, match="gen_ppl of 'Reference' is reported twice; name a corpus"):
        reported_column(claims, "gen_ppl", paper="genppl")
    with pytest.raises(InputError, match="corpus is 'c4'; accepted: owt, lm1b"):
        reported_column(claims, "gen_ppl", corpus="c4")
    with pytest.raises(InputError, match="paper is 'x'"):
        reported_column(claims, "gen_ppl", paper="x")
    for metric in {c.measured.metric for c in claims if c.measured}:
        for corpus in reported.CORPORA:
            reported_column(claims, metric, corpus=corpus)  # no subject is there twice


def test_an_unknown_id_is_refused(claims):
    with pytest.raises(InputError, match=r"no claim has the id 'care\.nothing'"):
        reported_claim(claims, "care.nothing")


def test_measured_metrics_are_named_alike(claims):
    measured = [claim.measured for claim in claims if claim.measured]
    assert len(measured) > 40
    assert all(isinstance(m, Measured) and re.fullmatch(r"[a-z0-9_]+", m.metric) for m in measured)


def test_no_other_file_carries_the_headline_numbers(claims):
    """The gap, the arm it starts from and the lowest rating are literals in one file alone."""
    found = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    if found.returncode:
        pytest.skip("not a git checkout")
    numbers = [
        reported_claim(claims, name).number("value").text
        for name in ("care.gap.llada", "care.mauve.high-entropy-256-t025", "genppl.elo.periodic")
    ]
    pattern = re.compile(rf"(?<![\d.])(?:{'|'.join(map(re.escape, numbers))})(?![\d.]*\d)")
    # Tokenizers, weights and images hold any digits.
    code = {".py", ".flags", ".html", ".css", ".js", ".toml", ".md", ".mplstyle", ".sh", ".yaml"}
    names = [pathlib.Path(name) for name in found.stdout.splitlines()]
    names = [n for n in names if n.suffix in code and n.parts[0] not in ("tests", "docs")]
    assert len(names) > 100
    carriers = [
        str(n)
        for n in names
        if (ROOT / n).is_file() and pattern.search((ROOT / n).read_text(encoding="utf-8"))
    ]
    assert carriers == []
    assert pattern.search(reported.REPORTED.read_text(encoding="utf-8"))
