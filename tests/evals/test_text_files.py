"""Text files: every format gives the same texts; what cannot be read is named with its place."""

import gzip
import json
import pathlib
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlmeval.evals import corpora, write_bank
from dlmeval.evals.banks.bank import Sample
from dlmeval.evals.corpora.text_files import read_source, read_texts
from dlmeval.evals.corpora.text_source import TextSource, parse_source

TEXTS = ("one text", 'a "second" – text', "漢字 and more")
VISIBLE = st.text(min_size=1).filter(
    lambda t: t.strip() and not any(0xD800 <= ord(c) <= 0xDFFF for c in t)
)


def put(path, value):
    """Writes text, JSON (whole or a line each), zipped where the name says so."""
    if not isinstance(value, str | bytes):
        lines = ".jsonl" in path.name
        value = "\n".join(map(json.dumps, value)) if lines else json.dumps(value)
    data = value.encode() if isinstance(value, str) else value
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


FORMATS = [
    ("a.txt", "\n".join(TEXTS) + "\n", None),
    ("a.tokens", "\r\n".join(f"{t}  " for t in TEXTS), None),
    ("a.txt.gz", "\n".join(TEXTS), None),
    ("a.jsonl", [{"text": t, "more": 1} for t in TEXTS], "text"),
    ("a.jsonl.gz", [{"text": t} for t in TEXTS], "text"),
    ("b.jsonl", list(TEXTS), None),
    ("a.json", list(TEXTS), None),
    ("b.json", {"gen_ppl": 9.5, "entropies": [1.0], "text_samples": list(TEXTS)}, "text_samples"),
    ("c.json.gz", {"generative_ppl": 9.5, "generated_seqs": TEXTS}, "generated_seqs"),
    ("d.json", {"text_samples": [[TEXTS[0], TEXTS[1]], [TEXTS[2]]]}, "text_samples"),
    (
        "e.json.gz",
        [{"prefix_text": "p", "reference_text": "r", "generated_result": {"0": t}} for t in TEXTS],
        "generated_result",
    ),
    ("samples_f.jsonl", [{"doc_id": i, "resps": [[t]]} for i, t in enumerate(TEXTS)], "resps"),
]


@pytest.mark.parametrize(("name", "content", "field"), FORMATS, ids=[row[0] for row in FORMATS])
def test_every_format_gives_the_same_texts(tmp_path, name, content, field):
    path = put(tmp_path / name, content)
    found = read_source(TextSource(path))
    assert found.texts == TEXTS == read_texts(path)
    assert (found.field, found.num_dropped, found.num_bytes) == (field, 0, path.stat().st_size)


@given(st.lists(VISIBLE, min_size=1, max_size=5))
def test_json_keeps_every_character(tmp_path_factory, texts):
    folder = tmp_path_factory.mktemp("texts")
    for name, value in (("a.json", {"generated_seqs": texts}), ("a.jsonl", texts)):
        assert read_texts(put(folder / name, value)) == tuple(texts)


@pytest.mark.parametrize(
    ("field", "texts"),
    [
        ("doc.question", ("q0", "q1")),
        ("a.b", ("exact", "exact")),  # a field with a dot in its name comes first
        ("runs", ("x", "y", "z") * 2),  # by number, not by spelling
        ("runs.2", ("y", "y")),
        ("turns.said", ("hi", "ho") * 2),
        ("turns.1.said", ("ho", "ho")),
    ],
)
def test_fields_are_entered_by_dots(tmp_path, field, texts):
    turns = [{"said": "hi"}, {"said": "ho"}]
    runs = {"10": "z", "0": "x", "2": "y"}
    rows = [
        {"doc": {"question": f"q{i}"}, "a.b": "exact", "a": {"b": "no"}, "runs": runs}
        | {"turns": turns}
        for i in (0, 1)
    ]
    assert read_texts(put(tmp_path / "a.jsonl", rows), field) == texts


def harness_rows():
    """As the harness logs two answers under two filters."""
    return [
        {"doc_id": i, "filter": f, "resps": [[f"so {i}"]], "filtered_resps": [f"{f} {i}"]}
        for f in ("strict", "flexible")
        for i in (0, 1)
    ]


