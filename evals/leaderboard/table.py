"""The leaderboard as a table, for the page and for CSV, Markdown and LaTeX."""

from ..report.care.tables import TITLES
from ..report.data import missing
from ..report.tables import Entry, Head, Row, Table
from ..reported import read_reported, reported_column
from ..scoring.scores import Score
from .board import Board
from .identity import identify
from .rows import FOOTNOTES, STATUSES, BoardRow

# Columns that the page draws in its own way.
MODEL, STATUS, PROTOCOL, REPORTED = "model", "status", "protocol", "reported_gap"
_GAP_METRIC, _PAPER, _CORPUS = "interaction_gap", "care", "owt"


def board_table(board: Board) -> Table:
    """One row a model, in the order of the board.

    Numbers are ours or the submitter's. What the paper prints of a model's gap stands in a column
    of its own, as text.
    """
    reported = reported_gaps()
    rows = tuple(_row(board, place, reported) for place in range(len(board.rows)))
    budget = "" if board.num_steps is None else f" at {board.num_steps} nominal steps"
    return Table(
        "leaderboard",
        f"Masked diffusion models{budget}: no remasking with and without randomness, and what "
        f"{board.settings.strategy} does to it. Means over seeds ± standard error.",
        heads(board),
        rows,
        notes(board),
    )


def heads(board: Board) -> tuple[Head, ...]:
    """The columns of the table."""
    temp, strategy = f"t={board.settings.unmask_temp:g}", board.settings.strategy
    by = ", ".join(board.settings.rank_by)
    of_none = f"of the arm without remasking at {temp}"
    accepted = TITLES["acceptance"][1]
    return (
        Head("model", MODEL, "marks are explained below the table", numeric=False),
        Head("status", STATUS, "; ".join(f"{k}: {v}" for k, v in STATUSES.items()), numeric=False),
        Head("rank", "rank", f"mean rank by {by} {of_none}", "", "down"),
        Head("95 %", "rank_interval", "bootstrap interval of the rank over seeds", numeric=False),
        Head(
            "not separated from",
            "not_separated",
            "rows whose difference in rank has an interval that holds 0",
            numeric=False,
        ),
        Head("none MAUVE t=0", "none_mauve_t0", TITLES["mauve"][1], "", "up"),
        Head(f"none MAUVE {temp}", "none_mauve", TITLES["mauve"][1], "", "up"),
        Head(f"{strategy} MAUVE {temp}", "strategy_mauve", TITLES["mauve"][1], "", "up"),
        Head("gap", "gap", "MAUVE without remasking minus with it, paired over seeds"),
        Head("PPL", "perplexity", f"{TITLES['gen_ppl'][1]}; {of_none}", "", "down"),
        Head("Self-BLEU", "self_bleu", f"{TITLES['self_bleu'][1]}; {of_none}", "", "down"),
        Head("Distinct-3", "distinct_3", f"{TITLES['distinct_3'][1]}; {of_none}", "", "up"),
        Head("NFE none", "none_nfe", "counted forwards a sample without remasking"),
        Head(f"NFE {strategy}", "strategy_nfe", f"counted forwards a sample with {strategy}"),
        Head("accepted none", "none_acceptance", f"{accepted}; {of_none}"),
        Head(f"accepted {strategy}", "strategy_acceptance", f"{accepted}; with {strategy}"),
        Head("seeds", "seeds", numeric=False),
        Head("protocol", PROTOCOL, "points of the CaRE protocol that the run meets", numeric=False),
        Head("tier", "tier", "of the registry", numeric=False),
        Head("family", "family", "architecture", numeric=False),
        Head("active", "params_active", "parameters used per token"),
        Head("reported gap", REPORTED, "what the paper prints; not ours", numeric=False),
    )


