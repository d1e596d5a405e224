"""Reply rows about the mailbox in other languages than English; accents are folded before they are read."""

from __future__ import annotations

from pipeline.facts import Answer
from pipeline.reply_row import RCPT, Row

_GERMAN = r"(?:empf(?:ae|a)nger\w*|benutzer|nutzer|postfach|konto|adresse|teilnehmer|mailadresse)"
_FRENCH = r"(?:utilisateur|destinataire|adresse|boite(?: aux lettres)?|compte)"
_IBERIAN = (
    r"(?:usuario|utilizador|destinatario|direccion(?: de correo)?|endereco|buzon|caixa postal|cuenta|conta)"
)
_ITALIAN = r"(?:utente|destinatario|casella(?: di posta)?|indirizzo|account)"
_DUTCH = r"(?:gebruiker|ontvanger|mailbox|postbus|adres|account)"


def _not_found(language: str, text: str) -> Row:
    return Row(
        f"no-such-mailbox-{language.lower()}",
        Answer.NOT_FOUND,
        f"The reply says in {language} that the mailbox does not exist.",
        codes=("5",),
        text=text,
        stages=RCPT,
    )


FULL = (
    Row(
        "full-languages",
        Answer.FULL,
        "The reply says in German, French, Spanish, Portuguese, Italian or Dutch that the mailbox is full.",
        codes=("4", "5"),
        text=(
            rf"\b{_GERMAN} (?:ist )?(?:voll|uberfullt|ueberfuellt)\b"
            rf"|\b{_FRENCH}(?: est)? (?:pleine?|saturee?)\b"
            rf"|\b{_IBERIAN}(?: esta)? (?:llen[oa]|chei[oa])\b"
            rf"|\b{_ITALIAN}(?: e)? pien[oa]\b"
            rf"|\b{_DUTCH}(?: is)? vol\b"
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
        text=(
            rf"\b{_GERMAN} (?:ist |wurde )?(?:gesperrt|deaktiviert|stillgelegt|geloe?scht|abgeschaltet)\b"
            rf"|\b{_FRENCH}(?: est| a ete)? (?:desactivee?|suspendue?|fermee?|bloquee?|inactive?)\b"
            rf"|\b{_IBERIAN}(?: esta| foi| ha sido)? (?:(?:des|in)?(?:h?abilitad"
            r"|ativad|activad)|suspens|suspendid|bloquead|inativ|inactiv)[oa]\b"
            rf"|\b{_ITALIAN}(?: e| e stat[oa])? (?:disabilitat|disattivat|sospes|bloccat)[oa]\b"
            rf"|\b{_DUTCH}(?: is)? (?:niet actief|inactief|uitgeschakeld|geblokkeerd|gedeactiveerd)\b"
        ),
        stages=RCPT,
    ),
)

NOT_FOUND = (
    _not_found(
        "German",
        rf"\b{_GERMAN}(?: \S+)? (?:ist )?(?:existiert nicht|unbekannt|ungue?ltig)\b"
        rf"|\b{_GERMAN}(?: \S+)? (?:ist |wurde )?nicht (?:gefunden|bekannt|vorhanden)\b"
        rf"|\b(?:unbekannter?|ungue?ltiger?|kein(?:e|en)?) {_GERMAN}\b",
    ),
    _not_found(
        "French",
        rf"\b{_FRENCH}(?: \S+)? (?:est )?(?:inconnue?|inexistante?|invalide|introuvable|nexiste pas)\b"
        rf"|\baucune? {_FRENCH}\b"
        rf"|\b{_FRENCH} (?:\w+ ){{0,4}}(?:inconnue?|inexistante?|invalide)\b",
    ),
    _not_found(
        "Iberian",
        rf"\b{_IBERIAN}(?: \S+)? (?:es )?(?:desco(?:no|nhe)cid[oa]|inexistente|invalid[oa])\b"
        rf"|\b{_IBERIAN}(?: \S+)? (?:es )?n[oa]o? (?:existe|valid[oa]|encontrad[oa])\b",
    ),
    _not_found(
        "Italian",
        rf"\b{_ITALIAN}(?: \S+)? (?:e )?(?:sconosciut[oa]|inesistente|non (?:esiste|valid[oa]|trovat[oa]))\b",
    ),
    _not_found(
        "Dutch",
        rf"\b{_DUTCH}(?: \S+)? (?:is )?(?:onbekend|ongeldig|bestaat niet|niet (?:gevonden|bekend))\b"
        rf"|\b(?:onbekende?|ongeldige?|geen) {_DUTCH}\b",
    ),
    _not_found(
        "Russian",
        r"\bnet takogo (?:polzovatel|adres|yaschik)|\bpolzovatel \S+ ne nai?jden"
        r"|пользователь(?: \S+)? не (?:наиден|существует|найден)"
        r"|нет такого (?:пользователя|адреса|ящика)",
    ),
)