def test_answers_of_the_harness_count_once(tmp_path):
    path = put(tmp_path / "samples_gsm8k.jsonl", harness_rows())
    assert read_texts(path) == read_texts(path, "resps.0.0") == ("so 0", "so 1")
    assert read_texts(path, "filtered_resps:flexible") == ("flexible 0", "flexible 1")
    with pytest.raises(ValueError, match=r"2 filters \('strict', 'flexible'\); choose one"):
        read_texts(path, "filtered_resps")
    with pytest.raises(ValueError, match="no row of the filter 'loose'"):
        read_texts(path, "filtered_resps:loose")


@pytest.mark.parametrize("pair", [["-3.25", "False"], [-1e-05, True]])
def test_likelihoods_are_no_texts(tmp_path, pair):
    path = put(tmp_path / "samples_arc.jsonl", [{"doc_id": 0, "resps": [[pair], [pair]]}])
    with pytest.raises(ValueError, match="line 1: needs text in 'resps'; it holds a log-likel"):
        read_texts(path)
    # Two answers of a task that asks for a verdict are answers.
    put(path, [{"doc_id": 0, "resps": [["True", "False"]]}])
    assert read_texts(path) == ("True", "False")


def test_sources_are_taken_apart():
    for source, path, field, marker, empty in (
        ("a.txt", "a.txt", None, None, None),
        ("d.json/a.jsonl.gz#context", "d.json/a.jsonl.gz", "context", None, None),
        ("a.json#&split=<|endoftext|>", "a.json", None, "<|endoftext|>", None),
        ("a.json#x&split=a=b#c&empty=drop", "a.json", "x", "a=b#c", "drop"),
        ("A.TXT&empty=keep&split=\\n\\n", "A.TXT", None, "\n\n", "keep"),
        ("no#1/a.parquet#Q&A", "no#1/a.parquet", "Q&A", None, None),
    ):
        found = parse_source(source)
        assert (str(found.path), *found[1:]) == (path, field, marker, empty, None)
    assert parse_source("a.tokens&join=").join == " "
    assert parse_source("a.jsonl#x&join=\\n&empty=drop") == (
        pathlib.Path("a.jsonl"),
        "x",
        None,
        "drop",
        "\n",
    )
    assert not str(parse_source("~/a.txt").path).startswith("~")


def test_sentences_are_joined_to_one_document(tmp_path):
    path = put(tmp_path / "a.tokens", "One .\n\nTwo .\nThree .\n")
    rows = read_source(parse_source(f"{path}&empty=drop&join="))
    assert rows.texts == ("One . Two . Three .",)
    assert rows.num_dropped == 1
    assert corpora.load_corpus(f"{path}&join=\\n").documents == ("One .\nTwo .\nThree .",)


def test_a_marker_cuts_documents(tmp_path):
    end = "<|endoftext|>"
    path = put(tmp_path / "a.json", {"text_samples": [f"{end}\nOne\ntwo{end}three", f" 4 {end}"]})
    assert read_texts(path, split_at=end) == ("One\ntwo", "three", "4")
    assert read_texts(path)[0] == f"{end}\nOne\ntwo{end}three"
    # A file of lines is cut at the marker instead of at newlines.
    path = put(tmp_path / "a.txt", f"One\n\ntwo\n{end}\nthree\n{end}\n")
    assert read_texts(path, split_at=end) == ("One\n\ntwo", "three")
    assert read_source(parse_source(f"{path}&split=\\n\\n")).texts[0] == "One"


