"""What a workdir says of its banks, read without trusting it.

Files of a run may be missing, edited or of another version. Whatever is asked of them is there
and of the right type, or an `InputError` names the file and the field.
"""

import dataclasses
import functools
import json
import pathlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from .. import storage
from ..banks.bank import MANIFEST, bank_digest
from ..cell import arm_labels, cell_from_dict
from ..corpora.text_filter import english_filter
from ..errors import InputError, naming, one_line
from ..scoring.scores import Score, parse_leaf
from ..workdir.plan import PLAN

# Bounds of the language filter (CaRE, point 5); they are also the defaults of a cell.
ASCII_MIN, CJK_MAX = 0.85, 0.02

_HEX = re.compile(r"[0-9a-f]{64}")
_KINDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "any": (lambda value: True, "anything"),
    "count": (
        lambda value: isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63,
        "a whole number of at least 0",
    ),
    "digest": (lambda value: isinstance(value, str) and bool(_HEX.fullmatch(value)), "a sha256"),
    "flag": (lambda value: isinstance(value, bool), "true or false"),
    "number": (
        lambda value: (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and abs(value) <= sys.float_info.max
        ),
        "a finite number",
    ),
    "record": (lambda value: isinstance(value, dict) and bool(value), "a record with fields"),
    "text": (lambda value: isinstance(value, str) and bool(value), "a text"),
}


class Rows(NamedTuple):
    """What the rows of a bank say, as far as the protocol asks.

    Attributes:
        nfe: forwards charged to each sample.
        accepted: stored verdicts of the language filter.
        passing: verdicts on the stored texts under the protocol's own bounds.
        launches: forward calls, summed over the shards.
        digest: `bank_digest` of the stored texts.
        edited: files whose sha256 is not the manifest's.
    """

    nfe: tuple[int, ...]
    accepted: tuple[bool, ...]
    passing: tuple[bool, ...]
    launches: int
    digest: str
    edited: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class BankRecord:
    """The files of one planned bank, each read when it is first asked for.

    Attributes:
        fingerprint: of the planned cell.
        arm: label of its arm.
        planned: fields of the planned cell.
        reference: fingerprint of the bank that it is scored against.
        folder, score_file: where bank and scores lie.
    """

    fingerprint: str
    arm: str
    planned: Mapping[str, Any]
    reference: str | None
    folder: pathlib.Path
    score_file: pathlib.Path

    @property
    def label(self) -> str:
        """Arm and seed, as planned."""
        return f"{self.arm} seed {self.planned.get('seed')}"

    @property
    def manifest_file(self) -> pathlib.Path:
        return self.folder / MANIFEST

    @functools.cached_property
    def manifest(self) -> dict[str, Any]:
        """The manifest as stored."""
        return _read(self.manifest_file)

    @functools.cached_property
    def scores(self) -> dict[str, Any]:
        """The score file as stored."""
        return _read(self.score_file)

    @functools.cached_property
    def rows(self) -> Rows:
        """The rows of all shards that the manifest lists."""
        with naming(f"bank {self.folder}"):
            return _read_rows(self.folder, self.fact("files", "record"))

    def fact(self, path: str, kind: str) -> Any:
        """A field of the manifest, such as "measured.nfe_mean", of a kind of `_KINDS`."""
        return fact(self.manifest, path, kind, self.manifest_file)

    def cell(self, name: str, kind: str) -> Any:
        """A field of the cell that the manifest holds."""
        return self.fact(f"cell.{name}", kind)

    def score_fact(self, path: str, kind: str) -> Any:
        """A field of the score file, such as "mauve.value"."""
        return fact(self.scores, path, kind, self.score_file)

    def score(self, metric: str) -> Score:
        """A number of the score file."""
        with naming(f"{self.score_file}: {metric}"):
            try:
                return parse_leaf(self.score_fact(metric, "record"))
            except (TypeError, OverflowError) as error:
                raise ValueError(one_line(error)) from error


class RunRecord(NamedTuple):
    """A workdir: its banks in the plan's order."""

    workdir: pathlib.Path
    banks: tuple[BankRecord, ...]

    def with_role(self, *roles: str) -> tuple[BankRecord, ...]:
        """The banks that are planned in one of these roles."""
        return tuple(bank for bank in self.banks if bank.planned.get("role") in roles)

    def reference_of(self, record: BankRecord) -> BankRecord:
        """The bank that a record is scored against.

        Raises:
            InputError: the plan names none, or one that it does not list.
        """
        for other in self.banks:
            if other.fingerprint == record.reference:
                return other
        raise InputError(
            f"{self.workdir / PLAN} lists no reference bank for {record.label}; distances need one"
        )


