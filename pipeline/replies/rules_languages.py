"""Reply rows about the mailbox in other languages than English; accents are folded before they are read."""

from __future__ import annotations

from pipeline.facts import Answer
from pipeline.replies import languages, words
from pipeline.replies.languages import LANGUAGES, Language
from pipeline.replies.row import RCPT, Row

_SAID = r"(?:[^.;:!?]|\.(?! )){0,60}?\b"
"""What may stand between a noun and what the same sentence says of it."""

_STATE = (
    r"(?:,? (?:the-address|ist|sind|wurde|est|a|ete|es|esta|e|foi|ha|sido|du|de|del|della|des|do|da|dell"
    r"|utilisateur|usuario|destinatario|destinataire|empfangers|utente|stat[oa]|is|werd|al|el|o))"
)
"""A verb between a noun and its state, or whose mailbox it is."""

_BECAUSE = r"(?:wegen|aufgrund|pour|por|per|vanwege|wegens|durch|par|da|door|von|vom)"

_ELSE = (
    r"(?:dominio|domaine?|domein|hostname|rechnername|nom d hote|(?:\w*-)?domane|dns\S*|mx\S*"
    r"|empf(?:ae|a)nger-?doma?a?i?ne?|name ?server)"
)
_ALL_ABSENT = words.any_of(*(said.absent for said in LANGUAGES))

_NOT_THE_BOX = words.any_of(
    rf"\b{_ELSE}(?: (?!de|des|du|del|do|da)\S+)?,? {_ALL_ABSENT}\b",
    r"\bhost ?name|\brechnername|\bnom d hote|\bnombre del? (?:host|equipo|servidor)",
    r"\bnome (?:\w+ )?host|\bdns\b",
    languages.YOURS,
    words.RULE,
)
"""Says that something else is not there, or speaks of what is ours or allowed."""

_STORAGE_USED_UP = (
    r"\b(?:speicher(?:platz)?|espace|stockage|espacio|espaco|armazenamento|spazio|opslagruimte)\b"
    r"(?: \S+){0,6} (?:erschopft|aufgebraucht|belegt|insuffisant|depasse|epuise|agotado|esgotado"
    r"|insu?ff?iciente|esaurito|vol)\b"
)


def _box(said: Language) -> str:
    return words.any_of(said.box, languages.BORROWED)


def _closed(said: Language) -> str:
    return words.any_of(
        rf"\b{_box(said)}{_STATE}{{0,4}} {said.closed}\b",
        rf"\b(?!{languages.ADDRESS}){_box(said)}{_STATE}{{0,4}} {said.blocked}\b(?! {_BECAUSE}\b)",
    )


def _not_found(said: Language) -> Row:
    return Row(
        f"no-such-mailbox-{said.name.split()[0].lower()}",
        Answer.NOT_FOUND,
        f"The reply says in {said.name} that the mailbox does not exist.",
        codes=("5",),
        enhanced=words.NO_POLICY_CODE,
        text=rf"\b{_box(said)}\b{_SAID}{said.absent}\b|\b{said.no} {_box(said)}\b",
        unless=_NOT_THE_BOX,
        stages=RCPT,
    )


FULL = (
    Row(
        "full-languages",
        Answer.FULL,
        "The reply says in German, French, Spanish, Portuguese, Italian or Dutch that the mailbox is full.",
        codes=("4", "5"),
        text=words.any_of(
            *(rf"\b{_box(said)}{_STATE}{{0,4}} {said.full}\b" for said in LANGUAGES), _STORAGE_USED_UP
        ),
        stages=RCPT,
    ),
)

DISABLED = (
    Row(
        "disabled-languages",
        Answer.DISABLED,
        "The reply says in German, French, Spanish, Portuguese, Italian or Dutch that the mailbox is closed.",
        codes=("5",),
        enhanced=words.NO_POLICY_CODE,
        text=words.any_of(*map(_closed, LANGUAGES)),
        unless=_NOT_THE_BOX,
        stages=RCPT,
    ),
    Row(
        "disabled-code-languages",
        Answer.DISABLED,
        "RFC 3463 X.2.1, and the same sentence says of the mailbox that it is closed.",
        codes=("5",),
        enhanced=r"2\.1",
        text=words.any_of(*(rf"\b{_box(said)}\b{_SAID}{said.closed}\b" for said in LANGUAGES)),
        unless=_NOT_THE_BOX,
        stages=RCPT,
    ),
)

NOT_FOUND = (
    *map(_not_found, LANGUAGES),
    Row(
        "no-such-mailbox-russian",
        Answer.NOT_FOUND,
        "The reply says in Russian that the mailbox does not exist.",
        codes=("5",),
        text=(
            r"\bnet takogo (?:polzovatel|adres|yaschik)|\bpolzovatel \S+ ne nai?jden"
            r"|пользователь(?: \S+)? не (?:наиден|существует|найден)"
            r"|нет такого (?:пользователя|адреса|ящика)"
        ),
        stages=RCPT,
    ),
)
