"""Many patterns, searched in one text: one look at its words tells which of them can match at all.

Most patterns cannot match without certain words, say one of the nouns for a mailbox and a word for
"disabled". Those are read from the pattern itself. A text of fifteen words has what ten of a thousand
patterns need; only these are searched, each at most once, and compiled when they first are. The idea is
that of RE2's FilteredRE2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, reduce
from itertools import chain
from operator import and_, or_
from typing import Final, NamedTuple, Self


class AnyOf(str):
    """A pattern that matches where one of some does; each of those can be searched by itself, too.

    Attributes:
        parts: those patterns.
    """

    __slots__ = ("parts",)
    parts: tuple[str, ...]

    def __new__(cls, *patterns: str) -> Self:
        """Return one pattern of all."""
        made = super().__new__(cls, "(?:" + "|".join(patterns) + ")")
        made.parts = tuple(chain.from_iterable(map(_parts, patterns)))
        return made


def removal(*patterns: str) -> Callable[[str], str]:
    """Return what takes out of a text what these patterns match there, one after the other."""
    compiled = tuple(map(re.compile, patterns))

    def remove(text: str) -> str:
        for pattern in compiled:
            text = pattern.sub("", text)
        return text

    return remove


def _parts(pattern: str) -> tuple[str, ...]:
    return pattern.parts if isinstance(pattern, AnyOf) else (pattern,)


_MAX_NEEDS: Final = 3
"""So many sets of words are looked at for each pattern, the most telling ones."""
_LONGEST_STEM: Final = 12
_WORDS_KEPT: Final = 4_096
_WORD: Final = re.compile(r"\w+")
_EDGE: Final = "\0"
"""Stands where a word begins or ends."""


class Patterns:
    """Patterns that are searched in the same texts; of each part, what tells of several has a bit.

    Attributes:
        parts: what is searched, by number.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        """Take all there are: without flags, and in the syntax that `_TOKEN` knows; "" is none."""
        self.parts: list[str] = []
        self._bits: dict[str, int] = {"": 0}
        self._needing: dict[str, list[int]] = {}
        self._needing_no_more = [0] * _MAX_NEEDS
        groups: dict[str, _Known] = {}
        for pattern in patterns:
            self._bits[pattern] = reduce(or_, (self._add(part, groups) for part in _parts(pattern)))
        self._compiled: list[re.Pattern[str] | None] = [None] * len(self.parts)
        self._fulfilled_by = lru_cache(maxsize=_WORDS_KEPT)(self._needing_a_part_of)

    def _add(self, pattern: str, groups: dict[str, _Known]) -> int:
        if pattern not in self._bits:
            alternatives = _Reader(pattern, groups).alternatives()
            self._bits[pattern] = reduce(or_, (self._add_part(part, needs) for part, needs in alternatives))
        return self._bits[pattern]

    def _add_part(self, part: str, needs: Sequence[frozenset[str]]) -> int:
        bit = 1 << len(self.parts)
        self.parts.append(part)
        for turn in range(_MAX_NEEDS):
            if turn >= len(needs):
                self._needing_no_more[turn] |= bit
                continue
            for stem in needs[turn]:
                self._needing.setdefault(stem, [0] * _MAX_NEEDS)[turn] |= bit
        return bit

    def bits(self, pattern: str) -> int:
        """Return what stands for one of the patterns in a `Search`."""
        return self._bits[pattern]

    def search(self, text: str) -> Search:
        """Return a text in which patterns are looked for."""
        return Search(self, text)

    def possible(self, text: str) -> int:
        """Return the bits of the patterns that can match in a text, as far as its words tell."""
        masks = self._needing_no_more
        for word in set(_WORD.findall(text)):
            masks = list(map(or_, masks, self._fulfilled_by(word)))
        return reduce(and_, masks)

    def _needing_a_part_of(self, word: str) -> Sequence[int]:
        masks = [0] * _MAX_NEEDS
        word = f"{_EDGE}{word}{_EDGE}"
        for start in range(len(word)):
            for end in range(start + 1, min(start + _LONGEST_STEM, len(word)) + 1):
                if needing := self._needing.get(word[start:end]):
                    masks = list(map(or_, masks, needing))
        return masks

    def matches(self, number: int, text: str) -> bool:
        """Say whether the pattern with this number matches somewhere in a text."""
        pattern = self._compiled[number]
        if pattern is None:
            pattern = self._compiled[number] = re.compile(self.parts[number])
        return pattern.search(text) is not None


