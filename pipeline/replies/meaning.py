"""What a sentence means when no rule knows its wording: whom it is about and what it says of them.

The reply table knows the phrases of mail servers. Administrators write sentences of their own, in their own
language; for those every word that we know stands for a few meanings, and the meanings that meet in one
sentence are the conclusion: a mailbox and "gone" is a missing mailbox, whoever says it, in whatever order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import cache, lru_cache, reduce
from itertools import pairwise
from operator import or_
from typing import Final

from mailsift.pipeline.replies.languages import UNSPACED, fold
from mailsift.pipeline.replies.lexicon import PHRASES, PLAIN, WORDS, Word
from mailsift.pipeline.replies.patterns import AnyOf, Patterns, removal


class Meaning(StrEnum):
    """What a text says."""

    ABSENT = "absent"
    """There is no such mailbox."""
    CLOSED = "closed"
    """The mailbox takes no mail any more, or not at present."""
    AWHILE = "awhile"
    """What is said is so for some hours or days."""
    CLOSED_AND_MORE = "more"
    """The mailbox is closed, and what else the sentence says of that is in words we do not know."""
    FULL = "full"
    """The mailbox has no room left."""
    UNKNOWN_CLIENT = "stranger"
    """The server does not know us yet and wants to see us again."""
    DENIAL = "denial"
    """Something is missing or over, or it is denied that somebody is there, known or valid."""
    RATE_LIMIT = "hurry"
    """We, or all together, send or connect too much."""


_HOST_NAME: Final = r"[\w-]+\.[\w-]+\.[\w.-]*\w"
_LETTER: Final = r"(?:[^\W_]|[\u0900-\u0963])"  # Devanagari's vowel signs are none to Python
_MARK: Final = re.compile(rf"theaddress|{_HOST_NAME}|{_LETTER}+")
_SENTENCES: Final = re.compile(r"[.;!?\n](?=\s|$)|[。；！？]|(?<=\w) - |\s/\s")


@cache
def _words() -> tuple[dict[str, int], dict[str, int], int]:
    """Return what words stand for, what words that begin so do, and how long such beginnings are at most."""
    exact: dict[str, int] = {}
    prefixes: dict[str, int] = {}
    for meaning, words in WORDS.items():
        for word in fold(words).split():
            table, key = (prefixes, word[:-1]) if word.endswith("*") else (exact, word)
            table[key] = table.get(key, Word.NOTHING) | meaning
    return exact, prefixes, max(map(len, prefixes))


@cache
def _plain_words() -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the words that say nothing by themselves, and how more of them begin."""
    words = fold(PLAIN).split()
    beginnings = tuple(word[:-1] for word in words if word.endswith("*"))
    return frozenset(word for word in words if not word.endswith("*")), beginnings


@cache
def _phrases() -> tuple[Patterns, tuple[tuple[int, int], ...]]:
    """Return the patterns of phrases, and what stands for which of them there."""
    patterns = {
        meaning: AnyOf(*(rf"\b(?:{line.strip()})" for line in lines.strip().splitlines()))
        for meaning, lines in PHRASES.items()
    }
    searched = Patterns(patterns.values())
    return searched, tuple((meaning, searched.bits(pattern)) for meaning, pattern in patterns.items())


_SHORTEST_STEM: Final = 3


def _word_meaning(word: str) -> int:
    exact, prefixes, longest = _words()
    meaning = Word.ELSE if "." in word else exact.get(word, Word.NOTHING)
    for end in range(_SHORTEST_STEM, min(len(word), longest) + 1):
        meaning |= prefixes.get(word[:end], Word.NOTHING)
    return meaning


class _Sentence:
    """What the words of a sentence stand for.

    Attributes:
        all: what single words and phrases stand for, wherever they stand.
        phrases: what several words stand for together.
        words: what each stands for; nothing where it only tells where, or what the next word is about.
    """

    def __init__(self, sentence: str) -> None:
        words = [_word_meaning(word) for word in _MARK.findall(sentence)]
        self.phrases = _phrase_meaning(sentence)
        self.all = reduce(or_, words, self.phrases)
        self.words = _spoken_of(words)

    def is_signature(self) -> bool:
        """Say whether it is but "your" and a name that means nothing to us: "Ihre Stadtwerke Ulm"."""
        first, *names = self.words or [Word.NOTHING]
        return bool(first & Word.MINE) and 0 < len(names) <= _LONGEST_NAME and not any(names)


