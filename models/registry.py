"""The models this package knows by name: its own, the leaderboard's, scorers and encoders."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from . import published_models, sources

# What was checked of an entry, from most to least.
STATUSES = {
    "embedded": "ships with the package",
    "real weights": "features or likelihoods equal those of the published code, on its weights",
    "fixture": "the architecture equals the published code on tiny random weights",
    "untested": "built from published descriptions; nothing to compare with was at hand",
    "unpublished": "no weights are published under a name on record; source is what it builds on",
}


class ModelEntry(NamedTuple):
    """One row of the registry.

    Attributes:
        name: short name, unique.
        kind: "denoiser", "scorer" or "encoder": which `load_*` reads it.
        source: what `load_*` takes. Where no commit is on record it is `hf:OWNER/REPO`, which
            loaders refuse until @COMMIT is put behind it.
        licence: of the weights: SPDX identifier or common name; "see repository" where not on
            record.
        params_total: parameters as our network holds them: tied ones once, without the poolers
            and other heads that are not used.
        params_active: those used per token: all but the experts that are not chosen.
        tier: "1" or "2" on the leaderboard, "extra" denoisers beside it, "embedded", or "" for
            what judges.
        modes: what it may be used for: "generate" and "loglik"; "score" and "features".
        architecture: family, for `architecture=` of loaders, which need it where config.json
            names another or none.
        revision: the commit in `source`, as public repositories pin it; None: pin one yourself.
        status: what was checked; a key of `STATUSES`.
        notes: what to know before using it.
        config: the fields of config.json that fix its shape, where they are on record: enough to
            plan memory without the files.
        recipe: of an encoder: fields of `encoder.Recipe` other than its files' or family's own.
    """

    name: str
    kind: str
    source: str
    licence: str
    params_total: int
    params_active: int
    tier: str
    modes: tuple[str, ...]
    architecture: str = ""
    revision: str | None = None
    status: str = "embedded"
    notes: str = ""
    config: Mapping[str, Any] | None = None
    recipe: Mapping[str, Any] | None = None


def list_models() -> list[ModelEntry]:
    """All registered models: embedded ones, the leaderboard by tier, extras, scorers, encoders."""
    return [*_embedded(), *(ModelEntry(**row) for row in published_models.ROWS)]


def find_model(name: str) -> ModelEntry:
    """The entry of a name.

    Raises:
        ValueError: no entry has it.
    """
    entries = {entry.name: entry for entry in list_models()}
    if name not in entries:
        raise ValueError(f"model {name!r} is not registered; known: {', '.join(entries)}")
    return entries[name]


def encoder_recipe(source: str) -> dict[str, Any]:
    """What the registry says of how an encoder pools: fields of `encoder.Recipe`, maybe none.

    Known by repository, whatever the revision: `hf:OWNER/REPO@REVISION`.
    """
    repository = source.partition("@")[0]
    for row in published_models.ROWS:
        if row["kind"] == "encoder" and row["source"].partition("@")[0] == repository:
            return dict(row.get("recipe") or {})
    return {}


def _embedded() -> list[ModelEntry]:
    """From the cards that lie beside the weights."""
    entries = []
    for name in sources.embedded_names():
        source = f"embedded:{name}"
        folder = sources.resolve(source)
        card, config = (sources.read_json(folder / f"{file}.json") for file in ("card", "config"))
        num_params = card["num_params"]
        modes = ("generate",) if card["kind"] == "denoiser" else ("score", "features", "generate")
        entries.append(
            ModelEntry(
                name,
                card["kind"],
                source,
                card["licence"],
                num_params,
                num_params,
                "embedded",
                modes,
                architecture=config["model_type"],
                config=config,
            )
        )
    return entries
