"""Banks: what is written is read back, what was edited is refused, what is complete stays."""

import hashlib
import json
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmeval.evals import Sample, bank_digest, read_bank, write_bank
from dlmeval.evals.banks.bank import shard_names
from dlmeval.evals.banks.bank_writer import BankWriter

SAMPLES = [
    Sample([5, 6, 7], "In the beginning\n", 4, True),
    Sample([], "", 3, False),
    Sample(np.array([9, 1], np.int32), 'é "漢"  line\u2028sep', 5, True),
    Sample([2], "end", 4, True),
    Sample([3], "last", 4, True),
]


@pytest.fixture
def bank(tmp_path):
    path = tmp_path / "bank"
    write_bank(path, {"arm": "toy"}, SAMPLES, shard_size=2)
    return path


def test_round_trip(bank):
    read = read_bank(bank)
    assert read.texts == tuple(sample.text for sample in SAMPLES)
    assert read.lengths.tolist() == [3, 0, 2, 1, 1]
    assert read.ids.tolist() == [[5, 6, 7], [0, 0, 0], [9, 1, 0], [2, 0, 0], [3, 0, 0]]
    assert read.nfe.tolist() == [4, 3, 5, 4, 4]
    assert read.accepted.tolist() == [True, False, True, True, True]
    assert (read.ids.dtype, read.lengths.dtype) == (np.int32, np.int32)
    assert read.digest == bank_digest(read.texts) == read.manifest["bank_digest"]
    assert read.manifest["arm"] == "toy"
    assert read.manifest["measured"]["nfe_mean"] == 4.0


def test_files_of_a_complete_bank(bank):
    names = {path.name for path in bank.iterdir()}
    assert names == {"manifest.json", *(f"samples-0000{i}-of-00003.jsonl" for i in range(3))}
    manifest = json.loads((bank / "manifest.json").read_text())
    for name, entry in manifest["files"].items():
        data = (bank / name).read_bytes()
        assert entry["sha256"] == hashlib.sha256(data).hexdigest()
        assert entry["rows"] == data.count(b"\n")


def test_digest_is_length_prefixed_utf8():
    expected = hashlib.sha256(b"\x02\0\0\0\0\0\0\0\xc3\xa9" + b"\0" * 8).hexdigest()
    assert bank_digest(["é", ""]) == expected


@given(st.lists(st.text(max_size=5), max_size=5), st.lists(st.text(max_size=5), max_size=5))
def test_digests_are_equal_for_equal_texts_alone(one, other):
    assert (bank_digest(one) == bank_digest(other)) == (one == other)


def edit_row(bank, key, value):
    path = bank / "samples-00001-of-00003.jsonl"
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    rows[0][key] = value
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def drop_row(bank):
    path = bank / "samples-00000-of-00003.jsonl"
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])


def edit_manifest(bank, change):
    path = bank / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))


def forge(bank):
    """Edits an nfe and mends the hash of its file."""
    edit_row(bank, "nfe", 1)
    name = "samples-00001-of-00003.jsonl"
    digest = hashlib.sha256((bank / name).read_bytes()).hexdigest()
    edit_manifest(bank, lambda m: m["files"][name].update(sha256=digest))


@pytest.mark.parametrize(
    "tamper",
    [
        lambda bank: edit_row(bank, "text", "other"),
        lambda bank: edit_row(bank, "nfe", 1),
        lambda bank: edit_row(bank, "ids", [1]),
        lambda bank: edit_row(bank, "accepted", False),
        drop_row,
        forge,
        lambda bank: (bank / "samples-00002-of-00003.jsonl").unlink(),
        lambda bank: (bank / "notes.txt").write_text("mine"),
        lambda bank: edit_manifest(bank, lambda m: m.update(n=4)),
        lambda bank: edit_manifest(bank, lambda m: m.update(bank_digest="0" * 64)),
        lambda bank: edit_manifest(bank, lambda m: m.update(status="started")),
        lambda bank: edit_manifest(bank, lambda m: m["measured"].update(nfe_mean=1.0)),
        lambda bank: edit_manifest(bank, lambda m: m["files"].popitem()),
        lambda bank: edit_manifest(bank, lambda m: m.pop("files")),
        lambda bank: (bank / "manifest.json").write_text("{"),
        lambda bank: (bank / "manifest.json").unlink(),
    ],
)
def test_any_difference_is_refused(bank, tamper):
    tamper(bank)
    with pytest.raises(ValueError, match="bank"):
        read_bank(bank)


def test_a_lenient_reader_shows_an_edited_bank(bank):
    edit_row(bank, "text", "other")
    read = read_bank(bank, strict=False)
    assert read.texts[2] == "other"
    assert read.digest != read.manifest["bank_digest"]