def _spoken_of(words: list[int]) -> list[int]:
    words = list(words)
    for number, word in enumerate(words):
        if word & Word.ELSE and any(near & Word.AT for near in words[max(0, number - 2) : number]):
            words[number] = Word.NOTHING
    for number, (word, following) in enumerate(pairwise(words)):
        if word & Word.BOX and following & Word.ELSE and not following & (Word.BOX | Word.THERE):
            words[number] = Word.NOTHING
    return words


def _phrase_meaning(sentence: str) -> int:
    patterns, meanings_of = _phrases()
    search = patterns.search(sentence)
    return reduce(or_, (meaning for meaning, bits in meanings_of if search.finds(bits)), Word.NOTHING)


_PREDICATES: Final = (
    # what is said, in one word; what is denied; of whom it may be said
    (Meaning.ABSENT, Word.GONE, Word.THERE, Word.BOX | Word.PERSON),
    (Meaning.ABSENT, Word.LEFT, Word.NOTHING, Word.PERSON),
    (Meaning.CLOSED, Word.CLOSED, Word.ACTIVE, Word.BOX),
)
_MAX_DISTANCE = 3
"""So many words may stand between "not" and what it denies, or between a thing and whose it is."""


def _is_asserted(words: list[int], asserting: int, denied: int, subject: int) -> bool:
    """Return whether a sentence says so of the subject in one word, or denies the contrary of it.

    The last word of a sentence denies whatever is said in it: "existiert auf unserem Server leider nicht".
    """
    for number, word in enumerate(words):
        if not word & (asserting | denied):
            continue
        asserted = asserting & word or _near(words, number) & Word.NOT
        if asserted and _is_about(words, number, subject):
            return True
    return False


def _near(words: Sequence[int], number: int) -> int:
    """Return what the words near one stand for, and the last one of the sentence."""
    before, after = words[max(0, number - _MAX_DISTANCE) : number], words[number + 1 : number + _MAX_DISTANCE]
    return _together([*before, *after, *words[-1:]])


def _together(words: Sequence[int]) -> int:
    return reduce(or_, words, Word.NOTHING)


def _is_about(words: Sequence[int], position: int, subject: int) -> bool:
    """Return whether what is said there is said of the subject, and nothing else stands nearer or before."""
    nouns = [
        (abs(number - position), not word & Word.ELSE, number)
        for number, word in enumerate(words)
        if number != position and word & (subject | Word.ELSE)
    ]
    if not nouns:
        return False
    _, is_subject, number = min(nouns)
    return is_subject and not any(word & Word.ELSE for word in words[:number])


def _is_full(words: int) -> bool:
    if words & Word.ELSE:
        return False
    if words & Word.FULL:
        return bool(words & (Word.BOX | Word.ROOM))
    used_up = words & (Word.SPENT | Word.NOT) and words & Word.ROOM
    return bool(used_up and words & Word.BOX and not words & Word.TRAFFIC)


def _passes(words: int) -> bool:
    return bool(words & Word.WHILE and words & Word.BOX) and not words & (Word.SINCE | Word.GONE)


_SHORTEST_UNREAD: Final = 3
_SEVERAL_CLAUSES: Final = re.compile(r"[.!?\n](?=\s|$)|[。！？]|\s/\s")
_WORD_OR_NAME: Final = re.compile(rf"{_LETTER}+(?:\.{_LETTER}+)*")
_WITHOUT_BLANKS: Final = re.compile(r"[\u0e00-\u0e7f\u1100-\u11ff\u3040-\u30ff\u4e00-\u9fff]")
_TWO_SIGNS: Final = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u4e00-\u9fff]{2}|[\u1100-\u11ff]{4}")
"""Of Korean, whose signs are taken apart for comparing, four letters."""


