"""What peer packages say about a bank, each called the way its own users call it.

One function a peer: plain arrays or lists of ids in, plain numbers out. Packages are imported
inside, so that a test of one peer runs where another is not installed.
"""

# pyright: reportMissingImports=false

import importlib
import importlib.util
import sys
import types
from collections.abc import Sequence

import numpy as np

EOS = 52
CONTEXT = 16


def mauve_text(
    reference: np.ndarray,
    generated: np.ndarray,
    *,
    seed: int = 25,
    num_clusters: int | str = "auto",
    num_redo: int = 5,
):
    """mauve-text's result: mauve, mauve_star, frontier_integral, p_hist, q_hist and more."""
    import faiss
    import mauve

    faiss.omp_set_num_threads(1)
    return mauve.compute_mauve(
        p_features=np.asarray(reference, np.float32),
        q_features=np.asarray(generated, np.float32),
        num_buckets=num_clusters,
        kmeans_num_redo=num_redo,
        seed=seed,
        verbose=False,
    )


def mauve_text_of_histograms(p: np.ndarray, q: np.ndarray, scale: float = 5.0) -> dict[str, float]:
    """The stages of mauve-text after clustering, on given histograms."""
    from sklearn.metrics import auc

    # The package holds a function of the module's name.
    stages = importlib.import_module("mauve.compute_mauve")
    weights = np.linspace(1e-6, 1 - 1e-6, 25)
    curve = stages.get_divergence_curve_for_multinomials(p, q, weights, scale)
    x, y = curve.T
    first, second = np.argsort(x), np.argsort(y)
    areas = auc(x[first], y[first]), auc(y[second], x[second])
    return {
        "mauve": float(np.mean(areas)),
        "frontier_integral": float(stages.get_fronter_integral(p, q)),
    }


def nltk_self_bleu(rows: Sequence[Sequence[int]], order: int) -> list[float]:
    """NLTK's sentence BLEU of each row against all others, smoothed by its method 1."""
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    rows = [list(row) for row in rows]
    weights, smoothing = (1 / order,) * order, SmoothingFunction().method1
    return [
        float(sentence_bleu(rows[:i] + rows[i + 1 :], row, weights, smoothing_function=smoothing))
        for i, row in enumerate(rows)
    ]


def fast_self_bleu(rows: Sequence[Sequence[int]], order: int) -> list[float]:
    """fast-bleu's Self-BLEU; order >= 2.

    Give it rows whose every length occurs twice: for others 0.0.90 looks for the closest
    reference length one place past the end of its list.
    """
    from fast_bleu import SelfBLEU

    words = [[str(token) for token in row] for row in rows]
    return SelfBLEU(words, {"order": (1 / order,) * order}).get_score()["order"]


def dcor_energy(x: np.ndarray, y: np.ndarray, *, unbiased: bool = False) -> float:
    value = _dcor_energy_module().energy_distance(x, y, estimation_stat="U" if unbiased else "V")
    return float(value)


def sklearn_mmd(x: np.ndarray, y: np.ndarray, *, bandwidth: float, unbiased: bool = False) -> float:
    """Squared MMD from scikit-learn's Gaussian kernel matrices; bandwidth is s^2."""
    from sklearn.metrics.pairwise import rbf_kernel

    return _mmd(lambda a, b: rbf_kernel(a, b, gamma=0.5 / bandwidth), x, y, unbiased)


def sklearn_kid(x: np.ndarray, y: np.ndarray, *, unbiased: bool = False) -> float:
    """Squared MMD with the cubic kernel (<x, y> / d + 1)^3 of the kernel inception distance."""
    from sklearn.metrics.pairwise import polynomial_kernel

    return _mmd(polynomial_kernel, x, y, unbiased)


def sklearn_half_median(x: np.ndarray) -> float:
    """Half the median squared distance over pairs i < j."""
    from sklearn.metrics.pairwise import euclidean_distances

    squared = euclidean_distances(x, squared=True)
    return float(np.median(squared[np.triu_indices(len(x), 1)]) / 2)


