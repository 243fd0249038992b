"""The table of strategies by name."""

from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

from .types import Strategy

Kind = Literal["none", "remask", "order"]


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
      kind: "none" (changes nothing), "remask" (puts decided tokens back) or "order" (chooses what
        to reveal and never puts back). It sets the default pace, and the conformance tests hold
        the strategy to it.

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
        for field, function in strategy._asdict().items():
            if function is not None and not callable(function):
                raise ValueError(f"strategy {name!r}: {field}={function!r} is not callable")
        if kind != "remask" and strategy.select is not None:
            raise ValueError(f"strategy {name!r} of kind {kind!r} must not have a select function")
        _ENTRIES[name] = Entry(name, kind, strategy)
        return factory

    return register


def get_entry(name: str) -> Entry:
    """The registered entry of that name; ValueError lists the known names."""
    if name not in _ENTRIES:
        raise ValueError(f"strategy={name!r} is not one of {', '.join(strategy_names())}")
    return _ENTRIES[name]


def get_strategy(name: str) -> Strategy:
    """The strategy of that name; ValueError lists the known names."""
    return get_entry(name).strategy


def strategy_names(kind: Kind | None = None) -> tuple[str, ...]:
    """Registered names in order of registration, of one kind or of all."""
    if kind is not None and kind not in get_args(Kind):
        raise ValueError(f"kind={kind!r} is not one of {get_args(Kind)}")
    return tuple(e.name for e in _ENTRIES.values() if kind in (None, e.kind))