def test_empty_texts_are_refused_dropped_or_kept(tmp_path):
    rows = [{"text": t} for t in ("one", "", " \n", "two")]
    path = put(tmp_path / "a.jsonl", rows)
    with pytest.raises(ValueError, match=r"empty texts: 2 \(line 2, line 3\); write &empty=drop"):
        read_texts(path)
    dropped = read_source(parse_source(f"{path}&empty=drop"))
    assert (dropped.texts, dropped.num_dropped) == (("one", "two"), 2)
    assert read_texts(path, empty="keep") == ("one", "", " \n", "two")
    # A blank line may be a generation that ended at once; what follows the last newline is none.
    path = put(tmp_path / "a.txt", "one\n\ntwo\n")
    with pytest.raises(ValueError, match=r"empty texts: 1 \(line 2\)"):
        read_texts(path)
    assert read_texts(path, empty="keep") == ("one", "", "two")
    path = put(tmp_path / "b.jsonl", [{"resps": []}, {"resps": ["a", "b"]}])
    assert read_texts(path, empty="keep") == ("", "a", "b")


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("a.csv", "x", {}, "no known kind; accepted: .txt"),
        ("none.json", None, {}, "does not exist, or is no file"),
        ("a.txt", "x", {"field": "text"}, "no field 'text': it holds lines"),
        ("a.txt", "x", {"empty": "skip"}, "empty='skip' is not one of refuse, drop, keep"),
        ("a.txt", "x", {"split_at": " "}, "split=' ' must hold more"),
        ("a.txt", " \n", {"empty": "drop"}, "holds no text"),
        ("a.json", b"[\xe9]", {}, r"not UTF-8 \(byte 1\)"),
        ("a.json", '["a', {}, r"'.*a\.json': not JSON"),
        ("a.json", "[" * 100_000, {}, "not JSON"),
        ("a.json", "[]", {}, "holds no text"),
        ("a.json", "3", {}, "entry 1: needs an object with a field of text; it is 3"),
        ("a.json", {"x": ["a"], "y": 1}, {}, "it has 'x', 'y': write the field behind the file"),
        ("a.json", {"text_samples": ["a", 3]}, {}, "entry 2: needs an object whose 'text_samples'"),
        ("a.json", {"text_samples": {"a": "b"}}, {}, "the object: needs an object whose"),
        ("a.json", {"x": ["a"]}, {"field": "z"}, "with the field 'z'; it has 'x'"),
        ("a.jsonl", ["a", {"text": "b"}], {}, "line 2: needs a text, as the first entry"),
        ("a.jsonl", [{"text": "b"}, ["a"]], {}, "line 2: needs an entry|line 2: needs an object"),
        ("a.jsonl", [{"text": "b"}, {"txt": "a"}], {}, "line 2: .*'text'; it has 'txt'"),
        ("a.jsonl", [{"t": ["b"]}], {"field": "t.1"}, "line 1: needs an entry 1 in a list; it has"),
        ("a.jsonl", '{"text": "\\ud800"}', {}, r"line 1: a text holds half a character"),
        ("a.parquet", b"PAR1", {}, "parquet"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, name, content, options, message):
    path = tmp_path / name
    if content is not None:
        put(path, content)
    with pytest.raises(ValueError, match=message) as caught:
        read_texts(path, **options)
    if "empty=" not in message and "split=" not in message:
        assert str(path) in str(caught.value)


def test_broken_gzip_is_named(tmp_path):
    whole = gzip.compress(b"text\n" * 1000)
    for data in (whole[:-9], b"text", whole[:20] + b"\xff" * 20 + whole[40:]):
        (tmp_path / "a.txt.gz").write_bytes(data)
        with pytest.raises(ValueError, match=r"a\.txt\.gz': is not a whole gzip file"):
            read_texts(tmp_path / "a.txt.gz")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("a.txt&empty=drop&empty=keep", "may be given once"),
        ("a.txt&split=", "split='' must hold"),
        ("a.text#x", "no known kind"),
    ],
)
def test_bad_sources(source, message):
    with pytest.raises(ValueError, match=message):
        read_source(parse_source(source))


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table(
        {
            "text": list(TEXTS),
            "runs": [["a", "b"], ["c"], []],
            "doc": [{"q": "x"}, {"q": "y"}, {"q": "z"}],
            "n": [1, 2, 3],
            "hole": ["a", None, "b"],
        }
    )
    path = tmp_path / "a.parquet"
    parquet.write_table(table, path)
    assert read_source(TextSource(path))[:3] == (TEXTS, "text", 0)
    assert read_texts(path, "doc.q") == ("x", "y", "z")
    assert read_texts(path, "runs", empty="drop") == ("a", "b", "c")
    for field, message in (
        ("n", "row 1: needs an object whose 'n'"),
        ("hole", "row 2: needs an object whose 'hole'"),
        ("none", "no column 'none'; it has 'text', 'runs'"),
    ):
        with pytest.raises(ValueError, match=message):
            read_texts(path, field)
    whole = path.read_bytes()
    damaged = whole[:4] + b"\xff" * 60 + whole[64:]
    for data in (b"PAR1 and nothing", whole[:-20], damaged):
        (tmp_path / "b.parquet").write_bytes(data)
        with pytest.raises(ValueError, match=r"^text file '.*b\.parquet': "):
            read_texts(tmp_path / "b.parquet")


