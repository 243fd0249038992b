"""Records what the peer packages say, for tests that run without them.

    python tests/parity/record.py        # needs pip install dlmeval[parity]

Each entry of `PEERS` maps the inputs that a file of tests/golden/metrics holds to the peers'
numbers for them; `INPUTS` draws those inputs anew. The parity tests check that the numbers on
file are still what the peers say, test_golden_metrics.py that ours are the same.
"""

import importlib.metadata
import importlib.util
import json
import pathlib
from typing import Any

import numpy as np

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "golden" / "metrics"


def _load_peers():
    path = pathlib.Path(__file__).with_name("peers.py")
    spec = importlib.util.spec_from_file_location("peers", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


peers = _load_peers()


def mauve_inputs(rng: np.random.Generator) -> dict[str, Any]:
    # Far apart directions with shares of their own: any k-means finds the same clusters.
    axes = np.linalg.qr(rng.normal(size=(6, 6)))[0][:4]

    def bank(shares):
        labels = np.repeat(np.arange(4), shares)
        return axes[labels] * 5 + 0.02 * rng.normal(size=(len(labels), 6))

    counts = [rng.multinomial(1024, rng.dirichlet(np.ones(k)), size=2) for k in (2, 13, 102)]
    sparse = rng.multinomial(60, rng.dirichlet(np.full(40, 0.1), size=2))
    return {
        "reference": _rounded(bank([24, 18, 12, 6])),
        "generated": _rounded(bank([9, 11, 0, 40])),
        "counts": [pair.tolist() for pair in [*counts, sparse]],
    }


def mauve_peers(inputs: dict[str, Any]) -> dict[str, Any]:
    whole = peers.mauve_text(
        np.array(inputs["reference"]), np.array(inputs["generated"]), num_clusters=4, num_redo=100
    )
    stages = []
    for p, q in inputs["counts"]:
        p, q = np.array(p, float), np.array(q, float)
        stages.append(
            {
                "plain": peers.mauve_text_of_histograms(p / p.sum(), q / q.sum()),
                "smoothed": peers.mauve_text_of_histograms(
                    (p + 0.5) / (p + 0.5).sum(), (q + 0.5) / (q + 0.5).sum()
                ),
            }
        )
    return {
        "features": {
            "mauve": float(whole.mauve),
            "mauve_star": float(whole.mauve_star),
            "frontier_integral": float(whole.frontier_integral),
        },
        "histograms": stages,
    }


def self_bleu_inputs(rng: np.random.Generator) -> dict[str, Any]:
    ragged = [rng.integers(0, 6, length).tolist() for length in (9, 4, 12, 2, 7, 7, 1, 30)]
    repeated = [[1, 2, 3, 4, 5], [1, 2, 3, 4, 5], [5, 5, 5, 5], [1, 2, 3], [5, 5, 1, 2, 3, 4]]
    long = [rng.zipf(1.4, 60).clip(0, 200).tolist() for _ in range(10)]
    return {"banks": [ragged, repeated, long], "orders": [2, 3, 4, 5]}


def self_bleu_peers(inputs: dict[str, Any]) -> dict[str, Any]:
    return {
        str(order): [peers.nltk_self_bleu(rows, order) for rows in inputs["banks"]]
        for order in inputs["orders"]
    }


def distances_inputs(rng: np.random.Generator) -> dict[str, Any]:
    return {
        # More columns than rows; a matrix square root wants it the other way round.
        "wide": [_rounded(rng.normal(size=(12, 20))), _rounded(rng.normal(size=(15, 20)) + 0.2)],
        "tall": [
            _rounded(rng.normal(size=(30, 5))),
            _rounded(1.3 * rng.normal(size=(24, 5)) + 0.4),
        ],
        "line": [_rounded(rng.normal(size=21)), _rounded(rng.exponential(size=34))],
    }


def distances_peers(inputs: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    x, y = (np.array(bank) for bank in inputs["wide"])
    bandwidth = peers.sklearn_half_median(x)
    found["wide"] = {
        "energy": peers.dcor_energy(x, y),
        "energy_unbiased": peers.dcor_energy(x, y, unbiased=True),
        "half_median": bandwidth,
        "mmd": peers.sklearn_mmd(x, y, bandwidth=bandwidth),
        "mmd_unbiased": peers.sklearn_mmd(x, y, bandwidth=bandwidth, unbiased=True),
        "kid": peers.sklearn_kid(x, y),
        "kid_unbiased": peers.sklearn_kid(x, y, unbiased=True),
    }
    found["tall"] = {"frechet": peers.sqrtm_frechet(*(np.array(bank) for bank in inputs["tall"]))}
    x, y = (np.array(sample) for sample in inputs["line"])
    found["line"] = {
        "energy": peers.scipy_energy(x, y),
        "wasserstein": peers.scipy_wasserstein(x, y),
    }
    return found


def clusters_inputs(rng: np.random.Generator) -> dict[str, Any]:
    scales = 1 / np.arange(1, 9)
    return {
        "reference": _rounded(rng.normal(size=(40, 8)) * scales + 3),
        "other": _rounded(rng.normal(size=(6, 8)) * scales + 3),
        "points": _rounded(rng.normal(size=(60, 2))),
    }


def clusters_peers(inputs: dict[str, Any]) -> dict[str, Any]:
    reference, other = np.array(inputs["reference"]), np.array(inputs["other"])
    points = np.array(inputs["points"])
    return {
        "whitened": np.abs(peers.sklearn_whitened(reference, other, 5)).tolist(),
        "inertia": peers.sklearn_inertia(points, 6, num_restarts=100, seed=0),
    }


def entropies_inputs(rng: np.random.Generator) -> dict[str, Any]:
    full = rng.integers(0, 5, size=(12, 7))
    full[10:] = full[0]
    lengths = [5, 1, 7, 0, 7, 3, 7, 7, 2, 2, 4, 6]
    ragged = [rng.zipf(1.5, length).clip(0, 40).tolist() for length in lengths]
    return {"banks": [full.tolist(), ragged]}


def entropies_peers(inputs: dict[str, Any]) -> dict[str, Any]:
    return {"banks": [peers.scipy_entropies(rows) for rows in inputs["banks"]]}


def perplexity_inputs(rng: np.random.Generator) -> dict[str, Any]:
    """Rows of two windows with EOS nowhere, inside, twice, first, and as all of the text."""
    width, eos = 2 * peers.CONTEXT, peers.EOS
    rows = rng.integers(0, eos, size=(8, width))
    rows[1, 5] = rows[2, 3] = rows[2, 9] = rows[3, 0] = rows[3, 7] = rows[6, 20] = eos
    lengths = [width, width, width, width, 11, 20, width, 1]
    for row, length in zip(rows, lengths):
        row[length:] = eos
    return {"ids": rows.tolist(), "lengths": lengths, "eos_id": eos, "context": peers.CONTEXT}


def perplexity_peers(inputs: dict[str, Any]) -> dict[str, Any]:
    """Per-token NLLs of the windows, row by row, and what each public loop makes of them."""
    model = peers.tiny_gpt2()
    ids, lengths = np.array(inputs["ids"]), np.array(inputs["lengths"])
    attention = (np.arange(ids.shape[1]) < lengths[:, None]).astype(int)
    windows = ids.reshape(-1, peers.CONTEXT)
    mask = attention.reshape(windows.shape)
    # A window of padding alone has nothing to attend to; nothing in it is scored either.
    mask[:, 0] = 1
    total, rows = peers.elf_perplexity(model, windows, 3)
    return {
        "nll": peers.target_nll(model, windows).astype(float).tolist(),
        "mdlm": peers.mdlm_perplexity(model, ids, mask.reshape(ids.shape), 3),
        "duo": peers.duo_perplexity(model, windows, 3),
        "elf": total,
        "elf_rows": rows,
        "sedd": peers.sedd_perplexity(model, windows, 3),
        "langflow": peers.langflow_perplexity(model, windows, mask),
    }


INPUTS = {
    "clusters": clusters_inputs,
    "distances": distances_inputs,
    "entropies": entropies_inputs,
    "mauve": mauve_inputs,
    "perplexity": perplexity_inputs,
    "self_bleu": self_bleu_inputs,
}
PEERS = {
    "clusters": clusters_peers,
    "distances": distances_peers,
    "entropies": entropies_peers,
    "mauve": mauve_peers,
    "perplexity": perplexity_peers,
    "self_bleu": self_bleu_peers,
}
PACKAGES = {
    "clusters": ["scikit-learn"],
    "distances": ["dcor", "scikit-learn", "scipy"],
    "entropies": ["scipy"],
    "mauve": ["mauve-text", "faiss-cpu", "scikit-learn"],
    "perplexity": ["transformers", "torch"],
    "self_bleu": ["nltk"],
}


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for seed, (name, draw) in enumerate(INPUTS.items()):
        inputs = draw(np.random.default_rng(seed))
        record = {
            "versions": {
                package: importlib.metadata.version(package) for package in PACKAGES[name]
            },
            "inputs": inputs,
            "peers": PEERS[name](inputs),
        }
        (FOLDER / f"{name}.json").write_text(json.dumps(record) + "\n", encoding="utf-8")
        print("wrote", name)


def _rounded(array: np.ndarray) -> list:
    return np.round(array, 4).tolist()


if __name__ == "__main__":
    main()
