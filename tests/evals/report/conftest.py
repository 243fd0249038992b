"""A made-up run: numbers with known ranks, hostile texts, missing values. And a browser."""

import dataclasses
import shutil

import numpy as np
import pytest

from dlmeval.evals import report
from dlmeval.evals.report import data as records
from dlmeval.evals.scoring.scores import Band, Score
from dlmeval.samplers import CELL_CLASSES

HOSTILE = "<script>alert('x')</script> & \"quotes\" | a_b $5 100% ~ ^ \\ {b} — naïve 日本語 \ufffd"
DIRECTIONS = {
    "gen_ppl": ("down", "perplexity"),
    "h_uni": (None, "nats/token"),
    "h_pos": (None, "nats/token"),
    "mauve": ("up", "1"),
    "energy_distance": ("down", "1"),
    "mmd": ("down", "1"),
    "frechet_distance": ("down", "1"),
    "jcd": ("down", "bits/byte"),
    "jcd_coverage": ("down", "bits/byte"),
    "jcd_fidelity": ("down", "bits/byte"),
    "self_bleu": ("down", "1"),
    "distinct_3": ("up", "1"),
}
DISTANCES = ("mauve", "energy_distance", "mmd", "frechet_distance", "jcd")
BROWSER_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def scores(values, n=128, skip=()):
    """Scores of one arm from its values, two per cent of each as standard error."""
    found = {}
    for metric, value in values.items():
        direction, unit = DIRECTIONS[metric]
        signature = f"{metric}|K:13|seeds:0-4|n:{n}|v:0.1.0"
        if metric in skip:
            score = Score(None, None, n, unit, direction, signature, f"{metric} needs more samples")
        else:
            score = Score(value, 0.02 * abs(value), n, unit, direction, signature)
        found[metric] = score
    return found


def profile(quality, ppl, h_uni):
    """Values of all metrics of an arm; `quality` in (0, 1] is better when higher."""
    distance = 1.5 - quality
    values = (ppl, h_uni, h_uni + 0.7, quality, 0.4 * distance, 2e-4 * distance, 30.0 * distance)
    rest = (2.2 * distance, 1.2 * distance, distance, 0.5 * distance, quality)
    return dict(zip(DIRECTIONS, (*values, *rest), strict=True))


