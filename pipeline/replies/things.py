"""What a mailbox has and is none: "the recipient's queue does not exist" says nothing of the mailbox.

What a sentence says is said of its subject. Where that is no word for a mailbox or its owner, for mail or for
room, but a thing that belongs to one, "missing", "closed" and "unknown" are the thing's.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from mailsift.pipeline.replies import languages
from mailsift.pipeline.replies.patterns import AnyOf
from mailsift.pipeline.replies.vocabulary import BOX, OTHER_THING

_THING: Final = (
    r"(?:(?:alias|forward\w*|delivery|transport|routing|mail|tls|smtp|ip|api|web|sync|backup|address) )?"
    r"(?:routes?|routing|paths?|polic(?:y|ies)|rules?|filters?|tickets?|keys?|tokens?|certificates?|tenants?"
    r"|connectors?|connections?|gateways?|queues?|maps?|files?|transports?|backends?|sessions?|ranges?"
    r"|regions?|webhooks?|hooks?|forwarding|forwards?|autoresponders?|responders?|vacation|passwords?|logins?"
    r"|ports?|spools?|links?|trusts?|clusters?|stores?|prox(?:y|ies)|firewalls?|scanners?|plugins?|scripts?"
    r"|handlers?|process(?:es)?|daemons?|drivers?|mounts?|disks?|volumes?|partitions?|nodes?|shards?"
    r"|ind(?:ex|ices)|caches?|replicas?|backups?|archives?|calendars?|templates?|channels?|bridges?|tunnels?"
    r"|agents?|devices?|phones?|hosts?|servers?|sites?|zones?|networks?)"
)
"""Things that mailboxes, users and addresses have."""

_REGISTER: Final = (
    r"(?:director(?:y|ies)|registr(?:y|ies)|catalogu?es?|databases?|db|tables?|lists?|lookups?|checks?"
    r"|verifications?|validations?|ldap)"
)
"""What a server asks for a mailbox, which may be away itself."""
_FOUND_NOTHING: Final = r"(?! (?:\w+ )?(?:no|nothing|none|zero|0|quota)\b)"

_WHERE: Final = (
    r"(?P<where>\b(?:in|from|on|by|at|to|with|through|via|into|within|inside|against|no|invalid|bad)"
    r" (?:(?:the|our|this|any|an?|my|its|that) )*(?:[a-z-]+ ){0,2}?)?"
)
"""Then it is but the place where the mailbox was looked for, or how that was written."""

_ADJECTIVE: Final = (
    r"(?!(?:is|are|was|has|does|did|do|can|could|not|no|unknown|in|at|on|for|of|or|and|to|by|with|from|the"
    r"|this|our|invalid|bad|via|through)\b)[a-z-]+"
)

_SUBJECT: Final = (
    rf"(?!(?:\w+ ){{0,2}}(?:{BOX}|mails?|e-?mails?|messages?|services?|subscriptions?|licen[cs]es?|plans?"
    r"|contracts?|access|records?|entr(?:y|ies)|match(?:es)?|results?|names?|ids?|quotas?|limits?|size|space"
    r"|storage|box(?:es)?|delivery|no|not|domains?) )"
    r"(?:[a-z-]+ ){0,2}[a-z-]+"
)
"""Any noun but those for a mailbox, or for what it stands and falls with."""

_OF_A_BOX: Final = (
    rf"(?:for|of|behind|between [^.;:!?]{{0,40}} and) (?:(?:this|that|the|your|his|her|our|an?) )*{BOX}s?\b"
    r"(?: the-address)?"
)
_SAID: Final = r"(?= (?:is|was|has|have|does|did|do|no longer|not|can not|could not)\b)"

_ENGLISH: Final = (
    rf"\b{_THING} {_OF_A_BOX}",
    rf"\b(?:{BOX}s?|the-address ?:?) (?:{_ADJECTIVE} )?(?:{_THING} )*{_THING}\b",
    rf"\b{BOX}s? (?:{_THING} )?(?:{_REGISTER}|services?)\b{_FOUND_NOTHING}",
    (
        rf"\b(?:{_REGISTER}|{_THING}|services?(?= of| with)) (?:for|of|with) (?:\w+ ){{0,3}}?"
        rf"(?:{BOX}|users|recipients|mailboxes|accounts|addresses)\b"
    ),
    rf"(?:^|(?<=[.;:!?] )|\b(?:the|our|your|an?|this) ){_SUBJECT} {_OF_A_BOX}{_SAID}",
)

_NO_THING: Final = (
    # not there, not known, wrong
    r"(?:ungue?ltig|invalid|incorrect|incorret|falsch|kein|aucun|pas\b|nicht|n[ao]o\b|non?\b|ningun"
    r"|nenhum|nessun|geen|brak|nie\b|nema|нет|не\b|ing[ae]n\b|ingt|unbekannt|inconnu|desconoc|desconhec"
    r"|sconosciut|onbekend|nieznan|неизвестн|imposs|unmog|onmog|niemoz|nelze"
    # its name, its owner, what he has with his provider
    r"|name|nom|naam|nazwa|имя|navn|namn|nimi|adi\b|nev\w{0,2}\b|identi|id\b|inhaber|titul"
    r"|propriet|eigentum|eigenaar|wlasciciel|владел|besit|servi|dienst|abon|vertrag|contra|umow|zugang"
    r"|zugriff|acce|aces|toegang|dostep|доступ|li[cz]en|teil|part|eintrag|entr|wpis|запис"
    # mail, and its delivery
    r"|mail|e-?mail|eposta|courri|corre|post|poczt|почт|nachricht|messag|mensa|wiadomo|сообщен|письм|zustell"
    r"|liefer|remise|distrib|entreg|conseg|bezorg|dostarcz|достав"
    # room
    r"|speicher|espa|spazi|ruimte|miejsc|мест|platz|tarhely|tila\b|alan|kontingent|quota|kvot|kota|kiint|квот"
    r"|\w*limit|gro(?:ss|tt)|taille|taman|dimens|размер|opslag"
    # a mailbox, or who has it or writes to it, beside the words of _LOCALIZED_BOX
    r"|box|inbox|rachun|учетн|osoit|kutu|sahkopost|скрин|skrzyn|пользоват|получат|uzytkow|odbior|prijem|uzivat"
    r"|kayttaj|vastaanott|kullan|felhaszn|absend|expedi|remit|mitten|afzend|nadaw|отправ"
    # no noun
    r"|in\b|im\b|dans\b|en\b|em\b|na\b|w\b|v\b|в\b|на\b|у\b|u\b|op\b|auf\b|su\b|per\b|pour\b|para\b|fur\b"
    r"|for\b|to\b|at\b|there|that|this|it\b|he\b|she\b|die|das|der|le|la|el|il|o\b|a\b|de\b|het|ist|est"
    r"|es\b|jest|tak(?:ov|[aeiy])|так|эт)"
)
"""How words begin that are no thing beside the mailbox: what is said of them is said of it."""
_LOCALIZED_BOX: Final = "|".join(
    (*(language.box for language in languages.LANGUAGES), languages.BORROWED, "caixa", "add?ress")
)
_NOUN: Final = rf"(?!(?:{_NO_THING}|{_LOCALIZED_BOX}))(?:[^\W\d]|-)+"
"""Any other noun."""
_GENITIVE: Final = (
    r"(?:des|der|die|das|dieses|dieser|diesem|eines|fur|fuer|zu|zum|zur|von|vom|du|de|la|le|les|l|d|cette|cet"
    r"|ce|pour|dei|degli|dos|del|della|dell|dello|di|questa|questo|quest|per|il|do|da|deste|desta|este|esta"
    r"|esto|para|van|deze|dit|het|voor|dla|tej|tego|для|этого|этои|даннои|данного|for|denna|denne"
    r"|dette|detta|den|till|til)"
)
"""What stands between a thing and whose it is, articles included."""
_BOX_IN_GENITIVE: Final = (
    r"(?:odbiorcy|uzytkownika|(?:tej )?skrzynki|(?:tego )?konta|adresata|prijemce|uzivatele|schranky|uctu"
    r"|получателя|пользователя|(?:этого )?ящика|адресата|(?:этои )?учетнои записи|абонента)"
)
"""Whose a thing is in languages that need no word between the two."""
_LOCALIZED_REGISTER: Final = (
    r"(?:\w*(?:verzeichnis|datenbank|adressbuch|tabelle|annuaire|repertoire|registr|directori|diretori"
    r"|database"
    r"|elenc|rubric|bestand|adresboek|katalog|rejestr|каталог|справочник|реестр|databaz|adresar|adatbazis"
    r"|nyilvantart|tietokan|hakemist|veritaban)\w*|(?:base|baza|banco) de (?:donnees|datos|dados|date)"
    r"|(?:table|tabla|tabela|liste?n?|lista|lijst|baz[ay]|таблиц[аы]|баз[аы](?: данных)?|список|seznam)\b)"
)
_BOXES_IN_GENITIVE: Final = (
    r"(?:odbiorcow|uzytkownikow|kont|skrzynek|uzivatelu|prijemcu|schranek|пользователеи|получателеи|ящиков"
    r"|адресатов|mottagare|anvandare)"
)
_GENITIVE_BEFORE: Final = (
    r"(?:(?:bu|taman) )?(?:mottagarens|anvandarens|kontots|brevladans|modtagerens|brugerens|kontoens"
    r"|mottakerens|brukerens|postkassens|vastaanottajan|kayttajan|tilin|postilaatikon|alicinin|kullanicinin"
    r"|hesabin|kutusunun|an? (?:cimzett|felhasznalo|postafiok)(?= \w+[ae] (?<!tele )(?<!v[ae] )))"
)
"""Whose a thing is in languages in which that comes first."""
_BEFORE: Final = r"(?:^|(?<=[.;:!?] ))(?:(?:el|la|le|l|der|die|das|il|lo|o|a|de|het) )?"
_AFTER: Final = r"\b(?= \S)"
_LOCALIZED: Final = (
    rf"(?:{_NOUN} ){{1,3}}?(?:{_GENITIVE} ){{1,3}}(?:{_LOCALIZED_BOX})\w{{0,2}}",
    rf"(?:{_NOUN} ){{1,2}}?{_BOX_IN_GENITIVE}",
    rf"{_GENITIVE_BEFORE} {_NOUN}",
    (
        rf"(?:(?:kullanici|alici|felhasznaloi|cimzetti) )?{_LOCALIZED_REGISTER}"
        rf"(?: (?:{_GENITIVE}|av|over|{_BOXES_IN_GENITIVE}|(?:{_LOCALIZED_BOX})\w{{0,3}})\b)*"
    ),
)

THING: Final = AnyOf(*_ENGLISH, *(f"{_BEFORE}{thing}{_AFTER}" for thing in _LOCALIZED))
"""Matches where `without_things` has something to replace."""


@cache
def _thing_of_a_box() -> re.Pattern[str]:
    """Return the pattern: compiled when it is first needed, for that takes as long as a thousand replies."""
    return re.compile(rf"{_WHERE}(?:{AnyOf(*_ENGLISH)}|{_BEFORE}{AnyOf(*_LOCALIZED)}{_AFTER})")


def without_things(text: str) -> str:
    """Return a simplified text (classifier.simplify) with OTHER_THING for what a mailbox has and is none."""
    return _thing_of_a_box().sub(_other_thing, text)


def _other_thing(found: re.Match[str]) -> str:
    return found[0] if found["where"] else f" {OTHER_THING} "