class Search:
    """Which patterns are found in one text; none is searched twice."""

    def __init__(self, patterns: Patterns, text: str) -> None:
        self.text = text
        self._patterns = patterns
        self._open = patterns.possible(text)
        self._found = 0

    def finds(self, bits: int) -> bool:
        """Say whether one of the patterns these bits stand for matches in the text."""
        if bits & self._found:
            return True
        while left := bits & self._open:
            bit = left & -left
            self._open ^= bit
            if self._patterns.matches(bit.bit_length() - 1, self.text):
                self._found |= bit
                return True
        return False

    def may_find(self, bits: int) -> bool:
        """Say whether the text has the words that one of these patterns needs; nothing is searched."""
        return bool(bits & (self._open | self._found))


# What a pattern needs, read from the pattern.

_BRACKET: Final = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<open>\()|(?P<close>\))|(?P<bar>\|)", re.DOTALL
)
_OPENING: Final = re.compile(r"\((?:\?(?:P<\w+>|:|<?[=!]))?")
_TOKEN: Final = re.compile(
    r"(?P<plain>(?:[^\\()\[\]|?*+{}.^$]|\\\W)+(?![?*+{])|[^\\()\[\]|?*+{}.^$]|\\\W)"
    r"|(?P<bar>\|)|(?P<edge>\\b|[\^$])"
    r"|(?P<class>\\[wWsSdD]|\.|\[\^?\]?(?:\\.|[^\]\\])*\])"
)
_REPEAT: Final = re.compile(r"[?*+]\??|\{\d*,?\d*\}\??")
_FEW_CHARACTERS: Final = re.compile(r"\[((?!\^)-?[^-\]\\]{1,5}-?)\]")
_MOST_SPELLINGS: Final = 48


class _Known(NamedTuple):
    """What is known of the texts that a part of a pattern matches.

    Attributes:
        spellings: all of them, where they are few; `_EDGE` stands where a word begins or ends.
        needs: sets of stems of which each has one in the text's words.
    """

    spellings: frozenset[str] | None
    needs: tuple[frozenset[str], ...] = ()


_NOTHING: Final = _Known(frozenset([""]))
_WORD_EDGE: Final = _Known(frozenset([_EDGE]))
_ANYTHING: Final = _Known(None)


class _Reader:
    """Reads what a pattern needs; what was read of groups is kept in `groups`, for the same ones return."""

    def __init__(self, pattern: str, groups: dict[str, _Known]) -> None:
        self._pattern = pattern
        self._groups = groups
        self._ends: dict[int, int] = {}
        self._bars: list[int] = []
        starts: list[int] = []
        for found in _BRACKET.finditer(pattern):
            if found["open"]:
                starts.append(found.start())
            elif found["close"]:
                self._ends[starts.pop()] = found.start()
            elif found["bar"] and not starts:
                self._bars.append(found.start())

    def alternatives(self) -> Iterator[tuple[str, Sequence[frozenset[str]]]]:
        """Yield the patterns between bars, each with its most telling needs."""
        starts = [0, *(bar + 1 for bar in self._bars)]
        for start, end in zip(starts, [*self._bars, len(self._pattern)], strict=True):
            yield self._pattern[start:end], _most_telling(self._read(start, end))

    def _read(self, start: int, end: int) -> _Known:
        text = self._pattern[start:end]
        if text not in self._groups:
            branches = [_Sequence()]
            while start < end:
                start, part = self._next(start, end)
                if part is None:
                    branches.append(_Sequence())
                else:
                    branches[-1].add(part)
            self._groups[text] = _any_of([branch.known() for branch in branches])
        return self._groups[text]

    def _next(self, start: int, end: int) -> tuple[int, _Known | None]:
        """Return where what stands next ends, and what is known of it; of a bar None."""
        if start in self._ends:
            part, after = self._group(start), self._ends[start] + 1
        else:
            token = _TOKEN.match(self._pattern, start, end)
            if token is None:
                raise ValueError(f"not understood in a pattern: {self._pattern[start:end]}")
            if token["bar"]:
                return token.end(), None
            part, after = _read_token(token), token.end()
        repeat = _REPEAT.match(self._pattern, after, end)
        return (repeat.end(), _repeated(part, repeat[0])) if repeat else (after, part)

    def _group(self, start: int) -> _Known:
        opening = _OPENING.match(self._pattern, start)
        after = opening.end() if opening else start
        if self._pattern[after - 1] == "!":
            return _NOTHING
        inner = self._read(after, self._ends[start])
        return _Known(_NOTHING.spellings, _needs(inner)) if self._pattern[after - 1] == "=" else inner