def notes(board: Board) -> tuple[str, ...]:
    """Footnotes that the rows use, then what every reader should know."""
    used = {mark for row in board.rows for mark in row.marks}
    found = [f"{mark} {text}" for mark, text in FOOTNOTES.items() if mark in used]
    found += [
        "PPL, Self-BLEU and Distinct-3 are of the arm without remasking; each alone is won by "
        "degenerate text, so none of them orders the rows unless --rank_by says so.",
        "A gap above 0 means that remasking does worse than no remasking at the same temperature, "
        "budget and seeds. It is computed from the seeds of both arms.",
        "Verified rows alone are ranked, at one temperature and the same seeds; point at or tap "
        "the dash of another row for the reason.",
        "Reported gap: printed by the paper for its own setting (other text, length, scorer and "
        "sample size); compare its direction, not its value.",
    ]
    return tuple(found)


def active_text(count: int | None) -> str:
    """Parameters for reading: "1.72 B", "2.31 M"."""
    if count is None:
        return ""
    unit, letter = (1e9, "B") if count >= 1e9 else (1e6, "M")
    return f"{count / unit:.3g} {letter}"


def reported_gaps() -> dict[str, str]:
    """{lower-case name in the paper: gap as printed}."""
    claims = read_reported()
    column = reported_column(claims, _GAP_METRIC, corpus=_CORPUS, paper=_PAPER)
    return {subject.lower(): number.text for subject, number in column.items()}


def _row(board: Board, place: int, reported: dict[str, str]) -> Row:
    row, name = board.rows[place], board.names[place]
    badge = "" if row.protocol is None else _points(row)
    texts = {
        MODEL: " ".join([name, *row.marks]),
        STATUS: row.status,
        PROTOCOL: badge,
        "rank_interval": _interval(board, place),
        "not_separated": ", ".join(
            board.names[other] for other in board.ranking.not_separated.get(place, ())
        ),
        "tier": row.model.tier,
        "family": row.model.family,
        "params_active": active_text(row.model.params_active),
        "seeds": ", ".join(map(str, row.seeds)),
        REPORTED: _reported(row, reported),
    }
    numbers = {
        "rank": _rank(board, place),
        "none_mauve_t0": row.number("cold", "mauve"),
        "none_mauve": row.number("baseline", "mauve"),
        "strategy_mauve": row.number("strategy", "mauve"),
        "gap": row.gap,
        "perplexity": row.number("baseline", "perplexity"),
        "self_bleu": row.number("baseline", "self_bleu"),
        "distinct_3": row.number("baseline", "distinct_3"),
        "none_nfe": row.number("baseline", "nfe"),
        "strategy_nfe": row.number("strategy", "nfe"),
        "none_acceptance": row.number("baseline", "acceptance"),
        "strategy_acceptance": row.number("strategy", "acceptance"),
    }
    entries = (
        Entry(number=numbers[head.key]) if head.key in numbers else Entry(texts[head.key])
        for head in heads(board)
    )
    return Row(tuple(entries), row.status)


def _reported(row: BoardRow, reported: dict[str, str]) -> str:
    """The printed gap of a registered model; the paper leaves "-Base" out of some names.

    Its source says which one it is: a submission may call its model anything.
    """
    known = identify({"source": row.model.source})
    name = known.name.lower() if known.tier else ""
    return reported.get(name) or reported.get(name.removesuffix("-base"), "")


def _rank(board: Board, place: int) -> Score:
    found = board.ranking.ranks.get(place)
    if found is None:
        return missing(board.ranking.refused.get(place, "not ranked"))
    seeds = ",".join(map(str, board.ranking.seeds))
    signature = (
        f"mean_rank|by:{','.join(board.settings.rank_by)}|ties:average|rows:{len(board.ranking.ranks)}"
        f"|seeds:{seeds}"
    )
    return Score(found.mean_rank, None, len(board.ranking.seeds), "", "down", signature)


def _interval(board: Board, place: int) -> str:
    found = board.ranking.ranks.get(place)
    if found is None:
        return ""
    low, high = f"{found.low:g}", f"{found.high:g}"
    return low if low == high else f"{low}–{high}"


def _points(row: BoardRow) -> str:
    assert row.protocol is not None
    met = [point.number for point in row.protocol.points if point.passed]
    return f"{len(met)}/{len(row.protocol.points)}"