def sklearn_whitened(reference: np.ndarray, x: np.ndarray, num_components: int) -> np.ndarray:
    from sklearn.decomposition import PCA

    return PCA(num_components, whiten=True, svd_solver="full").fit(reference).transform(x)


def sklearn_inertia(
    points: np.ndarray, num_clusters: int, *, num_restarts: int, seed: int
) -> float:
    from sklearn.cluster import KMeans

    fit = KMeans(num_clusters, n_init=num_restarts, max_iter=500, random_state=seed).fit(points)
    return float(fit.inertia_)


def sqrtm_frechet(x: np.ndarray, y: np.ndarray) -> float:
    """The route of the published FID codes: a square root of the product of covariances."""
    from scipy.linalg import sqrtm

    first, second = np.cov(x, rowvar=False), np.cov(y, rowvar=False)
    cross = np.trace(np.asarray(sqrtm(first @ second))).real
    gap = x.mean(axis=0) - y.mean(axis=0)
    return float(gap @ gap + np.trace(first) + np.trace(second) - 2 * cross)


def scipy_energy(x: np.ndarray, y: np.ndarray) -> float:
    """Two 1-D samples; scipy returns the square root."""
    from scipy import stats

    return float(stats.energy_distance(x, y)) ** 2


def scipy_wasserstein(x: np.ndarray, y: np.ndarray) -> float:
    from scipy import stats

    return float(stats.wasserstein_distance(x, y))


def scipy_entropies(rows: Sequence[Sequence[int]]) -> dict[str, float]:
    """All plug-in entropies of a bank by `scipy.stats.entropy`, nats per token."""
    from scipy.stats import entropy

    def plug_in(values) -> float:
        return float(entropy(np.unique(values, return_counts=True)[1]))

    longest = max(len(row) for row in rows)
    columns = [[row[t] for row in rows if len(row) > t] for t in range(longest)]
    padded = np.array([[len(row), *row, *[-1] * (longest - len(row))] for row in rows])
    whole = np.unique(padded, axis=0, return_inverse=True)[1].ravel()
    pos = float(np.mean([plug_in(column) for column in columns]))
    joint = plug_in(whole) / longest
    return {
        "uni": float(np.mean([plug_in(row) if len(row) else 0.0 for row in rows])),
        "pool": plug_in(np.concatenate([np.asarray(row, int) for row in rows])),
        "pos": pos,
        "joint": joint,
        "total_correlation": longest * (pos - joint),
    }


def tiny_gpt2():
    """Hugging Face's GPT-2 with few, large random weights, in PyTorch."""
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=EOS + 1,
        n_positions=CONTEXT,
        n_embd=24,
        n_layer=2,
        n_head=2,
        initializer_range=0.3,
        bos_token_id=EOS,
        eos_token_id=EOS,
    )
    return GPT2LMHeadModel(config).eval()


def target_nll(model, ids: np.ndarray, attention: np.ndarray | None = None) -> np.ndarray:
    """Float["n t-1"] -log p of every token but the first of each row, nats."""
    import torch

    tokens = torch.as_tensor(np.asarray(ids), dtype=torch.long)
    mask = None if attention is None else torch.as_tensor(np.asarray(attention), dtype=torch.long)
    with torch.no_grad():
        logits = model(tokens, attention_mask=mask).logits[:, :-1].float()
    log_prob = torch.log_softmax(logits, dim=-1)
    return -log_prob.gather(-1, tokens[:, 1:, None])[..., 0].numpy()