def _read_token(token: re.Match[str]) -> _Known:
    if token["plain"]:
        return _Known(frozenset([token["plain"].replace("\\", "")]))
    if token["edge"]:
        return _WORD_EDGE
    few = _FEW_CHARACTERS.fullmatch(token["class"])
    return _Known(frozenset(few[1])) if few else _ANYTHING


def _repeated(part: _Known, repeat: str) -> _Known:
    if repeat.startswith("?"):
        return _Known(part.spellings and part.spellings | {""})
    return _ANYTHING if repeat.startswith(("*", "{0", "{,")) else _Known(None, _needs(part))


class _Sequence:
    """Parts that stand one after the other: `_run` is what is known since something open was among them."""

    def __init__(self) -> None:
        self._run = frozenset([""])
        self._needs: list[frozenset[str]] = []
        self._is_open = False

    def add(self, part: _Known) -> None:
        self._needs += part.needs
        following = part.spellings or frozenset([""])
        most = max(_MOST_SPELLINGS, len(self._run), len(following))
        if part.spellings and len(self._run) * len(following) <= most:
            self._run = frozenset([begun + more for begun in self._run for more in following])
        else:
            self._needs += _stems(self._run)
            self._run = following
            self._is_open = True

    def known(self) -> _Known:
        if self._is_open:
            return _Known(None, (*self._needs, *_stems(self._run)))
        return _Known(self._run, tuple(self._needs))


def _any_of(branches: Sequence[_Known]) -> _Known:
    if len(branches) == 1:
        return branches[0]
    spellings = [branch.spellings for branch in branches if branch.spellings]
    if len(spellings) == len(branches):
        return _Known(frozenset().union(*spellings))
    needs = [_most_telling(branch) for branch in branches]
    if not all(needs):
        return _ANYTHING
    turns = (
        frozenset().union(*(sets[min(turn, len(sets) - 1)] for sets in needs)) for turn in range(_MAX_NEEDS)
    )
    return _Known(None, tuple(turns))


def _needs(known: _Known) -> tuple[frozenset[str], ...]:
    return (*known.needs, *_stems(known.spellings)) if known.spellings else known.needs


def _most_telling(known: _Known) -> Sequence[frozenset[str]]:
    """Return the sets with the longest words, and the fewest."""
    return sorted(set(_needs(known)), key=lambda stems: (-min(map(_weight, stems)), len(stems)))[:_MAX_NEEDS]


_MOST_WEIGHT: Final = 5


def _weight(stem: str) -> int:
    """Return how much a stem tells; a letter that is none of ours tells more."""
    return min(_MOST_WEIGHT, len(stem) if stem.isascii() else 2 * len(stem))


_LETTERS: Final = re.compile(r"\0?\w+\0?")
_BETWEEN: Final = re.compile(r"[^\w\0]+")


@lru_cache
def _words(spelling: str) -> Sequence[str]:
    """Return the words of a spelling, with their edges where it has them."""
    words = _LETTERS.findall(_BETWEEN.sub(_EDGE * 2, spelling))
    return [word[:_LONGEST_STEM] for word in words if _weight(word) > 1]


def _stems(spellings: frozenset[str]) -> list[frozenset[str]]:
    """Return sets of which each has one in the words of a text in which one of the spellings stands."""
    words = [_words(spelling) for spelling in spellings]
    if not all(words):
        return []
    common = set(words[0]).intersection(*words)
    return [*(frozenset([word]) for word in common), frozenset(max(some, key=len) for some in words)]