def _is_unread(word: str) -> bool:
    """Say whether we do not know what a word says: in scripts without blanks none is looked for."""
    plain, beginnings = _plain_words()
    return not (
        len(word) < _SHORTEST_UNREAD
        or word in plain
        or word.startswith(beginnings)
        or any(map(str.isdigit, word))
        or _word_meaning(word)
        or _WITHOUT_BLANKS.search(word)
    )


def _says_more(sentence: str) -> bool:
    """Say whether a mailbox is closed in a sentence with words that we do not know, but for its name."""
    words = _WORD_OR_NAME.findall(sentence)
    meant = [_word_meaning(word) for word in words]
    sense = reduce(or_, meant, _phrase_meaning(sentence))
    is_closed = sense & Word.BOX and (sense & Word.CLOSED or (sense & Word.NOT and sense & Word.ACTIVE))
    is_gone = sense & (Word.GONE | Word.LEFT | Word.NOBODY) or (sense & Word.NOT and sense & Word.THERE)
    if not is_closed or is_gone:
        return False
    unread = [number for number, word in enumerate(words) if _is_unread(word)]
    return any(number + 1 in unread or not _may_be_a_name(meant, number) for number in unread)


@cache
def _unspaced() -> tuple[tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]], ...]:
    """Return of each language without blanks what is closed in it, what is missing, and all that is known."""
    return tuple(
        (
            re.compile(language.closed),
            re.compile(rf"{language.absent}|{language.no}"),
            re.compile(rf"{language.box}|{language.closed}|{language.plain}"),
        )
        for language in UNSPACED
    )


def _says_more_unspaced(sentence: str) -> bool:
    """Say whether a mailbox is closed in a sentence without blanks of which we do not know every sign."""
    return bool(_WITHOUT_BLANKS.search(sentence)) and any(
        closed.search(sentence)
        and not absent.search(sentence)
        and _TWO_SIGNS.search(known.sub(" ", sentence))
        for closed, absent, known in _unspaced()
    )


def _may_be_a_name(meant: Sequence[int], number: int) -> bool:
    """Say whether a word stands before or after one for a mailbox, as its name does."""
    beside = (*meant[max(0, number - 1) : number], *meant[number + 1 : number + 2])
    return any(word & Word.BOX for word in beside)


def _meanings(sentence: _Sentence) -> Iterator[Meaning]:
    phrases = sentence.phrases
    all_words = reduce(or_, sentence.words, phrases)
    if _is_full(all_words):
        yield Meaning.FULL
    if _passes(all_words):
        yield Meaning.AWHILE
    for meaning, asserting, denied, subject in _PREDICATES:
        if meaning is Meaning.ABSENT and phrases & Word.NOBODY and not all_words & Word.ELSE:
            yield meaning
        in_a_phrase = asserting & phrases and subject & all_words and not all_words & Word.ELSE
        if in_a_phrase or _is_asserted(sentence.words, asserting, denied, subject):
            yield meaning
    if phrases & Word.STRANGE or (all_words & Word.STRANGE and all_words & Word.AGAIN):
        yield Meaning.UNKNOWN_CLIENT
    if all_words & Word.MUCH and all_words & Word.TRAFFIC:
        yield Meaning.RATE_LIMIT


_A_CUSTOMER: Final = re.compile(r"\b(ce|du|le|notre|un|cet|aucun|au) client\b")
"""French for somebody who has a mailbox; elsewhere the word is for what connects to a server."""

_without_asides: Final = removal(
    # What is given up, or over, is the sending to an address: "die Zustellung an … wurde eingestellt".
    r"\b(?:deliver|attempt|retr(?:y|ies)|sending|transfer|transmission|zustell|versand|versuch|frist|zeit\b|tempo\b|remise"
    r"|distribution|envoi|livraison|tentativ|delai|entrega|envio|plazo|prazo|intento|invio|consegna|recapito"
    r"|verzending|bezorging|aflevering|levering|poging|wysylk|dostarcz|prob[ay]?\b|doruc|pokus|odesilan|sandning"
    r"|leverans|forsok|forsog|gonderim|deneme|kezbesit|отправк|доставк|попытк|срок)\w*"
    r"(?: [^\W\d]{1,8})?(?: [^\W\d]{1,5}) theaddress\b",
    # What is returned to us says nothing of us.
    r"\b(?:votre|ihre|uw|vase?|vasi|ваше) (?:message|courriel|e-?mail|nachricht|bericht|zprav\w"
    r"|сообщение|письмо)\b",
    # Which address is meant, and whence a mailbox was taken, is not what is missing.
    r"\b(?:that |which )?you(?:ve| have)? (?:used|use|tried|typed|entered|gave|given)\b",
    r"\bfrom (?:our|this|the) (?:\w+ )?(?:systems?|servers?|database|domain)\b",
)

