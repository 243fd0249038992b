"""The score stage: every bank gets its numbers, features and likelihoods come from the cache."""

import pathlib

from .. import storage
from ..banks.bank import MANIFEST, SampleBank, is_complete
from ..cell import Cell
from ..environment import device_name
from ..errors import InputError
from ..scoring.bank_scores import score_bank
from ..scoring.encoded import Encoded, Space, encode_pair
from ..scoring.features import FeatureKey, Features, cached_features
from ..scoring.gradients import BankGradients, bank_gradients
from ..scoring.prefixed import Continued, cached_continued, prompt_texts
from ..scoring.scored import usable_rows
from ..scoring.scores import CellScores, read_scores, write_scores
from ..sources import Sources
from .events import EventLog
from .plan import Plan
from .progress import reporting
from .sample_stage import bank_path, read_cell_bank


def score_path(workdir: pathlib.Path, cell: Cell) -> pathlib.Path:
    """File of a cell's scores."""
    return workdir / "scores" / f"{cell.fingerprint}.json"


def run_score_stage(
    plan: Plan, workdir: pathlib.Path, sources: Sources, log: EventLog, batch_size: int
) -> int:
    """Scores the banks that have no scores yet; every bank is verified first.

    Returns:
        The number of banks scored.

    Raises:
        InputError: a bank is missing, unfinished or edited.
    """
    cells = scored_cells(plan)
    for cell in cells:
        if not is_complete(bank_path(workdir, cell)):
            raise InputError(
                f"bank of {cell.arm!r} seed {cell.seed} is not complete in {workdir};"
                " run --stages=sample first"
            )
    banks = {cell.fingerprint: read_cell_bank(workdir, cell) for cell in cells}
    missing = [cell for cell in cells if not _is_scored(plan, workdir, cell, banks)]
    if not missing:
        return 0
    (workdir / "scores").mkdir(exist_ok=True)

    def featured(cell: Cell) -> tuple[SampleBank, Features]:
        bank = banks[cell.fingerprint]
        key = FeatureKey(bank.digest, plan.scoring.scorer_digest, plan.scoring.max_tokens)
        scorer = sources.scorer(plan.scoring.scorer)
        folder = workdir / "features"
        return bank, cached_features(folder, bank, scorer, key, batch_size=batch_size)

    gradients: dict[str, BankGradients | None] = {}

    def gradients_of(
        bank: SampleBank, features: Features, *, keep: bool = False
    ) -> BankGradients | None:
        if bank.digest in gradients:
            return gradients[bank.digest]
        scorer = sources.scorer(plan.scoring.scorer)
        stats = bank_gradients(usable_rows(bank, features), scorer, plan.scoring)
        if keep:
            gradients[bank.digest] = stats
        return stats

    spaces: dict[tuple[str, str], Space] = {}

    def encoded(bank: SampleBank, reference: tuple[SampleBank, Features]) -> list[Encoded]:
        return encode_pair(
            bank,
            reference[0],
            usable_rows(*reference).rows,
            plan.scoring,
            sources,
            folder=workdir / "features",
            spaces=spaces,
        )

    def continued(cell: Cell, bank: SampleBank) -> Continued | None:
        if cell.prefix_length is None:
            return None
        return cached_continued(
            workdir / "features",
            bank,
            prompt_texts(cell, sources),
            sources.scorer(plan.scoring.scorer),
            model_digest=plan.scoring.scorer_digest,
            max_tokens=plan.scoring.max_tokens,
            batch_size=batch_size,
        )

    training = None
    if plan.scoring.training is not None:
        training = sources.training_index(plan.scoring.training, plan.scoring.scorer)
    with reporting("score", len(missing)) as advance:
        for cell in missing:
            facts = {"fingerprint": cell.fingerprint, "arm": cell.arm, "seed": cell.seed}
            with log.span("score", **facts, device=device_name()):
                bank, features = featured(cell)
                other = plan.reference_of(cell)
                reference = featured(other) if other else None
                sums = (None, None)
                if reference is not None:
                    sums = gradients_of(*reference, keep=True), gradients_of(bank, features)
                scores = CellScores(
                    cell,
                    bank.digest,
                    reference[0].digest if reference else None,
                    score_bank(
                        bank,
                        features,
                        reference,
                        plan.scoring,
                        training=training,
                        gradients=sums,
                        encoded=encoded(bank, reference) if reference else (),
                        continued=continued(cell, bank),
                    ),
                )
                write_scores(score_path(workdir, cell), scores)
            advance(1, f"{cell.arm} seed {cell.seed}")
    return len(missing)


def load_scores(plan: Plan, workdir: pathlib.Path) -> list[CellScores]:
    """Scores of all scored cells, in the plan's order.

    Raises:
        InputError: a cell has none yet, or ones of other texts than its bank holds.
    """
    found = []
    for cell in scored_cells(plan):
        path = score_path(workdir, cell)
        if not path.exists():
            raise InputError(
                f"scores of {cell.arm!r} seed {cell.seed} are missing in {workdir};"
                " run --stages=sample,score first"
            )
        scores = read_scores(path)
        manifest = bank_path(workdir, cell) / MANIFEST
        if manifest.exists() and storage.read_json(manifest).get("bank_digest") not in (
            None,
            scores.bank_digest,
        ):
            raise InputError(
                f"scores of {cell.arm!r} seed {cell.seed} are of other texts than its bank holds"
                f" now ({path}); run --stages=sample,score first"
            )
        found.append(scores)
    return found


def scored_cells(plan: Plan) -> list[Cell]:
    """The cells that get scores: all but trajectories."""
    return [cell for cell in plan.cells if cell.role != "trajectory"]


def _is_scored(plan: Plan, workdir: pathlib.Path, cell: Cell, banks: dict[str, SampleBank]) -> bool:
    path = score_path(workdir, cell)
    if not path.exists():
        return False
    stored = read_scores(path)
    reference = plan.reference_of(cell)
    digest = banks[reference.fingerprint].digest if reference else None
    return stored.bank_digest == banks[cell.fingerprint].digest and (
        stored.reference_digest == digest
    )
