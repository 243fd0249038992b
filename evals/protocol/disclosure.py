"""Point 7 of the protocol: everything that a number depends on is written down, and is true."""

from collections.abc import Iterator, Sequence
from typing import Any

from ..cell import cell_from_dict
from ..errors import InputError, one_line
from .comparability import comparability_key, key_values
from .findings import Finding, counted, listed
from .records import BankRecord, RunRecord, problems_of

# Fields of care.md, appendix D, as manifests name them, and their kind ("any" may be null). The
# counted facts (`measured`) are the business of points 1 and 5, the metrics that of point 2. The
# adapter is the family that config.json names, whose digest stands in model.files; seconds and
# tokens per second lie in events.jsonl, so that equal cells have equal banks.
DISCLOSED = (
    ("environment.dlmeval", "text"),
    ("environment.jax", "text"),
    ("environment.device", "text"),
    ("environment.jax_enable_x64", "text"),
    ("model.source", "text"),
    ("model.files", "record"),
    ("model.dtype", "text"),
    ("model.precision", "text"),
    ("cell.model_digest", "digest"),
    ("sampler.gen_length", "count"),
    ("sampler.block_length", "any"),
    ("sampler.num_steps", "count"),
    ("sampler.loop", "text"),
    ("sampler.pace", "text"),
    ("sampler.skip_idle", "flag"),
    ("sampler.refresh_reuse", "flag"),
    ("sampler.cfg_scale", "number"),
    ("sampler.top_p", "number"),
    ("sampler.top_k", "any"),
    ("sampler.nucleus_p", "number"),
    ("sampler.eos_policy", "text"),
    ("sampler.suppress_mask_token", "flag"),
    ("sampler.strategy", "text"),
    ("sampler.remask_fraction", "number"),
    ("sampler.pool", "text"),
    ("sampler.confidence", "text"),
    ("sampler.schedule", "text"),
    ("sampler.threshold", "number"),
    ("sampler.token_temp", "number"),
    ("sampler.alg_temp", "any"),
    ("sampler.eta", "any"),
    ("sampler.unmask_temp", "number"),
    ("sampler.noise", "text"),
    ("n", "count"),
    ("files", "record"),
    ("bank_digest", "digest"),
)
# The text whose windows are the reference, and the prompts where there are any.
_DATA = (
    ("cell.corpus", "text"),
    ("cell.corpus_digest", "digest"),
    ("cell.offset", "count"),
)
# Settings that narrow or distort the law that tokens are drawn from; protocol runs have them off.
_OFF = {"top_p": 1.0, "top_k": None, "nucleus_p": 1.0}
_COARSE_NOISE = "gumbel_fp32"


def judge_disclosure(run: RunRecord) -> Finding:
    """Point 7: all fields are there, files are the ones listed, arms differ by strategy alone."""
    generated = run.with_role("generated")
    problems = problems_of(generated, lambda record: _record_problems(run, record))
    problems += problems_of(_references(run, generated), _reference_problems)
    if not problems:
        problems += _unequal(run, generated)
    return Finding(
        problems,
        f"all {len(DISCLOSED) + len(_DATA)} fields in {counted(generated)}, files as hashed; arms"
        " of a model differ by strategy, temperature, budget and seed alone",
    )


def _record_problems(run: RunRecord, record: BankRecord) -> Iterator[str]:
    file = record.manifest_file
    for path, kind in DISCLOSED:
        try:
            record.fact(path, kind)
        except InputError as error:
            yield one_line(error)
    yield from _prompt_problems(record)
    yield from _identity_problems(record)
    sampler = record.fact("sampler", "record")
    for name, value in record.fact("cell", "record").items():
        if name in sampler and value is not None and sampler[name] != value:
            if name == "gen_length" and record.manifest.get("match"):
                continue  # the mode "length" matches by a longer text
            yield f"{file}: sampler.{name} is {sampler[name]!r} and its cell says {value!r}"
    for name, off in _OFF.items():
        if sampler.get(name, off) != off:
            yield (
                f"{file}: {name} is {sampler[name]!r}, which narrows the law of the draws;"
                f" protocol runs keep it at {off!r}"
            )
    if sampler.get("noise") == _COARSE_NOISE:
        yield f"{file}: noise is {_COARSE_NOISE}, an ablation that cuts the tail of the draws"
    run.reference_of(record)


def _prompt_problems(record: BankRecord) -> Iterator[str]:
    """Prompts need their text named and themselves hashed."""
    prefix_length = record.fact("cell", "record").get("prefix_length")
    if prefix_length is None:
        return
    for path, kind in (*_DATA, ("prompts.digest", "digest")):
        record.fact(path, kind)
    stored = record.fact("prompts.prefix_length", "count")
    if stored != prefix_length:
        yield (
            f"{record.manifest_file}: prompts.prefix_length is {stored} and its cell says"
            f" {prefix_length}"
        )


def _reference_problems(record: BankRecord) -> Iterator[str]:
    for path, kind in _DATA:
        record.fact(path, kind)
    yield from _identity_problems(record)


def _identity_problems(record: BankRecord) -> Iterator[str]:
    """The manifest is that of the planned cell, and its files are the ones that it lists."""
    file, cell = record.manifest_file, record.fact("cell", "record")
    try:
        fingerprint = cell_from_dict(cell).fingerprint
    except (TypeError, ValueError) as error:
        yield f"{file}: {one_line(error)}"
        fingerprint = None
    if fingerprint is not None and not (
        fingerprint == record.fingerprint == record.fact("fingerprint", "digest")
    ):
        names = [name for name, value in cell.items() if record.planned.get(name) != value]
        yield (
            f"{file} is not of the planned cell {record.label}: its fingerprint differs"
            + (f" ({listed(names)})" if names else "")
        )
    if record.fact("status", "text") != "complete":
        yield f"{file}: status is {record.manifest['status']!r}; run the sample stage again"
    rows = record.rows
    for name in rows.edited:
        yield f"{record.folder / name} does not match its sha256"
    if len(rows.nfe) != record.fact("n", "count"):
        yield f"{file}: n is {record.manifest['n']} and there are {len(rows.nfe)} rows"
    if rows.digest != record.fact("bank_digest", "digest"):
        yield f"{file}: bank_digest is not that of the texts"


def _references(run: RunRecord, generated: Sequence[BankRecord]) -> list[BankRecord]:
    """The banks that generated ones are scored against, once each."""
    used = {record.reference for record in generated}
    return [bank for bank in run.banks if bank.fingerprint in used]


def _unequal(run: RunRecord, generated: Sequence[BankRecord]) -> list[str]:
    """Fields outside strategy, temperature, budget and seed in which arms of one model differ."""
    by_model: dict[str, list[dict[str, Any]]] = {}
    for record in generated:
        key = comparability_key(run, record)
        del key["unmask_temp"]
        by_model.setdefault(key["model_digest"], []).append(key)
    return [
        f"arms of one model differ in {name} ({listed(texts)}), so they are not comparable"
        for keys in by_model.values()
        for name, texts in key_values(keys).items()
        if len(texts) > 1
    ]
