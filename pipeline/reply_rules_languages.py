"""Reply rows about the mailbox in other languages than English; accents are folded before they are read."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline import reply_words as words
from pipeline.facts import Answer
from pipeline.reply_row import RCPT, Row


@dataclass(frozen=True, slots=True)
class _Language:
    """How a language speaks of a mailbox; every attribute but the name is a pattern.

    Attributes:
        name: for people.
        box: nouns for the mailbox or its owner.
        absent: what is said after the noun of one that does not exist.
        no: what stands before the noun of one that does not exist.
        closed: what is said of one that takes no mail.
        full: what is said of one that is full.
    """

    name: str
    box: str
    absent: str
    no: str
    closed: str
    full: str


_GERMAN = _Language(
    "German",
    box=(
        r"(?:empf(?:ae|a)nger(?:s|in|-?adresse|-?postfach|konto)?|(?:be)?nutzer(?:s|in|name|konto)?|anwender"
        r"|teilnehmer|postfach(?:e?s)?|konto|kennung|adressat|(?:e-?)?(?:mail-?)?adresse|kunde)"
    ),
    absent=(
        r"(?:existier(?:t|en)(?: \S+){0,3}? nicht|unbekannt|ungue?ltig|gibt es(?: \S+){0,2}? nicht"
        r"|nicht (?:\w+ ){0,3}?(?:gefunden|ermittelt|bekannt|vorhanden|existent|gue?ltig|registriert|eingerichtet))"
    ),
    no=r"(?:(?:unbekannt|ungue?ltig|nicht existierend|nicht vorhanden)e[rsn]?|kein(?:e|en)?(?: (?:solche|gue?ltige)[rsn]?)?)",
    closed=(
        r"(?:gesperrt|deaktiviert|stillgelegt|gelo(?:e)?scht|abgeschaltet|geschlossen|archiviert|abgelaufen"
        r"|inaktiv|nicht (?:mehr )?aktiv)"
    ),
    full=r"(?:voll|uberfullt|ueberfuellt)",
)
_FRENCH = _Language(
    "French",
    box=(
        r"(?:utilisateur|usager|destinataire|abonne|client|compte|boite(?: aux lettres| mail| de reception)?"
        r"|adresse(?: e-?mail| electronique| de messagerie)?)"
    ),
    absent=(
        r"(?:inconnue?|inexistante?|invalide|introuvable|incorrecte?|erronee?|n ?existe (?:pas|plus)"
        r"|(?:n ?est )?(?:pas|plus|non) (?:\w+ ){0,2}?(?:valide|connue?|reconnue?|repertoriee?|trouvee?)"
        r"|pas (?:pu )?etre trouvee?)"
    ),
    no=r"(?:aucune?(?: telle?)?|pas d(?:e|u)?|n ?existe pas d(?:e|u)?)",
    closed=r"(?:desactivee?|suspendue?|fermee?|bloquee?|inactive?|archivee?|supprimee?|cloturee?|resiliee?|expiree?)",
    full=r"(?:pleine?|saturee?)",
)
_IBERIAN = _Language(
    "Spanish or Portuguese",
    box=(
        r"(?:usuari[oa]|utilizador|destinatari[oa]|direccion(?: de correo)?|endereco(?: de e-?mail)?"
        r"|buzon(?: de correo)?|caixa (?:postal|de correio|de entrada)|casilla|cuenta(?: de correo)?|conta(?: de e-?mail)?)"
    ),
    absent=(
        r"(?:desconocid[oa]|desconhecid[oa]|inexistente|invalid[oa]|incorrect[oa]|incorret[oa]|inencontrable"
        r"|n[oa]o? existe|n[oa]o? (?:(?:es|esta|fue|e|foi|ha sido|pudo ser|pode ser) )?"
        r"(?:valid|encontrad|localizad|reconocid|reconhecid|registrad|cadastrad)[oa])"
    ),
    no=(
        r"(?:ningun[oa]?|nenhum[oa]?|n[oa]o? (?:existe|hay|ha|se (?:ha )?encontr(?:o|ado)|se encuentra"
        r"|foi (?:possivel )?encontra(?:do|da|r)|encontramos)(?: (?:el|la|o|a|ese|esa|este|esta|un|una|um|uma|ningun|ninguna))?)"
    ),
    closed=(
        r"(?:(?:(?:des|in)?h?abilitad|desativad|desactivad|suspens|suspendid|bloquead|inativ|inactiv"
        r"|cancelad|cerrad|encerrad|eliminad|excluid|archivad|arquivad|expirad)[oa])"
    ),
    full=r"(?:llen[oa]|chei[oa])",
)
_ITALIAN = _Language(
    "Italian",
    box=(
        r"(?:utente|destinatario|casella(?: di posta| postale| e-?mail)?"
        r"|indirizzo(?: di posta| e-?mail)?|utenza)"
    ),
    absent=(
        r"(?:sconosciut[oa]|inesistente|errat[oa]|non (?:e )?(?:piu )?(?:stat[oa] )?"
        r"(?:esiste|esistente|valid[oa]|trovat[oa]|presente|riconosciut[oa]|registrat[oa]))"
    ),
    no=r"(?:nessun[oa]?|non (?:esiste|ce|risulta|e stat[oa] trovat[oa])(?: (?:l|la|il|lo|un|una|alcun|alcuna|nessun|nessuna))?)",
    closed=r"(?:disabilitat[oa]|disattivat[oa]|sospes[oa]|bloccat[oa]|chius[oa]|cessat[oa]|scadut[oa]|eliminat[oa]|inattiv[oa]|non (?:piu )?attiv[oa])",
    full=r"pien[oa]",
)
_DUTCH = _Language(
    "Dutch",
    box=r"(?:gebruiker|ontvanger|geadresseerde|postbus|postvak|(?:e-?)?(?:mail-?)?adres)",
    absent=(
        r"(?:onbekend|ongeldig|onjuist|bestaat(?: \S+){0,3}? niet"
        r"|niet (?:\w+ ){0,3}?(?:gevonden|bekend|geldig|herkend|aanwezig|geregistreerd))"
    ),
    no=r"(?:onbekende?|ongeldige?|niet[ -]bestaande?|geen(?: (?:geldige?|dergelijke?|zo ?n))?)",
    closed=(
        r"(?:niet (?:meer )?actief|inactief|uitgeschakeld|geblokkeerd|gedeactiveerd|opgeheven|gesloten"
        r"|afgesloten|opgeschort|verlopen|verwijderd)"
    ),
    full=r"vol",
)
_EVERYWHERE = r"(?:mailbox|account|alias)"
"""English nouns that every language borrows."""

_LANGUAGES = (_GERMAN, _FRENCH, _IBERIAN, _ITALIAN, _DUTCH)

_SAID = r"(?:[^.;:!?]|\.(?! )){0,60}?\b"
"""What may stand between a noun and what the same sentence says of it."""

_STORAGE_USED_UP = (
    r"\b(?:speicher(?:platz)?|espace|stockage|espacio|espaco|armazenamento|spazio|opslagruimte)\b"
    r"(?: \S+){0,6} (?:erschopft|aufgebraucht|belegt|insuffisant|depasse|epuise|agotado|esgotado|insu?ff?iciente|esaurito|vol)\b"
)
_STATE = (
    r"(?:,? (?:the-address|ist|sind|wurde|est|a|ete|es|esta|e|foi|ha|sido|du|de|del|della|des|do|da|dell"
    r"|utilisateur|usuario|destinatario|destinataire|empfangers|utente|stat[oa]|is|werd|al|el|o))"
)
"""A verb between a noun and its state, or whose mailbox it is."""

_ELSE = (
    r"(?:dominio|domaine?|domein|hostname|rechnername|nom d hote|(?:\w*-)?domane|dns\S*|mx\S*|empf(?:ae|a)nger-?doma?a?i?ne?"
    r"|name ?server)"
)
_NOT_A_BOX = rf"\b{_ELSE}(?: (?!de|des|du|del|do|da)\S+)?,? {words.any_of(*(said.absent for said in _LANGUAGES))}\b"
"""Says that something else than a mailbox is not there."""

_HOST_NAME = r"\bhost ?name|\brechnername|\bnom d hote|\bnombre de(?:l)? (?:host|equipo|servidor)|\bnome (?:\w+ )?host|\bdns\b"
"""Speaks of the name of a computer, whatever it says of an address."""


def _box(language: _Language) -> str:
    return words.any_of(language.box, _EVERYWHERE)


def _not_found(language: _Language) -> Row:
    return Row(
        f"no-such-mailbox-{language.name.split()[0].lower()}",
        Answer.NOT_FOUND,
        f"The reply says in {language.name} that the mailbox does not exist.",
        codes=("5",),
        text=rf"\b{_box(language)}\b{_SAID}{language.absent}\b|\b{language.no} {_box(language)}\b",
        unless=words.any_of(words.RULE, _NOT_A_BOX, _HOST_NAME),
        stages=RCPT,
    )


FULL = (
    Row(
        "full-languages",
        Answer.FULL,
        "The reply says in German, French, Spanish, Portuguese, Italian or Dutch that the mailbox is full.",
        codes=("4", "5"),
        text=words.any_of(
            *(rf"\b{_box(said)}{_STATE}{{0,4}} {said.full}\b" for said in _LANGUAGES), _STORAGE_USED_UP
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
        text=words.any_of(*(rf"\b{_box(said)}{_STATE}{{0,4}} {said.closed}\b" for said in _LANGUAGES)),
        stages=RCPT,
    ),
    Row(
        "disabled-code-languages",
        Answer.DISABLED,
        "RFC 3463 X.2.1, and the same sentence says of the mailbox that it is closed.",
        codes=("5",),
        enhanced=r"2\.1",
        text=words.any_of(*(rf"\b{_box(said)}\b{_SAID}{said.closed}\b" for said in _LANGUAGES)),
        unless=words.RULE,
        stages=RCPT,
    ),
)

NOT_FOUND = (
    *(_not_found(language) for language in _LANGUAGES),
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
