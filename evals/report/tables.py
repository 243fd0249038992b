"""Tables as data, and their Markdown, CSV and LaTeX forms."""

import csv
import dataclasses
import io

from ..scoring.scores import Score
from .rounding import MISSING, latex_text, plain_text

BEST, TIED = "best", "tied"
_MARK_TEXT = {BEST: " ★", TIED: " ≈", "": ""}
_MARK_LATEX = {BEST: r"$^{\star}$", TIED: r"$^{\approx}$", "": ""}
_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "–": "--",
    "—": "---",
    "−": "$-$",
    "×": r"$\times$",
    "±": r"$\pm$",
    "≈": r"$\approx$",
    "★": r"$\star$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "\n": " ",
}


@dataclasses.dataclass(frozen=True)
class Head:
    """A column heading. `key` names the column in CSV, `about` is its one-line explanation."""

    title: str
    key: str
    about: str = ""
    unit: str = ""
    direction: str = ""
    numeric: bool = True


@dataclasses.dataclass(frozen=True)
class Entry:
    """A table cell: plain text, or a number with an optional mark (`BEST`, `TIED`)."""

    text: str = ""
    number: Score | None = None
    mark: str = ""


@dataclasses.dataclass(frozen=True)
class Row:
    """Cells of one line; `role` styles it, `fixed` keeps it on top when the page sorts."""

    entries: tuple[Entry, ...]
    role: str = ""
    fixed: bool = False


@dataclasses.dataclass(frozen=True)
class Table:
    """A rectangular table. `name` is its file name, `notes` stand below it."""

    name: str
    caption: str
    heads: tuple[Head, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    kind: str = dataclasses.field(default="table", init=False)

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.entries) != len(self.heads):
                raise ValueError(
                    f"Table {self.name!r}: a row has {len(row.entries)} entries for "
                    f"{len(self.heads)} columns"
                )

    def signatures(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """For every numeric column its distinct signatures, in order of appearance."""
        found = []
        for j, head in enumerate(self.heads):
            numbers = [row.entries[j].number for row in self.rows]
            signed = dict.fromkeys(n.signature for n in numbers if n is not None and n.signature)
            if signed:
                found.append((head.title, tuple(signed)))
        return tuple(found)


def to_markdown(table: Table) -> str:
    """A pipe table, numbers rounded to two significant digits of their standard error."""
    lines = [
        "| " + " | ".join(_markdown_text(_titled(head)) for head in table.heads) + " |",
        "| " + " | ".join("---:" if head.numeric else ":---" for head in table.heads) + " |",
    ]
    for row in table.rows:
        texts = [_markdown_text(_shown(entry)) for entry in row.entries]
        lines.append("| " + " | ".join(texts) + " |")
    lines += ["", f"*{_markdown_text(table.caption)}*"]
    lines += [f"- {_markdown_text(note)}" for note in table.notes]
    return "\n".join(lines) + "\n"


def to_csv(table: Table) -> str:
    """Full precision; each number takes the columns `key`, `key_stderr` and `key_n`."""
    measured = [
        head.numeric and any(row.entries[j].number is not None for row in table.rows)
        for j, head in enumerate(table.heads)
    ]
    names: list[str] = []
    for head, is_number in zip(table.heads, measured, strict=True):
        names += [head.key, f"{head.key}_stderr", f"{head.key}_n"] if is_number else [head.key]
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(names)
    for row in table.rows:
        values: list[str] = []
        for entry, is_number in zip(row.entries, measured, strict=True):
            number = entry.number
            if not is_number:
                values.append(entry.text)
            elif number is None:
                values += [entry.text, "", ""]
            else:
                values += [_exact(number.value), _exact(number.stderr), str(number.n)]
        writer.writerow(values)
    return stream.getvalue()


def to_latex(table: Table) -> str:
    """A booktabs `tabular` inside a `table` environment, every text escaped."""
    align = "".join("r" if head.numeric else "l" for head in table.heads)
    lines = [
        "% needs \\usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex_escape(table.caption)}}}",
        rf"\label{{tab:{table.name}}}",
        rf"\begin{{tabular}}{{{align}}}",
        r"\toprule",
        " & ".join(latex_escape(_titled(head)) for head in table.heads) + r" \\",
        r"\midrule",
    ]
    for row in table.rows:
        texts = []
        for entry in row.entries:
            body = latex_escape(entry.text) if entry.number is None else latex_text(entry.number)
            texts.append(body + _MARK_LATEX[entry.mark])
        lines.append(" & ".join(texts) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [rf"\par\footnotesize {latex_escape(note)}" for note in table.notes]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def latex_escape(text: str) -> str:
    """Text with every character that LaTeX would act upon written out."""
    return "".join(_LATEX.get(letter, letter) for letter in text)


def numbers_csv(tables: tuple[Table, ...]) -> str:
    """Every number of the tables on a line of its own, with its signature or why it is missing."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    leaf = ["value", "stderr", "n", "unit", "direction", "signature", "reason"]
    writer.writerow(["table", "row", "metric", *leaf])
    for table in tables:
        for row in table.rows:
            for head, entry in zip(table.heads, row.entries, strict=True):
                if (number := entry.number) is not None:
                    line = [table.name, row.entries[0].text, head.key, _exact(number.value)]
                    line += [_exact(number.stderr), str(number.n), number.unit]
                    line += [number.direction or "", number.signature, number.reason or ""]
                    writer.writerow(line)
    return stream.getvalue()


def _titled(head: Head) -> str:
    arrow = {"up": " ↑", "down": " ↓"}.get(head.direction, "")
    return head.title + arrow


def _shown(entry: Entry) -> str:
    if entry.number is None:
        return entry.text or MISSING
    return plain_text(entry.number) + _MARK_TEXT[entry.mark]


def _markdown_text(text: str) -> str:
    for letter in "\\`*_[]<>|":
        text = text.replace(letter, "\\" + letter)
    return text.replace("\n", " ")


def _exact(value: float | None) -> str:
    return "" if value is None else repr(value)
