"""The models' command line: the list, checks with their exit codes, one clear line for bad input.

Flags clash between launchers, so all command lines run in one process of their own.
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "launch" / "models.py"
DRIVER = """
import contextlib, io, json, sys
from absl import flags
from absl.testing import flagsaver
from dlmeval.launch import models

results = []
for arguments in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    saved = flagsaver.save_flag_values(flags.FLAGS)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = models.main(flags.FLAGS(["models.py", *arguments]))
    flagsaver.restore_flag_values(saved, flags.FLAGS)
    results.append((code, out.getvalue(), err.getvalue()))
json.dump(results, sys.stdout)
"""


@pytest.fixture(scope="module")
def outcomes(golden, tmp_path_factory):
    """(exit code, stdout, stderr) of each command line by its name."""
    spoilt = tmp_path_factory.mktemp("spoilt")
    for name in ("config.json", "weights.safetensors"):
        shutil.copy(golden("llada") / name, spoilt / name)
    config = json.loads((spoilt / "config.json").read_text())
    (spoilt / "config.json").write_text(json.dumps(config | {"n_layers": 3, "novelty": 1}))
    (spoilt / "weights.safetensors").write_bytes(b"")
    sound = f"--check={golden('llada')}"
    lines = {
        "list": ["--list"],
        "encoders": ["--list", "--kind=encoder", "--json"],
        "sound": [sound, "--kind=denoiser"],
        "sound json": [sound, "--json", "--device_memory=0.5", "--batch_size=2"],
        "spoilt": [f"--check={spoilt}"],
        "fits": ["--check=llada-8b-base", "--dtype=bfloat16", "--device_memory=24"],
        "too large": ["--check=llada-8b-base", "--dtype=bfloat16", "--device_memory=16"],
        "split": [
            *("--check=llada-8b-base", "--dtype=bfloat16", "--device_memory=16", "--tensor=2"),
            *("--fsdp=2", "--batch_size=32"),
        ],
        "too long": ["--check=gpt2", "--length=2000", "--device_memory=16"],
        "unpinned": ["--check=hf:owner/name"],
        "offline": ["--check=hf:owner/name@abc1234"],
        "nothing": [],
        "surplus": ["--list", "more"],
        "memory": [sound, "--device_memory=0"],
        "endless memory": ["--check=llama-3-8b", "--device_memory=inf"],
        "too much memory": [sound, "--device_memory=1e308"],
        "odd name": ["--check=~nosuchuserxyz/m"],
        "long name": [f"--check={'m' * 5000}"],
        "rows": [sound, "--batch_size=0"],
    }
    done = subprocess.run(
        [sys.executable, "-c", DRIVER],
        input=json.dumps(list(lines.values())),
        env={"HF_HUB_OFFLINE": "1", "JAX_PLATFORMS": "cpu", "HF_HOME": str(spoilt)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(zip(lines, json.loads(done.stdout), strict=True))


def test_the_list_shows_every_model(outcomes):
    code, out, _ = outcomes["list"]
    assert code == 0
    row = next(line for line in out.splitlines() if "llada-moe-7b-a1b-instruct" in line)
    for cell in ("denoiser", "extra", "7.36 B, 1.72 B active", "Apache-2.0", "fixture"):
        assert cell in row
    assert re.search(r"hf:inclusionAI/LLaDA-MoE-7B-A1B-Instruct@[0-9a-f]{40}", row)
    assert "real weights: features or likelihoods equal" in out


def test_a_kind_can_be_listed_as_json(outcomes):
    code, out, _ = outcomes["encoders"]
    entries = json.loads(out)
    assert code == 0
    assert {entry["kind"] for entry in entries} == {"encoder"}
    assert "e5-base-v2" in [entry["name"] for entry in entries]


def test_a_sound_model_has_no_problems(outcomes):
    code, out, err = outcomes["sound"]
    assert (code, err) == (0, "")
    for line in ("architecture  llada", "tokenizer     none", "problems      none"):
        assert line in out
    assert "this machine's memory" in out
    code, out, _ = outcomes["sound json"]
    report = json.loads(out)
    assert (code, report["fits"], report["problems"]) == (0, True, [])
    assert report["device_bytes"] == 1 << 29
    assert report["logit_bytes_per_device"] == 2 * 128 * report["embeddings"] * 4


def test_problems_are_listed_together(outcomes):
    code, out, _ = outcomes["spoilt"]
    assert code == 1
    problems = [line for line in out.splitlines() if line.startswith("problem ")]
    assert len(problems) == 2
    assert "unknown field 'novelty'" in problems[0]
    assert "weights.safetensors" in problems[1]
    assert "architecture  llada" in out or "not understood" in out


def test_the_exit_code_says_whether_it_fits(outcomes):
    assert [outcomes[name][0] for name in ("fits", "too large", "split")] == [0, 2, 0]
    _, out, err = outcomes["too large"]
    assert "14.93 GiB of parameters (bfloat16) + 0.06 GiB of logits" in out
    assert "16.0 GiB (as --device_memory says), 90% of it usable: does not fit" in out
    assert "by the shape on record, not by its files" in err
    assert "HF_HUB_OFFLINE" in err
    assert "3.73 GiB of parameters (bfloat16) + 0.96 GiB" in outcomes["split"][1]
    assert "on each of 4 devices" in outcomes["split"][1]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("unpinned", "must pin a revision: hf:OWNER/REPO@REVISION"),
        ("offline", "HF_HUB_OFFLINE is set"),
        ("nothing", "give either --list or --check=SOURCE"),
        ("surplus", "unknown argument 'more'"),
        ("memory", "--device_memory=0.0 must be above 0"),
        ("endless memory", "--device_memory=inf must be above 0 and finite"),
        ("too much memory", "--device_memory=1e+308 must be above 0 and finite"),
        ("odd name", "no folder with a config.json"),
        ("long name", "no folder with a config.json"),
        ("rows", "batch_size=0 must be at least 1"),
    ],
)
def test_bad_input_is_one_line(outcomes, name, message):
    code, out, err = outcomes[name]
    assert (code, out) == (1, "")
    assert message in err
    told = [line for line in err.splitlines() if "by the shape on record" not in line]
    assert len(told) == 1


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="Linux has /dev/full")
def test_a_full_disk_is_one_line():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, str(SCRIPT), "--list"],
            env={"JAX_PLATFORMS": "cpu"},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert re.fullmatch(r"models\.py: .*No space left on device.*\n", done.stderr)


def test_a_canvas_beyond_the_context_is_a_problem(outcomes):
    code, out, _ = outcomes["too long"]
    assert code == 1
    assert "--length=2000 is beyond the context of 1024 tokens" in out


def test_the_script_runs_by_its_path():
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--check=smollm2-135m", "--device_memory=0.3"],
        env={"HF_HUB_OFFLINE": "1", "JAX_PLATFORMS": "cpu", "HF_HOME": "/nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr[-2000:]
    assert "parameters    134,515,008" in done.stdout