def test_without_pyarrow_the_command_is_named(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from dlmeval.evals.corpora.text_files import read_texts\n"
        f"read_texts({str(tmp_path / 'a.parquet')!r})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ValueError: text file" in done.stderr.splitlines()[-1]
    assert done.stderr.rstrip().endswith("needs the package pyarrow: pip install pyarrow")


def test_corpora_are_read_the_same_way(tmp_path):
    source = f"{put(tmp_path / 'a.json', [{'x': 'one<|end|>two'}])}#x&split=<|end|>"
    corpus = corpora.load_corpus(source)
    assert (corpus.name, corpus.documents) == (source, ("one", "two"))
    assert corpus.digest == corpora.documents_digest(("one", "two"))
    path = put(tmp_path / "a.jsonl", [{"text": "a"}, {"text": ""}])
    with pytest.raises(ValueError, match=r"empty texts: 1 \(line 2\)"):
        corpora.load_corpus(str(path))
    assert corpora.load_corpus(f"{path}&empty=drop").documents == ("a",)
    with pytest.raises(ValueError, match="documents must hold text"):
        corpora.load_corpus(f"{path}&empty=keep")


def test_a_bank_is_a_corpus(tmp_path):
    samples = [Sample([], "one", 0, True), Sample([], "漢字", 0, False), Sample([], "", 0, False)]
    digest = write_bank(tmp_path / "bank", {}, samples[:2])
    corpus = corpora.load_corpus(f"bank:{tmp_path / 'bank'}")
    assert (corpus.documents, corpus.digest) == (("one", "漢字"), digest)
    write_bank(tmp_path / "blank", {}, samples)
    with pytest.raises(ValueError, match="1 samples are empty, the first in row 2"):
        corpora.load_corpus(f"bank:{tmp_path / 'blank'}")
    with pytest.raises(ValueError, match=r"manifest\.json is missing"):
        corpora.load_corpus(f"bank:{tmp_path}")


@pytest.mark.parametrize(
    ("source", "count", "start"),
    [
        ("mdlm-owt-samples/mdlm.generated_sequences.json", 100, "<|endoftext|>\nThe cost"),
        ("webtext-gpt2large-bank/greedy_result.json.gz", 1000, ' her to "reflect."'),
        ("webtext-gpt2large-bank/greedy_result.json.gz#reference_text", 1000, ' her a chance to "'),
        ("owt-contexts/owt_eval_input_ctx100.jsonl#context_string", 1000, " Champions League"),
        ("webtext-heldout/webtext.test.jsonl", 4723, "Is this restaurant"),
        ("lm1b-heldout/1b_benchmark.dev.tokens", 12216, "But now , it 's looking"),
        ("tasks/HumanEval.jsonl.gz#prompt", 164, "from typing import List"),
    ],
)
def test_real_files(shared, source, count, start):
    name, hash_sign, field = source.partition("#")
    texts = corpora.load_corpus(f"{shared('data/' + name)}{hash_sign}{field}").documents
    assert len(texts) == count
    assert texts[0].lstrip("\n").startswith(start)


def test_real_samples_hold_several_documents(shared):
    path = shared("data/mdlm-owt-samples/mdlm.generated_sequences.json")
    pieces = corpora.load_corpus(f"{path}&split=<|endoftext|>").documents
    assert len(pieces) > 150
    assert all("<|endoftext|>" not in piece and piece == piece.strip() for piece in pieces)


def test_blank_lines_split_a_file_with_carriage_returns(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\r\nmore\r\n\r\ntwo\r\n\r\nthree")
    assert read_texts(path, split_at="\n\n") == ("one\nmore", "two", "three")


def test_a_marker_that_a_file_does_not_hold_is_refused(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("one<|end|>two")
    with pytest.raises(ValueError, match=r"has no '<\|eot\|>' to split at"):
        read_texts(path, split_at="<|eot|>")


def test_json_lines_under_another_name_are_told_so(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"text": "a"}\n{"text": "b"}\n')
    with pytest.raises(ValueError, match=r"not JSON .*; one object a line is \.jsonl"):
        read_texts(path)
