"""What a sentence means when no rule knows its wording: whom it is about and what it says of them.

The reply table knows the phrases of mail servers. Administrators write sentences of their own, in their own
language; for those every word that we know stands for a few meanings, and the meanings that meet in one
sentence are the conclusion: a mailbox and "gone" is a missing mailbox, whoever says it, in whatever order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from functools import lru_cache, reduce
from itertools import pairwise
from operator import or_
from typing import Final

from mailsift.pipeline.replies.languages import fold
from mailsift.pipeline.replies.lexicon import PHRASES, WORDS, Word


class Meaning(StrEnum):
    """What a text says."""

    ABSENT = "absent"
    """There is no such mailbox."""
    CLOSED = "closed"
    """The mailbox takes no mail any more, or not at present."""
    FULL = "full"
    """The mailbox has no room left."""
    UNKNOWN_CLIENT = "stranger"
    """The server does not know us yet and wants to see us again."""
    RATE_LIMIT = "hurry"
    """We, or all together, send or connect too much."""


_HOST_NAME: Final = r"[\w-]+\.[\w-]+\.[\w.-]*\w"
_MARK: Final = re.compile(rf"theaddress|{_HOST_NAME}|[^\W_]+")
_SENTENCES: Final = re.compile(r"[.;!?\n](?=\s|$)|[。；！？]|(?<=\w) - |\s/\s")


def _word_tables() -> tuple[dict[str, Word], dict[str, Word]]:
    exact: dict[str, Word] = {}
    prefixes: dict[str, Word] = {}
    for meaning, words in WORDS.items():
        for word in fold(words).split():
            table, key = (prefixes, word[:-1]) if word.endswith("*") else (exact, word)
            table[key] = table.get(key, Word.NOTHING) | meaning
    return exact, prefixes


@lru_cache(maxsize=1)
def _lexicon() -> tuple[dict[str, Word], dict[str, Word], dict[Word, re.Pattern[str]]]:
    phrases = {
        meaning: re.compile(rf"\b(?:{'|'.join(map(str.strip, patterns.strip().splitlines()))})")
        for meaning, patterns in PHRASES.items()
    }
    return (*_word_tables(), phrases)


_SHORTEST_STEM = 3


def _word_meaning(word: str) -> Word:
    exact, prefixes, _ = _lexicon()
    meaning = Word.ELSE if "." in word else exact.get(word, Word.NOTHING)
    stems = (word[:end] for end in range(_SHORTEST_STEM, len(word) + 1))
    return reduce(or_, (prefixes[stem] for stem in stems if stem in prefixes), meaning)


def _word_meanings(sentence: str) -> list[Word]:
    """Return what the words of a sentence stand for; "recipient domain" speaks of the domain."""
    words = [_word_meaning(word) for word in _MARK.findall(sentence)]
    for number, word in enumerate(words):
        if Word.ELSE in word and any(Word.AT in near for near in words[max(0, number - 2) : number]):
            words[number] = Word.NOTHING
    for number, (word, following) in enumerate(pairwise(words)):
        if Word.BOX in word and Word.ELSE in following and not following & (Word.BOX | Word.THERE):
            words[number] = Word.NOTHING
    return words


_PREDICATES: Final = (
    # what is said, in one word; what is denied; of whom it may be said
    (Meaning.ABSENT, Word.GONE, Word.THERE, Word.BOX | Word.PERSON),
    (Meaning.ABSENT, Word.LEFT, Word.NOTHING, Word.PERSON),
    (Meaning.CLOSED, Word.CLOSED, Word.ACTIVE, Word.BOX),
)
_MAX_DISTANCE = 3
"""So many words may stand between "not" and what it denies, or between a thing and whose it is."""


def _is_asserted(words: list[Word], asserting: Word, denied: Word, subject: Word) -> bool:
    """Return whether a sentence says so of the subject in one word, or denies the contrary of it.

    The last word of a sentence denies whatever is said in it: "existiert auf unserem Server leider nicht".
    """
    for number, word in enumerate(words):
        near = (
            words[max(0, number - _MAX_DISTANCE) : number]
            + words[number + 1 : number + _MAX_DISTANCE]
            + words[-1:]
        )
        asserted = asserting & word or (denied & word and any(Word.NOT in other for other in near))
        if asserted and _is_about(words, number, subject):
            return True
    return False


def _is_about(words: Sequence[Word], position: int, subject: Word) -> bool:
    """Return whether what is said there is said of the subject, and nothing else stands nearer or before."""
    nouns = [
        (abs(number - position), not word & Word.ELSE, number)
        for number, word in enumerate(words)
        if number != position and word & (subject | Word.ELSE)
    ]
    if not nouns:
        return False
    _, is_subject, number = min(nouns)
    return is_subject and not any(Word.ELSE in word for word in words[:number])


def _is_full(words: Word) -> bool:
    if Word.ELSE in words:
        return False
    if Word.FULL in words:
        return bool(words & (Word.BOX | Word.ROOM))
    used_up = words & (Word.SPENT | Word.NOT) and Word.ROOM in words
    return bool(used_up and Word.BOX in words and Word.TRAFFIC not in words)


def _meanings(sentence: str) -> Iterator[Meaning]:
    words, phrases_found = _word_meanings(sentence), _phrase_meaning(sentence)
    all_words = reduce(or_, words, phrases_found)
    if _is_full(all_words):
        yield Meaning.FULL
    for meaning, asserting, denied, subject in _PREDICATES:
        if meaning is Meaning.ABSENT and Word.NOBODY in phrases_found and Word.ELSE not in all_words:
            yield meaning
        in_a_phrase = asserting & phrases_found and subject & all_words and Word.ELSE not in all_words
        if in_a_phrase or _is_asserted(words, asserting, denied, subject):
            yield meaning
    if Word.STRANGE in phrases_found or (Word.STRANGE in all_words and Word.AGAIN in all_words):
        yield Meaning.UNKNOWN_CLIENT
    if Word.MUCH in all_words and Word.TRAFFIC in all_words:
        yield Meaning.RATE_LIMIT


def _phrase_meaning(sentence: str) -> Word:
    """Return what several words stand for together."""
    found = (meaning for meaning, patterns in _lexicon()[2].items() if patterns.search(sentence))
    return reduce(or_, found, Word.NOTHING)


_A_CUSTOMER: Final = re.compile(r"\b(ce|du|le|notre|un|cet|aucun|au) client\b")
"""French for somebody who has a mailbox; elsewhere the word is for what connects to a server."""

_OUR_MESSAGE: Final = re.compile(
    r"\b(?:votre|ihre|uw|vase?|vasi|ваше) (?:message|courriel|e-?mail|nachricht|bericht|zprav\w"
    r"|сообщение|письмо)\b"
)
"""What is returned to us says nothing of us."""

_YOU_USED: Final = re.compile(
    r"\b(?:that |which )?you(?:ve| have)? (?:used|use|tried|typed|entered|gave|given)\b"
)
"""Tells only which address is meant."""

_FROM_OURS: Final = re.compile(r"\bfrom (?:our|this|the) (?:\w+ )?(?:systems?|servers?|database|domain)\b")
"""Whence a mailbox was taken is not what is missing."""

_WHERE_IT_GOES: Final = re.compile(
    r"\b(?:deliver|attempt|retr(?:y|ies)|sending|transfer|transmission|zustell|versand|versuch|frist|zeit\b|tempo\b|remise"
    r"|distribution|envoi|livraison|tentativ|delai|entrega|envio|plazo|prazo|intento|invio|consegna|recapito"
    r"|verzending|bezorging|aflevering|levering|poging|wysylk|dostarcz|prob[ay]?\b|doruc|pokus|odesilan|sandning"
    r"|leverans|forsok|forsog|gonderim|deneme|kezbesit|отправк|доставк|попытк|срок)\w*"
    r"(?: [^\W\d]{1,8})?(?: [^\W\d]{1,5}) theaddress\b"
)
"""What is given up, or over, is the sending to an address: "die Zustellung an … wurde eingestellt"."""

_LONGEST_NAME: Final = 3
_ABOUT_THE_BOX: Final = frozenset({Meaning.ABSENT, Meaning.CLOSED})


@lru_cache(maxsize=256)
def meanings(text: str) -> frozenset[Meaning]:
    """Return what the sentences of a simplified text mean, as far as their words are known.

    A text that speaks of us, in whatever sentence, says nothing about the mailbox.
    """
    text = _A_CUSTOMER.sub(r"\1 abonne", text.replace("the-address", "theaddress"))
    text = _WHERE_IT_GOES.sub("", text)
    text = _FROM_OURS.sub("", _YOU_USED.sub("", _OUR_MESSAGE.sub("", text)))
    sentences = [sentence for sentence in _SENTENCES.split(text) if not _is_signature(sentence)]
    found = frozenset(meaning for sentence in sentences for meaning in _meanings(sentence))
    all_words = reduce(or_, map(_all_word_meanings, sentences), Word.NOTHING)
    return found - _ABOUT_THE_BOX if Word.MINE in all_words else found


def _is_signature(sentence: str) -> bool:
    """Say whether a sentence is but "your" and a name that means nothing to us: "Ihre Stadtwerke Ulm"."""
    first, *names = _word_meanings(sentence) or [Word.NOTHING]
    return Word.MINE in first and 0 < len(names) <= _LONGEST_NAME and not any(names)


def _all_word_meanings(text: str) -> Word:
    return reduce(or_, map(_word_meaning, _MARK.findall(text)), _phrase_meaning(text))
