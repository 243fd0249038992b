"""Imported banks: texts as they were written, an honest manifest, one line for bad input."""

import hashlib
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

from dlmeval.evals import BankExistsError, InputError, bank_digest, read_bank
from dlmeval.evals.sampling.external_bank import import_bank, load_tokenizer
from dlmeval.models.text_tokens import train_bpe

IMPORT = pathlib.Path(__file__).parents[2] / "launch" / "import_bank.py"
EMBEDDED = IMPORT.parents[1] / "models" / "embedded" / "kjv-scorer"
TEXTS = ["In the beginning", "漢字漢字漢字", "", "In the beginning", "And God said, é"]


def run(*arguments):
    """(exit code, stdout, stderr) of the command line."""
    done = subprocess.run(
        [sys.executable, str(IMPORT), *arguments], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "mdlm.generated.jsonl"
    lines = (json.dumps({"out": text}) for text in TEXTS)
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    """A byte-level BPE of the bytes alone, beside the end-of-text token: a token is a byte."""
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    train_bpe(["x"], 257).save(path)
    return path


def test_texts_are_stored_as_written(tmp_path, texts):
    found = import_bank(f"{texts}#out&empty=keep", tmp_path / "bank")
    bank = read_bank(tmp_path / "bank")  # every hash and total checked
    assert bank.texts == tuple(TEXTS)
    assert bank.digest == bank_digest(TEXTS) == found.digest
    assert bank.accepted.tolist() == [True, False, False, True, True]  # CJK, nothing
    assert bank.lengths.tolist() == [0] * 5
    assert bank.nfe.tolist() == [0] * 5
    assert found._replace(digest="") == (
        "mdlm.generated.jsonl",
        "out",
        hashlib.sha256(texts.read_bytes()).hexdigest(),
        *(5, 0, 3, 1),
        sum(map(len, TEXTS)) / 5,
        *(None, None, ""),
    )


def test_the_manifest_says_where_texts_come_from(tmp_path, texts, tokenizer):
    import_bank(
        f"{texts}#out&split=beginning&empty=drop",
        tmp_path / "bank",
        tokenizer=str(tokenizer),
        num_tokens=6,
        nfe=128,
        generator="mdlm t=1",
    )
    manifest = read_bank(tmp_path / "bank").manifest
    assert manifest["external"] == {
        "generator": "mdlm t=1",
        "file": texts.name,
        "sha256": hashlib.sha256(texts.read_bytes()).hexdigest(),
        "bytes": texts.stat().st_size,
        "field": "out",
        "split_at": "beginning",
        "empty": "drop",
        "num_dropped": 1,
        "num_tokens": 6,
        "nfe": 128,
    }
    digest = hashlib.sha256(tokenizer.read_bytes()).hexdigest()
    assert manifest["tokenizer"] == {"source": str(tokenizer), "files": {tokenizer.name: digest}}
    assert manifest["filter"] == {"name": "english", "ascii_min": 0.85, "cjk_max": 0.02}
    assert manifest["arm"] == "mdlm t=1"
    assert manifest["measured"]["nfe_mean"] == 128.0
    assert str(tmp_path) not in json.dumps(manifest | {"tokenizer": None})


def test_an_unknown_cost_is_null_and_the_name_is_that_of_the_file(tmp_path, texts):
    import_bank(f"{texts}#out&empty=drop", tmp_path / "bank")
    manifest = read_bank(tmp_path / "bank").manifest
    assert manifest["external"]["nfe"] is None
    assert manifest["tokenizer"] is None
    assert manifest["external"]["generator"] == manifest["arm"] == "mdlm"


def test_ids_are_those_of_the_text_and_cut_texts_are_decoded(tmp_path, texts, tokenizer):
    source = f"{texts}#out&empty=drop"
    whole = import_bank(source, tmp_path / "whole", tokenizer=str(tokenizer))
    bank = read_bank(tmp_path / "whole")
    named = load_tokenizer(str(tokenizer)).tokenizer
    for row, length, text in zip(bank.ids, bank.lengths, bank.texts):
        assert named.decode(row[:length]) == text
    written = [text for text in TEXTS if text]
    assert bank.lengths.tolist() == [len(text.encode()) for text in written]
    assert whole.mean_tokens == sum(map(len, map(str.encode, written))) / 4
    assert whole.num_short is None

    cut = import_bank(source, tmp_path / "cut", tokenizer=str(tokenizer), num_tokens=16)
    bank = read_bank(tmp_path / "cut")
    assert bank.lengths.tolist() == [16, 16, 16, 16]
    # "And God said, é" has 16 bytes; five characters of three bytes and a stray byte are left.
    assert bank.texts == (written[0], "漢字漢字漢\ufffd", written[2], written[3])
    assert cut.num_short == 0
    longer = import_bank(source, tmp_path / "longer", tokenizer=str(tokenizer), num_tokens=17)
    assert longer.num_short == 3


def test_tokenizers_come_from_models_files_and_bare_folders(tmp_path):
    embedded = load_tokenizer("embedded:kjv-scorer")
    shutil.copy(EMBEDDED / "tokenizer.json", tmp_path)
    for source in (str(EMBEDDED), str(EMBEDDED / "tokenizer.json"), str(tmp_path)):
        found = load_tokenizer(source)
        assert found.digests == embedded.digests
        assert found.tokenizer.encode("In the beginning") == embedded.tokenizer.encode(
            "In the beginning"
        )
    (tmp_path / "tokenizer.json").unlink()
    for source, message in (
        (str(tmp_path), "holds no tokenizer; accepted in a folder: tokenizer.json"),
        ("embedded:none", "is unknown"),
        ("hf:a/b", "must pin a revision"),
        (str(tmp_path / "missing"), "no folder with a config.json"),
    ):
        with pytest.raises(ValueError, match=message):
            load_tokenizer(source)


def test_equal_imports_give_equal_bytes(tmp_path, texts):
    for name in ("a", "b"):
        import_bank(f"{texts}#out&empty=drop", tmp_path / name)
    files = [sorted(path.name for path in (tmp_path / n).iterdir()) for n in ("a", "b")]
    assert files[0] == files[1]
    for name in files[0]:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.parametrize(
    ("tail", "options", "message"),
    [
        ("#out", {}, r"^--texts=.*empty texts: 1 \(line 3\); write &empty=drop"),
        ("", {}, r"^--texts=.*line 1: needs an object with one of the fields text"),
        ("#out&empty=drop&join=", {}, "^--texts=.*&join= would make one sample"),
        ("#out&empty=drop", {"num_tokens": 4}, "--num_tokens=4 needs --tokenizer"),
        ("#out&empty=drop", {"num_tokens": 0, "tokenizer": "x"}, "--num_tokens=0 must be"),
        ("#out&empty=drop", {"nfe": -1}, "--nfe=-1 must be at least 0"),
        ("#out&empty=drop", {"nfe": 2**31}, "--nfe=2147483648 must be .* below 2"),
        ("#out&empty=drop", {"tokenizer": "embedded:x"}, "^--tokenizer=embedded:x: model"),
    ],
)
def test_bad_input_is_refused_and_writes_nothing(tmp_path, texts, tail, options, message):
    with pytest.raises(InputError, match=message):
        import_bank(f"{texts}{tail}", tmp_path / "bank", **options)
    assert not (tmp_path / "bank").exists()


def test_what_exists_is_left_alone(tmp_path, texts):
    source = f"{texts}#out&empty=drop"
    import_bank(source, tmp_path / "bank")
    before = (tmp_path / "bank" / "manifest.json").read_bytes()
    with pytest.raises(BankExistsError, match="holds a bank; name another folder"):
        import_bank(source, tmp_path / "bank")
    assert (tmp_path / "bank" / "manifest.json").read_bytes() == before
    for output in (tmp_path, texts):
        with pytest.raises(InputError, match="exists and is no empty folder"):
            import_bank(source, output)
    (tmp_path / "empty").mkdir()
    assert import_bank(source, tmp_path / "empty").num_texts == 4


def test_the_command_line(tmp_path, texts, tokenizer):
    code, out, err = run(
        f"--texts={texts}#out&empty=drop",
        f"--output={tmp_path / 'bank'}",
        f"--tokenizer={tokenizer}",
        "--num_tokens=17",
        "--nfe=64",
        "--generator=toy",
    )
    assert code == 0, err[-2000:]
    lines = [line.split(None, 1)[1] for line in out.splitlines()]
    assert lines[1:] == [
        "out",
        "4",
        "length: 13.2 characters, 16.2 tokens",
        "3 of 4 (75.0 %) by the filter",
        "1",
        "1 empty texts",
        "3 texts of less than --num_tokens",
        f"{tmp_path / 'bank'} (digest {read_bank(tmp_path / 'bank').digest[:12]}…)",
    ]
    assert lines[0].startswith("mdlm.generated.jsonl (sha256 ")
    assert read_bank(tmp_path / "bank").nfe.tolist() == [64] * 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--texts is missing"),
        (("--texts=a.txt", "--output=x", "--nfe=many"), "nfe"),
        (("surplus",), "unknown argument 'surplus'"),
    ],
)
def test_bad_input_is_one_line(arguments, message):
    code, _, err = run(*arguments)
    assert code == 2
    assert message in err.strip().splitlines()[-1]
    assert "Traceback" not in err