def read_run(workdir: str | pathlib.Path) -> RunRecord:
    """Reads the plan of a workdir; its banks are read when they are asked for.

    Raises:
        InputError: no folder, no plan, or a plan without cells, as that of a study.
    """
    workdir = pathlib.Path(workdir)
    if not workdir.is_dir():
        raise InputError(f"{workdir} is no folder; name the --workdir of a run")
    file = workdir / PLAN
    plan = _read(file)
    entries = plan.get("cells")
    if not isinstance(entries, list) or not entries:
        raise InputError(
            f"{file} lists no cells; the protocol judges experiments of cells, and"
            f" {plan.get('experiment')!r} is none or was edited"
        )
    found = []
    for place, entry in enumerate(entries):
        where = pathlib.Path(f"{file}, cell {place}")
        entry = entry if isinstance(entry, dict) else {}
        fingerprint = fact(entry, "fingerprint", "digest", where)
        reference = entry.get("reference")
        if reference is not None:
            reference = fact(entry, "reference", "digest", where)
        found.append(
            BankRecord(
                fingerprint=fingerprint,
                arm=fact(entry, "arm", "text", where),
                planned=fact(entry, "cell", "record", where),
                reference=reference,
                folder=workdir / "banks" / fingerprint,
                score_file=workdir / "scores" / f"{fingerprint}.json",
            )
        )
    return RunRecord(workdir, _told_apart(found))


def fact(source: Mapping[str, Any], path: str, kind: str, where: pathlib.Path) -> Any:
    """The value at a dotted path of a JSON object.

    Args:
        source: the object.
        path: such as "measured.nfe_mean".
        kind: a name of `_KINDS`.
        where: the file, for messages.

    Raises:
        InputError: there is no such field, or it is of another kind.
    """
    value: Any = source
    for name in path.split("."):
        if not isinstance(value, Mapping) or name not in value:
            raise InputError(f"{where} lacks {path}")
        value = value[name]
    accepts, text = _KINDS[kind]
    if not accepts(value):
        raise InputError(f"{where}: {path} is {value!r}; it must be {text}")
    return value


def problems_of(
    records: Iterable[BankRecord], check: Callable[[BankRecord], Iterator[str]]
) -> list[str]:
    """What a check says of every record; unreadable files become one of its sentences."""
    found: list[str] = []
    for record in records:
        try:
            for problem in check(record):
                found.append(problem)
        except InputError as error:
            found.append(one_line(error))
    return found


def _told_apart(records: list[BankRecord]) -> tuple[BankRecord, ...]:
    """Records with labels that tell their arms apart, where this version can read the cells."""
    try:
        labels = arm_labels(cell_from_dict(dict(record.planned)) for record in records)
    except (TypeError, ValueError):
        return tuple(records)
    return tuple(
        dataclasses.replace(record, arm=labels.get(record.fingerprint, record.arm))
        for record in records
    )


def _read(path: pathlib.Path) -> dict[str, Any]:
    with naming(str(path)):
        record = storage.read_json(path)
        # Half a character, as only an escape can spell it, could never be shown or written again.
        json.dumps(record, ensure_ascii=False).encode("utf-8")
        return record


def _read_rows(folder: pathlib.Path, files: Mapping[str, Any]) -> Rows:
    nfe: list[int] = []
    accepted: list[bool] = []
    texts: list[str] = []
    launches, edited = 0, []
    for name in sorted(files):
        entry, path = files[name], folder / name
        if pathlib.PurePath(name).name != name:
            raise InputError(f"{folder / MANIFEST} lists {name!r}, which is no file of the bank")
        if not path.is_file():
            raise InputError(f"{path} is missing")
        data = path.read_bytes()
        if not isinstance(entry, dict) or storage.sha256_hex(data) != entry.get("sha256"):
            edited.append(name)
        if not isinstance(entry, dict) or "rows" not in entry:
            continue
        launches += fact(entry, "launches", "count", path)
        for number, line in enumerate(data.splitlines(), start=1):
            where = pathlib.Path(f"{path}, line {number}")
            with naming(str(where)):
                row = json.loads(line)
            row = row if isinstance(row, dict) else {}
            nfe.append(fact(row, "nfe", "count", where))
            accepted.append(fact(row, "accepted", "flag", where))
            text = fact(row, "text", "any", where)
            if not isinstance(text, str):
                raise InputError(f"{where}: text is {text!r}; it must be a text")
            texts.append(text)
    if not nfe:
        raise InputError(f"{folder} holds no samples")
    passing = tuple(_passes(text) for text in texts)
    return Rows(tuple(nfe), tuple(accepted), passing, launches, bank_digest(texts), tuple(edited))


def _passes(text: str) -> bool:
    # Most texts are plain ASCII, and need no look at every character.
    return bool(text) if text.isascii() else english_filter(text, ASCII_MIN, CJK_MAX).accepted
