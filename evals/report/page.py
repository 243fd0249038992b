"""The page: sections of tables, figures and samples in one self-contained HTML file."""

import dataclasses
import pathlib
import re
import shlex
from collections.abc import Sequence

import jinja2
from markupsafe import Markup

from ..scoring.scores import Score
from .data import ROLE_NAMES, Provenance, ReportData
from .figures import Figure
from .heatmap import Replay
from .rounding import plain_text, power_of_ten, round_number
from .tables import BEST, TIED, Entry, Head, Table

_HERE = pathlib.Path(__file__).parent
_ARROWS = {"up": "higher is better", "down": "lower is better"}
_MARKS = {BEST: ("★", "best of its column"), TIED: ("≈", "within two standard errors of the best")}
_LETTERS = re.compile(r"[^a-z0-9]+")


@dataclasses.dataclass(frozen=True)
class Gallery:
    """Samples to read: (label, role, texts) per arm."""

    arms: tuple[tuple[str, str, tuple[str, ...]], ...]
    kind: str = dataclasses.field(default="gallery", init=False)


@dataclasses.dataclass(frozen=True)
class Record:
    """The provenance block."""

    provenance: Provenance
    links: tuple[str, ...] = ()
    kind: str = dataclasses.field(default="record", init=False)


Block = Table | Figure | Replay | Gallery | Record


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of the page: a heading, paragraphs, then blocks in order."""

    title: str
    blocks: tuple[Block, ...]
    intro: tuple[str, ...] = ()

    @property
    def anchor(self) -> str:
        return _LETTERS.sub("-", self.title.lower()).strip("-")


def gallery(data: ReportData, per_arm: int = 3) -> Gallery:
    """The first samples of every arm: not chosen by hand or by score."""
    if per_arm < 1:
        raise ValueError(f"gallery: per_arm={per_arm} must be at least 1")
    return Gallery(
        tuple((arm.label, arm.role, arm.samples[:per_arm]) for arm in data.arms if arm.samples)
    )


def render_page(data: ReportData, findings: Sequence[str], sections: Sequence[Section]) -> str:
    """HTML of the whole report: no network, no external file but the tables it links to."""
    environment = page_environment()
    environment.globals.update(role_names=ROLE_NAMES, tidy=_tidy)
    return environment.get_template("page.html").render(
        title=data.title,
        data=data,
        findings=[text for text in findings if text],
        sections=sections,
        css=Markup(_asset("page.css")),
        script=Markup(_asset("page.js")),
    )


def page_environment(*folders: pathlib.Path) -> jinja2.Environment:
    """Loads templates that extend `frame.html` and draw with `parts.html`.

    Args:
        *folders: where templates are besides this folder.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([*folders, _HERE]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(tip=tip, number_parts=number_parts, mark_parts=_MARKS)
    environment.filters.update(head_tip=head_tip, shell_lines=shell_lines)
    return environment


def tip(head: Head, entry: Entry) -> str:
    """The tooltip of a number: exact value, stderr, n, unit, direction and signature."""
    number = entry.number
    if number is None or number.value is None:
        return f"{head.title}: missing, {number.reason if number else 'not measured'}"
    lines = [f"{head.title} = {number.value:.6g}"]
    if number.stderr is not None:
        lines[0] += f" ± {number.stderr:.3g} (standard error)"
    facts = [f"n = {number.n}", *([number.unit] if number.unit else [])]
    facts += [_ARROWS[number.direction]] if number.direction is not None else []
    facts += [_MARKS[entry.mark][1]] if entry.mark else []
    return "\n".join([*lines, " · ".join(facts), number.signature])


def head_tip(head: Head) -> str:
    """The explanation of a column heading."""
    facts = [head.about, head.unit, _ARROWS.get(head.direction, "")]
    return "; ".join(fact for fact in facts if fact)


def number_parts(number: Score) -> tuple[str, str]:
    """(value, "± error" or "") of the rounded number, each with its own power of ten."""
    if number.value is None or number.stderr is None:
        return plain_text(number), ""
    value, stderr, exponent = round_number(number.value, number.stderr)
    power = power_of_ten(exponent)
    return value + power, f"± {stderr}{power}"


def shell_lines(command: str, width: int = 88) -> str:
    """A long command on several lines, one flag each, still to be pasted as it stands."""
    if len(command) <= width:
        return command
    words = shlex.split(command)
    lines = [shlex.quote(words[0])]
    for word in words[1:]:
        if word.startswith("-"):
            lines.append(f"    {shlex.quote(word)}")
        else:
            lines[-1] += f" {shlex.quote(word)}"
    return " \\\n".join(lines)


def _tidy(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(_tidy(item) for item in value)
    if isinstance(value, float):
        return f"{value:g}"
    return "none" if value is None else str(value)


def _asset(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")
