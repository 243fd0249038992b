"""The models this package knows by name."""

from typing import NamedTuple

from . import sources


class ModelEntry(NamedTuple):
    """One row of the registry.

    Attributes:
        name: short name.
        kind: "denoiser" or "scorer".
        source: what `load_denoiser` or `load_scorer` takes.
        licence: SPDX identifier.
        params_total, params_active: parameters, and those used per token.
        tier: "embedded": ships with the package.
        modes: what it may be used for.
    """

    name: str
    kind: str
    source: str
    licence: str
    params_total: int
    params_active: int
    tier: str
    modes: tuple[str, ...]


def list_models() -> list[ModelEntry]:
    """All registered models, read from the cards that lie beside their weights."""
    entries = []
    for name in sources.embedded_names():
        source = f"embedded:{name}"
        card = sources.read_json(sources.resolve(source) / "card.json")
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
            )
        )
    return entries
