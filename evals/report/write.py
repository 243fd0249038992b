"""Writes a report folder: the page, its tables and its figures, each file whole or absent."""

import pathlib
from collections.abc import Sequence

from .. import storage
from .data import ReportData
from .figures import Figure
from .page import Section, render_page
from .tables import Table, numbers_csv, to_csv, to_latex, to_markdown


def write_report(
    folder: pathlib.Path,
    data: ReportData,
    findings: Sequence[str],
    sections: Sequence[Section],
) -> pathlib.Path:
    """Writes `folder`/index.html, tables/*.{md,csv,tex} and figures/*.{svg,png}.

    Figures are written twice, as wide as a page and as wide as a column (`*.column.svg`).

    The same data give the same bytes. Each file is written beside its place and renamed, the page
    last, so a killed run leaves no page that links to missing files. Files of an earlier report
    with the same names are replaced, since a report is made anew from banks and scores.

    Args:
        folder: usually workdir/report; created.
        data: title, lead, caveats, arms, provenance.
        findings: sentences of the first box; empty ones are dropped.
        sections: parts of the page in order, without those that have no blocks; their tables and
            figures are also written as files.

    Returns:
        The path of index.html.

    Raises:
        ValueError: two tables or two figures share a name.
        OSError: the folder cannot be written.
    """
    sections = [section for section in sections if section.blocks]
    blocks = [block for section in sections for block in section.blocks]
    tables = tuple(block for block in blocks if isinstance(block, Table))
    figures = tuple(block for block in blocks if isinstance(block, Figure))
    for kind, items in (("tables", tables), ("figures", figures)):
        names = [item.name for item in items]
        if len(set(names)) != len(names):
            raise ValueError(f"write_report: {kind} must have names of their own, got {names}")
    files: dict[str, bytes] = {}
    for table in tables:
        files[f"tables/{table.name}.md"] = to_markdown(table).encode()
        files[f"tables/{table.name}.csv"] = to_csv(table).encode()
        files[f"tables/{table.name}.tex"] = to_latex(table).encode()
    if tables:
        files["tables/numbers.csv"] = numbers_csv(tables).encode()
    for figure in figures:
        files[f"figures/{figure.name}.svg"] = figure.svg.encode()
        files[f"figures/{figure.name}.png"] = figure.png
        files[f"figures/{figure.name}.column.svg"] = figure.column_svg.encode()
        files[f"figures/{figure.name}.column.png"] = figure.column_png
    files["index.html"] = render_page(data, findings, sections).encode()
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        storage.write_bytes(path, content)
    return folder / "index.html"