def mdlm_perplexity(model, ids: np.ndarray, attention: np.ndarray, batch_size: int) -> float:
    """MDLM and ReMDM: whole batches only, windows of the scorer's context, a weighted mean.

    A target counts unless it is an EOS other than the first of its window; rows come padded
    with EOS, and the padding is not left out.
    """
    total = weight = 0.0
    for start in range(0, len(ids) - batch_size + 1, batch_size):
        for left in range(0, ids.shape[1], CONTEXT):
            window = np.s_[start : start + batch_size, left : left + CONTEXT]
            tokens = ids[window]
            first_eos = np.cumsum(tokens == EOS, axis=1) == 1
            scored = (first_eos | (tokens != EOS))[:, 1:]
            total += float((target_nll(model, tokens, attention[window]) * scored).sum())
            weight += float(scored.sum())
    return float(np.exp(total / weight))


def duo_perplexity(model, ids: np.ndarray, batch_size: int) -> float:
    """Duo and FLM: as MDLM on native ids; each batch gives a mean that its weight carries on."""
    mean = weight = 0.0
    for start in range(0, len(ids) - batch_size + 1, batch_size):
        tokens = ids[start : start + batch_size]
        eos = tokens == EOS
        valid = (~eos | (np.cumsum(eos, axis=1) == 1))[:, 1:]
        share = valid.sum() / (weight + valid.sum())
        mean += share * ((target_nll(model, tokens) * valid).sum() / valid.sum() - mean)
        weight += valid.sum()
    return float(np.exp(mean))


def elf_perplexity(model, ids: np.ndarray, batch_size: int) -> tuple[float, list[float]]:
    """ELF: MDLM's targets, the last and shorter batch kept; also one perplexity a row."""
    sums, counts = [], []
    for start in range(0, len(ids), batch_size):
        for row, nll in zip(
            ids[start : start + batch_size], target_nll(model, ids[start : start + batch_size])
        ):
            eos_before = np.cumsum(row == EOS)
            kept = [t for t in range(1, len(row)) if row[t] != EOS or eos_before[t] == 1]
            sums.append(sum(nll[t - 1] for t in kept))
            counts.append(len(kept))
    rows = [float(np.exp(s / c)) for s, c in zip(sums, counts) if c]
    return float(np.exp(np.sum(sums) / np.sum(counts))), rows


def sedd_perplexity(model, ids: np.ndarray, batch_size: int) -> float:
    """SEDD: every target, exp of each row's mean NLL, the mean of that; whole batches only."""
    batches = []
    for start in range(0, len(ids) - batch_size + 1, batch_size):
        nll = target_nll(model, ids[start : start + batch_size])
        batches.append(np.exp(nll.mean(axis=1)).mean())
    return float(np.mean(batches))


def langflow_perplexity(model, ids: np.ndarray, attention: np.ndarray) -> float:
    """LangFlow: every target that the attention mask keeps, EOS too, weighted by token."""
    kept = attention[:, 1:].astype(bool)
    nll = target_nll(model, ids, attention)
    return float(np.exp(nll[kept].mean()))


def _dcor_energy_module() -> types.ModuleType:
    """The module of dcor that holds the energy distance.

    Importing all of dcor compiles its distance covariances, which takes 40 s of CPU the first
    time and 10 s later. So the package is put in place unexecuted while the module loads.
    """
    if "dcor" not in sys.modules:
        spec = importlib.util.find_spec("dcor")
        if spec is None or spec.submodule_search_locations is None:
            raise ModuleNotFoundError("dcor is not installed", name="dcor")
        package = types.ModuleType("dcor")
        package.__path__ = list(spec.submodule_search_locations)
        sys.modules["dcor"] = package
        try:
            importlib.import_module("dcor._energy")
        finally:
            del sys.modules["dcor"]
        return sys.modules["dcor._energy"]
    return importlib.import_module("dcor._energy")


def _mmd(kernel, x, y, unbiased) -> float:
    def within(a):
        matrix, n = kernel(a, a), len(a)
        if unbiased:
            return (matrix.sum() - np.trace(matrix)) / (n * (n - 1))
        return matrix.mean()

    return float(within(x) + within(y) - 2 * kernel(x, y).mean())