def canvases(steps, length):
    """Classes and token texts of a made-up run in which one token is remasked half way."""
    classes = np.zeros((steps, length), np.int8)
    pieces = []
    for step in range(steps):
        done = (step + 1) * length // steps
        before = step * length // steps
        classes[step, :before] = CELL_CLASSES.index("stable")
        classes[step, before:done] = CELL_CLASSES.index("unmasked")
        row = [f" w{i}" if i else "<b>" for i in range(length)]
        pieces.append([piece if i < done else None for i, piece in enumerate(row)])
    classes[steps // 2, 1] = CELL_CLASSES.index("replaced")
    pieces[steps // 2][1] = None
    return classes, tuple(tuple(row) for row in pieces)


@pytest.fixture(scope="session")
def report_data():
    """Reference, AR model, twelve diffusion arms, four naive samplers; naive ones win gen-PPL."""
    text = "And it came to pass in those days, that he went out into the mountain to pray. "
    arms = [
        records.Arm(
            "reference",
            "reference",
            {k: v for k, v in scores(profile(1.0, 9.3, 3.6)).items() if k not in DISTANCES},
            {"strategy": "reference"},
            samples=(text * 3,),
        ),
        records.Arm(
            "autoregressive t=1",
            "autoregressive",
            scores(profile(0.9, 9.1, 3.58)),
            {"strategy": "autoregressive", "unmask_temp": 1.0},
            records.Compute(None, 63.0, 63, 63, 126, 128),
            (text * 2, text),
        ),
    ]
    for s, strategy in enumerate(("none", "high_entropy")):
        for num_steps in (32, 64):
            for t, temp in enumerate((0.0, 0.25, 1.0)):
                quality = 0.3 + 0.2 * t + 0.04 * s + 0.002 * num_steps
                arms.append(
                    records.Arm(
                        f"{strategy} t={temp:g} N={num_steps}",
                        "generated",
                        scores(profile(quality, 14 + 9 * t + 2 * s, 2.9 + 0.25 * t + 0.05 * s)),
                        {"strategy": strategy, "unmask_temp": temp, "num_steps": num_steps},
                        records.Compute(num_steps, num_steps + 3.25 * s, num_steps, 70, 138, 128),
                        (HOSTILE, text),
                    )
                )
    for place, (label, ppl, h_uni) in enumerate(
        (
            ("topk_iid 50", 45.0, 3.0),
            ("mirror 40", 4.1, 2.1),
            ("periodic 8", 1.9, 1.9),
            ("phrase_bank 9", 6.2, 2.4),
        )
    ):
        arms.append(
            records.Arm(
                label,
                "heuristic",
                scores(profile(0.02 + 0.01 * place, ppl, h_uni), skip=("mmd",) * (place == 3)),
                {"strategy": label.split()[0]},
                samples=("the the the " * 8,),
            )
        )
    band = {
        metric: Band(value, 0.97 * value, 1.03 * value, 0.02 * value, 4, "1", f"{metric}|null")
        for metric, value in profile(0.96, 9.3, 3.6).items()
        if metric in DISTANCES
    }
    classes, pieces = canvases(32, 48)
    made = records.ReportData(
        title="quickstart <b>",
        arms=tuple(arms),
        null_band=band,
        trajectories=(
            records.Trajectory("none t=0.25 N=32", classes, pieces, "<b> w1 w2 & so on"),
        ),
        provenance=records.Provenance(
            "python launch/run.py --flagfile=launch/flags/quickstart.flags",
            {"denoiser": "embedded:kjv-denoiser", "unmask_temps": (0.0, 0.25), "seeds": (0, 1)},
            (records.Bank("none t=0 N=32, seed 0", "ab" * 32, "cd" * 32, 64),),
            {"embedded:kjv-denoiser": "ef" * 32},
            {"dlmeval": "0.1.0", "jax": "0.10.2"},
            (("sample", 21.5, 80.25), ("score", 10.0, 31.0)),
            {"device": "cpu:cpu", "peak memory": "1.9 GB"},
        ),
    )
    lead, caveats = report.run_lead(made), (*report.run_caveats(made), HOSTILE)
    return dataclasses.replace(made, lead=lead, caveats=caveats)


@pytest.fixture(scope="session")
def pages(report_data):
    """Findings and sections of the made-up run: every kind of block once."""
    traced = report_data.trajectories[0]
    return (
        (report.perplexity_finding(report_data), report.ranking_finding(report_data), HOSTILE),
        (
            report.Section("Profile", (report.profile_table(report_data),)),
            report.Section("Compute", (report.compute_table(report_data),)),
            report.Section("Figures", (report.frontier(report_data), report.sweep(report_data))),
            report.Section("Unmasking", (report.heat_map(traced), report.replay(traced))),
            report.Section("Samples", (report.gallery(report_data),), ("The first of each.",)),
            report.Section("How", (report.Record(report_data.provenance, ("a/b.csv",)),)),
        ),
    )


@pytest.fixture(scope="session")
def report_folder(report_data, pages, tmp_path_factory):
    """The made-up run's report on disk."""
    return report.write_report(tmp_path_factory.mktemp("report"), report_data, *pages).parent


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """One Chromium for the module; skips where it, its driver or selenium is not installed."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    from selenium.webdriver.chrome.service import Service

    browser = shutil.which("chromium") or shutil.which("google-chrome")
    chromedriver = shutil.which("chromedriver")
    if not browser or not chromedriver:
        pytest.skip("needs chromium and chromedriver (Debian: chromium, chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in (*BROWSER_FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    running = webdriver.Chrome(options=options, service=Service(chromedriver))
    yield running
    running.quit()


@pytest.fixture
def emulate(driver):
    """Gives the browser a size, and the scheme that its reader prefers."""

    def look_like(size, scheme):
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1}
        mobile = {"mobile": width < 600}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics | mobile)
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)

    return look_like
