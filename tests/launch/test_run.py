"""The command line: one clear line for bad input, a dry run that writes nothing, a small real run.

Cases share one process, which starts JAX once; each of them parses its own command line.
"""

import json
import pathlib
import shutil
import subprocess
import sys

import jax
import pytest

from dlmeval.models import text_tokens
from dlmeval.models.decoder import DecoderConfig, init_params
from dlmeval.models.published import save_pretrained

RUN = pathlib.Path(__file__).parents[2] / "launch" / "run.py"
WORDS = "and the lord said unto moses speak thou unto all the people".split()
VOCAB = 300

# Runs command lines one after another as run.py would, and reports what each did.
LOOP = """
import contextlib, io, json, sys
from absl.testing import flagsaver
from dlmeval.launch import run

results = []
for arguments in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with flagsaver.flagsaver(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = run.main(run.parse_flags(["run.py", *arguments]))
        except SystemExit as stop:
            code = stop.code
    results.append([code, out.getvalue(), err.getvalue()])
print(json.dumps(results), file=sys.__stdout__)
"""


def run_lines(command_lines):
    """[code, stdout, stderr] of each command line."""
    done = subprocess.run(
        [sys.executable, "-c", LOOP],
        input=json.dumps(command_lines),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def save_model(folder, *, causal):
    config = DecoderConfig(
        vocab_size=VOCAB,
        hidden_size=16,
        num_layers=1,
        num_heads=2,
        num_kv_heads=2,
        intermediate_size=16,
        causal=causal,
        tie_embeddings=True,
    )
    tokenizer = text_tokens.train_bpe([" ".join(WORDS)] * 4, VOCAB - 10)
    ids = {"eos_token_id": 0} | ({} if causal else {"mask_token_id": VOCAB - 1})
    params = init_params(config, jax.random.key(causal))
    save_pretrained(folder, "llama" if causal else "llada", config, params, tokenizer, ids)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Two tiny models, two texts and three unusable ones."""
    folder = tmp_path_factory.mktemp("world")
    save_model(folder / "denoiser", causal=False)
    save_model(folder / "scorer", causal=True)
    line = " ".join(WORDS[i * 7 % len(WORDS)] for i in range(80))
    (folder / "text.txt").write_text(f"{line}\n" * 12)
    (folder / "short.txt").write_text("and\nthe\n")
    (folder / "empty.txt").write_text("\n\n")
    (folder / "latin.txt").write_bytes("café au lait\n".encode("latin-1"))
    return folder


def base(world):
    return [
        f"--denoiser={world / 'denoiser'}",
        f"--scorer={world / 'scorer'}",
        f"--reference={world / 'text.txt'}",
        f"--training={world / 'text.txt'}",
        "--gen_length=8",
        "--num_samples=8",
        "--seeds=0",
        "--strategies=none",
        "--unmask_temps=1.0",
        "--num_steps=4",
        "--topk_iid=4",
        "--mirror=4",
        "--periodic=4",
        "--phrase_bank=4",
        "--num_null_banks=1",
        "--num_trajectories=0",
        "--batch_size=8",
        "--shard_size=4",
    ]


@pytest.fixture(scope="module")
def sampled(world):
    """A workdir whose banks are made, through the real command."""
    workdir = world / "sampled"
    command = [sys.executable, str(RUN), *base(world), "--stages=sample", f"--workdir={workdir}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "sample: 8 banks sampled" in done.stdout
    return workdir


def snapshot(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_bad_input_is_one_line_and_writes_nothing(world, sampled):
    edited = shutil.copytree(sampled, world / "edited")
    bank = next(edited.glob("banks/*/*.jsonl"))
    bank.write_text(bank.read_text().replace('"nfe": ', '"nfe": 1'))
    half = shutil.copytree(sampled, world / "half")
    shutil.rmtree(next((half / "banks").iterdir()))
    blocked = shutil.copytree(sampled, world / "blocked")
    (blocked / "features").write_text("mine")
    new = f"--workdir={world / 'new'}"
    good = [*base(world), new]
    cases = {
        "unknown experiment": ([*good, "--experiment=quickstat"], "--experiment=quickstat"),
        "unknown stage": ([*good, "--stages=sampel"], "--stages=sampel"),
        "unknown executor": ([*good, "--executor=slurm"], "executor=slurm"),
        "unknown choice": ([*good, "--pace=slow"], "pace=slow"),
        "unknown flag": ([*good, "--colour=blue"], "colour"),
        "not a number": ([*good, "--num_samples=many"], "num_samples=many"),
        "not a number or none": ([*good, "--gradient_batches=few"], "gradient_batches=few"),
        "none where one is needed": ([*good, "--training=none"], "--training is missing"),
        "not a list": ([*good, "--unmask_temps=warm"], "unmask_temps=warm"),
        "unknown strategy": ([*good, "--strategies=nones"], "nones"),
        "negative temperature": ([*good, "--unmask_temps=-1"], "unmask_temp"),
        "no length": ([*good, "--gen_length=0"], "--gen_length=0"),
        "stray word": ([*good, "extra"], "extra"),
        "missing flagfile": ([*good, f"--flagfile={world / 'no.flags'}"], "no.flags"),
        "no workdir": (base(world), "--workdir"),
        "missing corpus": ([*good, f"--reference={world / 'no.txt'}"], "no.txt"),
        "unknown corpus": ([*good, "--training=kjv:all"], "--training=kjv:all"),
        "empty text": ([*good, f"--reference={world / 'empty.txt'}"], "empty.txt"),
        "not UTF-8": ([*good, f"--training={world / 'latin.txt'}"], "latin.txt"),
        "short reference": ([*good, f"--reference={world / 'short.txt'}"], "--gen_length"),
        "few windows": ([*good, "--num_samples=5000"], "--num_samples"),
        "missing model": ([*good, "--denoiser=nowhere"], "--denoiser=nowhere"),
        "wrong model": ([*good, f"--scorer={world / 'denoiser'}"], "--scorer="),
        "vocabulary": ([*good, "--mirror=5000"], "--mirror=5000"),
        "a file": ([*base(world), f"--workdir={world / 'text.txt'}"], "text.txt"),
        "below a file": ([*base(world), f"--workdir={world / 'text.txt' / 'x'}"], "text.txt"),
        "foreign folder": ([*base(world), f"--workdir={world}"], "plan.json"),
        "another plan": (
            [*base(world), f"--workdir={sampled}", "--num_steps=8"],
            "--num_steps (4, now 8)",
        ),
        "edited bank": ([*base(world), f"--workdir={edited}"], bank.name),
        "in the way": ([*base(world), f"--workdir={blocked}", "--stages=score"], "move it away"),
        "missing bank": ([*base(world), f"--workdir={half}", "--stages=score"], "--stages=sample"),
    }
    before = snapshot(world)
    results = run_lines([arguments for arguments, _ in cases.values()])
    for (name, (_, named)), (code, out, err) in zip(cases.items(), results, strict=True):
        assert code == 2, (name, code, err)
        assert err.count("\n") == 1, (name, err)
        assert err.startswith("run.py: "), (name, err)
        assert named in err, (name, err)
        assert out == "", (name, out)
    after = snapshot(world)
    logs = {path for path in after if path.name == "events.jsonl"}
    assert {p: b for p, b in after.items() if p not in logs} == {
        p: b for p, b in before.items() if p not in logs
    }
    assert not (world / "new").exists()


def test_dry_runs_describe_and_write_nothing(world, sampled):
    before = snapshot(world)
    new = world / "new"
    fresh, again, flagfile = run_lines(
        [
            [*base(world), f"--workdir={new}", "--dry_run"],
            [*base(world), f"--workdir={sampled}", "--dry_run"],
            [
                f"--flagfile={RUN.parent / 'flags' / 'quickstart.flags'}",
                *base(world),
                f"--workdir={new}",
                "--dry_run",
            ],
        ]
    )
    for code, out, err in (fresh, again, flagfile):
        assert (code, err) == (0, "")
        for word in ("forwards", "memory", "time", "model.safetensors", "text.txt", "none t=1 N=4"):
            assert word in out
    assert snapshot(world) == before
    assert not new.exists()


def test_a_full_disk_is_one_line_and_the_run_goes_on_afterwards(world, sampled):
    workdir = shutil.copytree(sampled, world / "full")
    shutil.rmtree(next((workdir / "banks").iterdir()))
    log = workdir / "events.jsonl"
    log.unlink()
    log.symlink_to("/dev/full")
    arguments = [*base(world), f"--workdir={workdir}", "--stages=sample"]
    [(code, _, err)] = run_lines([arguments])
    assert (code, err.count("\n")) == (2, 1)
    assert "no space left" in err
    assert f"--workdir={workdir}" in err
    log.unlink()
    [(code, out, _)] = run_lines([arguments])
    assert code == 0
    assert "1 banks sampled" in out
    made = snapshot(workdir)
    made.pop(pathlib.Path("events.jsonl"))
    assert made == {p: b for p, b in snapshot(sampled).items() if p.name != "events.jsonl"}


def test_the_command_scores_and_reports(world, sampled):
    workdir = shutil.copytree(sampled, world / "scored")
    arguments = [*base(world), f"--workdir={workdir}"]
    first, second = run_lines([arguments, arguments])
    assert first[0] == second[0] == 0, first[2] + second[2]
    assert "sample: nothing left to do" in first[1]
    assert "score: 8 banks scored" in first[1]
    assert second[1].count("nothing left to do") == 2
    page = (workdir / "report" / "index.html").read_text()
    assert "phrase_bank 4" in page
    assert "--num_steps=4" in page


def test_every_field_is_a_flag_with_its_help(world):
    done = subprocess.run(
        [sys.executable, str(RUN), "--helpfull"], capture_output=True, text=True, check=False
    )
    for flag in ("--denoiser", "--unmask_temps", "--[no]dry_run", "--executor", "--phrase_bank"):
        assert flag in done.stdout
    assert "Real text to compare with" in done.stdout