def test_a_complete_bank_is_never_overwritten(bank):
    before = {path.name: path.read_bytes() for path in bank.iterdir()}
    with pytest.raises(FileExistsError, match="complete"):
        write_bank(bank, {"arm": "toy"}, SAMPLES, shard_size=2)
    assert {path.name: path.read_bytes() for path in bank.iterdir()} == before


@pytest.mark.parametrize("stop", [0, 1, 2])
def test_a_half_written_bank_is_completed_to_the_same_bytes(bank, tmp_path, stop):
    manifest = {"arm": "toy", "n": 5}
    half = tmp_path / "half"
    writer = BankWriter.open(half, manifest, shard_size=2)
    for rows in writer.missing()[:stop]:
        writer.write(rows, SAMPLES[rows.start : rows.stop])
    # A crash between the rename of a shard and its entry leaves a file that nobody vouches for.
    (half / shard_names(5, 2)[2]).write_text("garbage")
    with pytest.raises(ValueError, match="unfinished"):
        read_bank(half)
    assert BankWriter.open(half, manifest, shard_size=2).missing() == writer.missing()
    write_bank(half, manifest, SAMPLES, shard_size=2)
    for path in bank.iterdir():
        assert (half / path.name).read_bytes() == path.read_bytes()
    assert read_bank(half).digest == read_bank(bank).digest


def test_a_half_written_bank_of_another_plan_is_refused(tmp_path):
    BankWriter.open(tmp_path / "bank", {"n": 5, "arm": "toy"}, shard_size=2)
    with pytest.raises(ValueError, match="arm"):
        BankWriter.open(tmp_path / "bank", {"n": 5, "arm": "other"}, shard_size=2)


def test_a_half_written_bank_that_was_edited_is_not_continued(tmp_path):
    writer = BankWriter.open(tmp_path / "bank", {"n": 5}, shard_size=2)
    writer.write(writer.missing()[0], SAMPLES[:2])
    name = shard_names(5, 2)[0]
    (tmp_path / "bank" / name).write_text("garbage")
    with pytest.raises(ValueError, match=name):
        BankWriter.open(tmp_path / "bank", {"n": 5}, shard_size=2)
    (tmp_path / "bank" / name).unlink()
    with pytest.raises(ValueError, match="missing"):
        BankWriter.open(tmp_path / "bank", {"n": 5}, shard_size=2)


def test_the_manifest_is_there_before_any_sample(tmp_path):
    BankWriter.open(tmp_path / "bank", {"n": 5}, shard_size=2)
    manifest = json.loads((tmp_path / "bank" / "manifest.json").read_text())
    assert manifest["status"] == "started"
    assert manifest["n"] == 5


def test_a_bank_copies_through_its_manifest(bank, tmp_path):
    read = read_bank(bank)
    rows = [
        Sample(ids[:length], text, nfe, accepted)
        for ids, length, text, nfe, accepted in zip(*read[:5], strict=True)
    ]
    write_bank(tmp_path / "copy", read.manifest, rows, shard_size=2)
    assert read_bank(tmp_path / "copy").manifest == read.manifest


@pytest.mark.parametrize(
    ("manifest", "samples", "match"),
    [
        ({"n": 3}, SAMPLES, "n=3"),
        ({}, [], "n=0"),
        ({}, [Sample([1], "\ud800", 1, True)], "surrogate"),
        ({"x": float("nan")}, SAMPLES, "JSON"),
    ],
)
def test_bad_banks_are_refused_before_anything_is_written(tmp_path, manifest, samples, match):
    with pytest.raises(ValueError, match=match):
        write_bank(tmp_path / "bank", manifest, samples)
    assert not (tmp_path / "bank").exists()


def test_a_foreign_folder_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(ValueError, match="holds files"):
        write_bank(tmp_path, {}, SAMPLES)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_reading_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(ValueError, match="manifest"):
        read_bank(tmp_path / "nothing")
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [("[]", "no JSON object"), ("{", "not JSON"), ('{"files": {"a": 1}}', "unfinished")],
)
def test_a_manifest_of_another_shape_is_refused(tmp_path, content, message):
    write_bank(tmp_path / "bank", {}, [Sample([1], "a text", 0, True)])
    (tmp_path / "bank" / "manifest.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        read_bank(tmp_path / "bank")


def test_a_file_without_a_recorded_hash_is_refused(tmp_path):
    write_bank(tmp_path / "bank", {}, [Sample([1], "a text", 0, True)])
    path = tmp_path / "bank" / "manifest.json"
    manifest = json.loads(path.read_text())
    for entry in manifest["files"].values():
        del entry["sha256"]
    path.write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match="does not match its sha256"):
        read_bank(tmp_path / "bank")