_DENIED_UNSPACED: Final = AnyOf(
    *(language.absent for language in UNSPACED),
    *(rf"{language.no} ?{language.box}" for language in UNSPACED),
    *(language.closed for language in UNSPACED),
    fold(r"削除|退職|删除|離職|离职|삭제|퇴사|(?<!수)(?<!수 )없|(?<![てで])(?:おりません|いません)"),
)
_CONTRAST: Final = re.compile(
    r",? \b(?:but|however|although|aber|jedoch|mais|pero|sino|maar|ale|lecz|men|но|але)\b"
)
_SOMEBODY: Final = Word.BOX | Word.PERSON
_OVER: Final = Word.GONE | Word.LEFT | Word.NOBODY


@cache
def _denied_unspaced() -> re.Pattern[str]:
    return re.compile(_DENIED_UNSPACED)


def _denies(sentences: Sequence[_Sentence], text: str) -> bool:
    """Say whether something is missing or over, or somebody denied; "does not accept HTML" denies nobody."""
    clauses = sentences
    if _CONTRAST.search(text):  # "exists but does not": two things are said
        clauses = [_Sentence(clause) for part in _SENTENCES.split(text) for clause in _CONTRAST.split(part)]
    return any(map(_denies_somebody, clauses)) or bool(_denied_unspaced().search(text))


def _denies_somebody(clause: _Sentence) -> bool:
    if clause.all & _OVER:
        return True
    words = clause.words
    spoken_of = _together(words)
    is_of_somebody = bool(spoken_of & _SOMEBODY)
    if clause.phrases & Word.NO and is_of_somebody and not spoken_of & Word.ELSE:
        return True
    denied = Word.NOT | Word.NO
    if any(word & Word.THERE and _near(words, number) & denied for number, word in enumerate(words)):
        return True
    denials = [number for number, word in enumerate(words) if word & denied]
    return any(
        _together(words[number + 1 : number + 2]) & Word.AT
        or (words[number] & Word.NO and _together(words[number + 1 : number + _MAX_DISTANCE]) & _SOMEBODY)
        for number in denials
    ) or (is_of_somebody and bool(words[-1] & Word.NO))


_LONGEST_NAME: Final = 3
_ABOUT_THE_BOX: Final = frozenset({Meaning.ABSENT, Meaning.CLOSED})
_NOT_FOR_GOOD: Final = frozenset({Meaning.AWHILE, Meaning.CLOSED_AND_MORE})


@lru_cache(maxsize=256)
def meanings(text: str) -> frozenset[Meaning]:
    """Return what the sentences of a simplified text mean, as far as their words are known.

    A text that speaks of us, in whatever sentence, says nothing about the mailbox.
    """
    text = _without_asides(_A_CUSTOMER.sub(r"\1 abonne", text.replace("the-address", "theaddress")))
    sentences = [_Sentence(sentence) for sentence in _SENTENCES.split(text)]
    spoken = [sentence for sentence in sentences if not sentence.is_signature()]
    found = frozenset(meaning for sentence in spoken for meaning in _meanings(sentence))
    speaks_of_us = any(sentence.all & Word.MINE for sentence in spoken)
    clauses = _SEVERAL_CLAUSES.split(text)
    if any(map(_says_more, clauses)) or any(map(_says_more_unspaced, clauses)):
        found |= {Meaning.CLOSED_AND_MORE}
    is_closed = any(sentence.all & Word.CLOSED for sentence in sentences)
    if found & _NOT_FOR_GOOD:
        found -= {Meaning.CLOSED}
        is_closed = False
    if is_closed or _denies(sentences, text):
        found |= {Meaning.DENIAL}
    return found - _ABOUT_THE_BOX if speaks_of_us else found
