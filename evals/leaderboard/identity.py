"""Who a model is: looked up in the registry by where it comes from."""

import pathlib
from collections.abc import Mapping
from typing import Any

from ...models import ModelEntry, list_models
from ...models.registry import STATUSES
from .rows import BoardRow, Identity

# Tiers of the leaderboard; registered models of others are shown when a run is of them.
TIERS = ("1", "2")


def identify(model: Mapping[str, Any]) -> Identity:
    """The identity of a bank's model.

    A registered repository counts whatever its revision, which the row's file digests pin. Another
    source is called after its last part, and has the parameters that its network counted.

    Args:
        model: the manifest's record: `source`, `architecture`, `num_params`.
    """
    source = str(model["source"])
    for entry in list_models():
        if entry.kind == "denoiser" and _repository(entry.source) == _repository(source):
            return identity_of(entry)._replace(source=source)
    family, total = model.get("architecture") or "", model.get("num_params")
    # Which experts a token uses is known of registered models alone.
    active = None if "moe" in family else total
    name = pathlib.PurePath(_repository(source)).name or source
    return Identity(name, source, family, "", total, active)


def identity_of(entry: ModelEntry) -> Identity:
    """The identity of a registered model."""
    return Identity(
        entry.name,
        entry.source,
        entry.architecture,
        entry.tier,
        entry.params_total,
        entry.params_active,
    )


def awaited_rows(rows: list[BoardRow]) -> list[BoardRow]:
    """A pending row without numbers for every model of the leaderboard that has none yet."""
    names = {row.model.name for row in rows}
    found = []
    for entry in list_models():
        if entry.kind == "denoiser" and entry.tier in TIERS and entry.name not in names:
            reason = "there is no run of it yet"
            if entry.status == "unpublished":
                reason += f": {STATUSES[entry.status]}"
            found.append(BoardRow(identity_of(entry), "pending", (reason,), "registry"))
    return found


def _repository(source: str) -> str:
    return source.partition("@")[0] if source.startswith("hf:") else source
