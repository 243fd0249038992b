"""The table of strategies by name."""

from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

from .types import Strategy, Traits

Kind = Literal["none", "remask", "order", "ancestral"]


class Entry(NamedTuple):
    """A registered strategy: its name, what it changes, and its functions."""

    name: str
    kind: Kind
    strategy: Strategy


_ENTRIES: dict[str, Entry] = {}


def register_strategy(
    name: str, *, kind: Kind
) -> Callable[[Callable[[], Strategy]], Callable[[], Strategy]]:
    """Decorates a function of no arguments that returns a `Strategy`.

    The function is called once, here: the strategy's identity keys the compilation cache.

    Args:
      name: how configs refer to it; a taken name is refused, since stored results carry it.
      kind: "none" (changes nothing), "remask" (puts decided tokens back), "order" (chooses what
        to reveal and never puts back) or "ancestral" (draws positions from the reverse of a
        masking process in time). It sets the default pace, and the conformance tests hold the
        strategy to it.

    Raises:
      ValueError: the name is taken or empty, the kind is unknown, or the function returns
        something else than a `Strategy` of callables and None.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"name={name!r} must be a Python identifier such as 'high_entropy'")
    if kind not in get_args(Kind):
        raise ValueError(f"kind={kind!r} of strategy {name!r} is not one of {get_args(Kind)}")
    if name in _ENTRIES:
        raise ValueError(f"strategy {name!r} is already registered; choose another name")

    def register(factory: Callable[[], Strategy]) -> Callable[[], Strategy]:
        strategy = factory()
        if not isinstance(strategy, Strategy):
            raise ValueError(f"strategy {name!r}: the function returned {type(strategy).__name__}")
        _check(name, kind, strategy)
        _ENTRIES[name] = Entry(name, kind, strategy)
        return factory

    return register


def get_entry(name: str) -> Entry:
    """The registered entry of that name; ValueError lists the known names."""
    if not isinstance(name, str) or name not in _ENTRIES:
        raise ValueError(f"strategy={name!r} is not one of {', '.join(strategy_names())}")
    return _ENTRIES[name]


def get_strategy(name: str) -> Strategy:
    """The strategy of that name; ValueError lists the known names."""
    return get_entry(name).strategy


def strategy_names(kind: Kind | None = None) -> tuple[str, ...]:
    """Registered names of one kind or of all: by kind, then in order of registration."""
    kinds = get_args(Kind)
    if kind is not None and kind not in kinds:
        raise ValueError(f"kind={kind!r} is not one of {kinds}")
    entries = sorted(_ENTRIES.values(), key=lambda entry: kinds.index(entry.kind))
    return tuple(e.name for e in entries if kind in (None, e.kind))


def _check(name: str, kind: Kind, strategy: Strategy) -> None:
    functions = strategy._asdict()
    if not isinstance(functions.pop("traits"), Traits):
        raise ValueError(f"strategy {name!r}: traits must be a Traits")
    for field, function in functions.items():
        if function is not None and not callable(function):
            raise ValueError(f"strategy {name!r}: {field}={function!r} is not callable")
    given = {field for field, function in functions.items() if function is not None}
    accepted = {
        "none": {"order", "quota"},
        "order": {"init", "order", "quota", "plan"},
        "remask": {"init", "select", "quota", "order", "transition", "plan"},
        "ancestral": {"rates"},
    }[kind]
    if excess := sorted(given - accepted):
        raise ValueError(
            f"strategy {name!r} of kind {kind!r} must not have a {excess[0]} function; "
            f"accepted: {', '.join(sorted(accepted))}"
        )
    if kind == "ancestral" and strategy.rates is None:
        raise ValueError(f"strategy {name!r} of kind 'ancestral' needs a rates function")
    if strategy.transition is not None and given & {"select", "order"}:
        raise ValueError(
            f"strategy {name!r}: a transition replaces order and select; give one or the other"
        )
