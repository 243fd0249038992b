"""The language filter: mostly ASCII, almost no CJK, never empty."""

from typing import NamedTuple

# Unified ideographs, extension A, kana, hangul syllables, compatibility ideographs.
_CJK_BLOCKS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x3040, 0x30FF),
    (0xAC00, 0xD7AF),
    (0xF900, 0xFAFF),
)


class FilterVerdict(NamedTuple):
    """Whether a text passes, and the two shares that decided it (0 to 1, of its characters)."""

    accepted: bool
    ascii: float
    cjk: float


def english_filter(text: str, ascii_min: float = 0.85, cjk_max: float = 0.02) -> FilterVerdict:
    """Accepts a text whose share of ASCII characters is at least `ascii_min` and of CJK
    characters at most `cjk_max`; both bounds are inclusive and an empty text is rejected.

    It reads decoded text, after truncation at the end-of-sequence token (CaRE, section 4.3).

    Raises:
        ValueError: a bound outside [0, 1].
    """
    for name, bound in (("ascii_min", ascii_min), ("cjk_max", cjk_max)):
        if not 0.0 <= bound <= 1.0:
            raise ValueError(f"{name} is {bound}; it is a share of characters, from 0 to 1")
    if not text:
        return FilterVerdict(False, 0.0, 0.0)
    ascii_share = sum(character.isascii() for character in text) / len(text)
    cjk_share = sum(_is_cjk(ord(character)) for character in text) / len(text)
    return FilterVerdict(ascii_share >= ascii_min and cjk_share <= cjk_max, ascii_share, cjk_share)


def _is_cjk(point: int) -> bool:
    return any(low <= point <= high for low, high in _CJK_BLOCKS)