def test_the_samples_of_mdlm(tmp_path, shared):
    vocabulary = tmp_path / "gpt2"
    vocabulary.mkdir()
    shutil.copy(shared("data/tokenizers/gpt2_encoder.json"), vocabulary / "vocab.json")
    shutil.copy(shared("data/tokenizers/gpt2_vocab.bpe"), vocabulary / "merges.txt")
    path = shared("data/mdlm-owt-samples/mdlm.generated_sequences.json")
    found = import_bank(str(path), tmp_path / "bank", tokenizer=str(vocabulary), nfe=128)
    assert (found.num_texts, found.num_accepted, found.num_duplicates) == (100, 100, 0)
    # Written as 1,024 GPT-2 tokens each; spelled again, texts may take fewer or more.
    assert found.mean_tokens == pytest.approx(1024, rel=0.01)
    # The program that drew them recorded the entropy of each one's tokens, in nats.
    bank, entropies = read_bank(tmp_path / "bank"), []
    for row, length in zip(bank.ids, bank.lengths):
        share = np.unique(row[:length], return_counts=True)[1] / length
        entropies.append(-float(share @ np.log(share)))
    recorded = json.loads(path.read_text())["entropies"]
    assert entropies == pytest.approx(recorded, abs=0.03)
    assert np.mean(entropies) == pytest.approx(np.mean(recorded), abs=0.002)
