"""Reads a mail server's reply: what it means for the mailbox."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import Final, NamedTuple

from mailsift.pipeline.facts import NOT_NOW, Answer
from mailsift.pipeline.replies.languages import BORROWED, LANGUAGES, fold
from mailsift.pipeline.replies.meaning import meanings
from mailsift.pipeline.replies.patterns import AnyOf, Patterns, Search, removal
from mailsift.pipeline.replies.table import MAILBOX, OURSELVES, RULES, ReplyRule, Stage
from mailsift.pipeline.replies.vocabulary import BOX, LISTED, OTHER_THING, SAYS_NOTHING, SENDER

_MAX_TEXT = 2_000
_MAX_WAIT = 86_400.0
_CACHE_SIZE = 2_048


@dataclass(frozen=True, slots=True)
class SmtpReply:
    """One reply of a mail server.

    Attributes:
        stage: the step it answers.
        code: the three-digit code of its last line, 0 when the connection ended without one.
        enhanced: RFC 3463 code such as "5.1.1", or "" (it is then looked for in the text).
        text: the words of all lines.
    """

    stage: Stage
    code: int
    enhanced: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class ReplyReading:
    """What a reply means.

    Attributes:
        answer: the conclusion about the mailbox.
        rule: id of the rule of mailsift.pipeline.replies.table that decided.
        retry_after: seconds the server asked to wait, 0 when it did not say.
    """

    answer: Answer
    rule: str
    retry_after: float = 0.0


def classify(reply: SmtpReply, *, own: Sequence[str] = ()) -> ReplyReading:
    """Conclude what a reply means for the mailbox it was given for.

    The table is tried in order; a 4xx never says that a mailbox is not there, and nothing before RCPT says
    anything about a mailbox.

    Args:
        reply: as received; its text may be hostile and of any length.
        own: our IP addresses, HELO name and sender; a refusal that names one of them is about us.
    """
    reply = innermost(_unwrap_verification(reply), own=own)
    by_code = _rule_by_code(reply.stage, reply.code)
    if by_code is not None:
        return ReplyReading(by_code.answer, by_code.id, 0.0)
    plain = _without_hosts(reply.text[:_MAX_TEXT], own)
    key = (reply.stage, str(reply.code), _enhanced_code(reply))
    text = _reason(reply.stage, str(reply.code), simplify(plain, own=own))
    rule = _matching_rule(*key, text)
    if rule.id == "unclear":
        split = _reason(reply.stage, str(reply.code), simplify(_split_identifiers(plain), own=own))
        corrected = _correct_spelling(split)
        spelt = _matching_rule(*key, corrected)
        if not _patterns().search(text).finds(_patterns().bits(spelt.unless)):  # in its own language
            rule = spelt
    return ReplyReading(rule.answer, rule.id, _retry_after(text) if rule.answer in NOT_NOW else 0.0)


# Which rule applies.

_ENHANCED = re.compile(r"(?<![\w.])[245]\.(\d{1,3}\.\d{1,3})(?![\w.]*\d)")


def _enhanced_code(reply: SmtpReply) -> str:
    """Return subject and detail of the enhanced code, "" without one that counts.

    One about an address (X.1.X) whose class contradicts a permanent code does not: then the words alone tell.
    """
    found = _ENHANCED.search(f"{reply.enhanced} {reply.text[:_MAX_TEXT]}")
    if found is None:
        return ""
    contradicts = reply.code >= 500 and not found[0].startswith("5") and found[1].startswith("1.")
    return "" if contradicts else found[1]


@cache
def _rule_by_code(stage: Stage, code: int) -> ReplyRule | None:
    """Return the rule that a code decides whatever is said beside it: that need not be read then."""
    first = next(rule for rule in RULES if _is_for(rule, stage, str(code)))
    is_read = first.enhanced or first.text or first.means or first.unless or first.answer in NOT_NOW
    return None if is_read else first


@lru_cache(maxsize=_CACHE_SIZE)
def _matching_rule(stage: Stage, code: str, enhanced: str, text: str) -> ReplyRule:
    words = _patterns().search(text)
    if words.may_find(_patterns().bits(THING)) and (read := without_things(text)) != text:
        words = _patterns().search(read)
    return next(matcher.rule for matcher in _matchers(stage, code, enhanced) if matcher.applies(words))


_SAID: Final = rf"(?P<reason>(?!the-address|access denied|\W*{SAYS_NOTHING}$)(?:\S+ \S|[^\x00-\x7f]{{4}}).*)"
_FRAMED: Final = re.compile(
    r"(?:(?:the-address|sorry,?|\d{3})[ :]*)*"
    rf"(?:recipient )?(?:address )?(?:is |was )?(?:rejected|refused|not accepted) ?:[ :]*{_SAID}"
)
_HEADED: Final = re.compile(
    r"(?:(?:the-address|requested (?:mail )?action (?:not taken|aborted)|sorry,?|\d{3})[ :]*)*"
    rf"(?P<heading>[^:(.;!?]{{4,70}}?) ?(?::|(?<!available )(?:\(|- ))[ :]*(?:the-address[ :,]*)?{_SAID}"
)
_VAGUE: Final = re.compile(
    r"\b(?:invalid\w*|bad|illegal|improper|wrong|unacceptable|incorrect\w*|errone\w*|ungue?ltig\w*|falsch\w*"
    r"|n[ao]o? valid\w|non valid\w|ongeldig\w*|nieprawidlow\w*|neplatn\w*|og[iy]ltig\w*|ugyldig\w*"
    r"|virheelli\w*|ervenytelen|gecersiz|не(?:верн|корректн|деиствит|допуст)\w*"
    r"|unavailable|not available|(?:can|could) not deliver|unable to deliver)\b"
)
"""Says of a recipient that he is not taken, for whatever reason; "unknown" is a reason."""
_PREDICATE: Final = re.compile(
    r"\A(?:it )?(?=(?:is|was|has|does|do|did|can|could|not|no longer|never|unknown|non-?exist\w*|inexist\w*"
    r"|gone|left|disabled|inactive|suspended|deleted|removed|closed|full|over)\b"
    rf"|(?!invalid )(?:ne |n )?(?:{'|'.join(language.absent for language in LANGUAGES)})\b)"
)
"""What is said of somebody who is not named."""


def _reason(stage: Stage, code: str, text: str) -> str:
    """Return what stands behind a vague heading, else the text: "Invalid recipient: relaying denied"."""
    if stage is not Stage.RCPT or not code.startswith("5"):
        return text
    if framed := _FRAMED.match(text):
        text = _PREDICATE.sub("recipient ", framed["reason"], count=1)
    headed = _HEADED.match(text)
    if headed is None or not _VAGUE.search(headed["heading"]):
        return text
    if _matching_rule(stage, code, "", headed["heading"]).answer is not Answer.NOT_FOUND:
        return text
    return _PREDICATE.sub("recipient ", headed["reason"], count=1)


@lru_cache(maxsize=_CACHE_SIZE)
def _matchers(stage: Stage, code: str, enhanced: str) -> tuple[_Matcher, ...]:
    """Return the rules that are left when the codes are known."""
    bits = _patterns().bits
    return tuple(
        _Matcher(rule, bits(rule.text), bits(rule.unless))
        for rule in RULES
        if _is_for(rule, stage, code) and (not rule.enhanced or re.fullmatch(rule.enhanced, enhanced))
    )


def _is_for(rule: ReplyRule, stage: Stage, code: str) -> bool:
    return stage in rule.stages and code.startswith(tuple(rule.codes.split()) or "")


@cache
def _patterns() -> Patterns:
    """Return what is looked for in a text."""
    return Patterns((THING, *(pattern for rule in RULES for pattern in (rule.text, rule.unless))))


@dataclass(frozen=True, slots=True)
class _Matcher:
    """A rule, and what stands for its patterns in `_patterns`."""

    rule: ReplyRule
    text: int
    unless: int

    def applies(self, words: Search) -> bool:
        if self.text and not words.finds(self.text):
            return False
        if self.rule.means and self.rule.means not in meanings(words.text):
            return False
        return not (self.unless and words.finds(self.unless))


# What a server behind this one said.

_VERIFIED = re.compile(
    r"\b(?:undeliverable|unverified) address:\s*(?P<reason>\S.*)", re.DOTALL | re.IGNORECASE
)
_MOST_HOPS: Final = 5


def innermost(reply: SmtpReply, *, own: Sequence[str] = ()) -> SmtpReply:
    """Return what the server that knows the mailbox said, where a reply passes that on; else the reply.

    Only the inner reply speaks: the code and the words around it are of who passes it on, whatever the reason
    is. But a 4yz outside or inside stays, what was said before RCPT is of no mailbox, and where the words
    around speak of the sender or of us the inner reply does so, too: the sender was verified.
    """
    for _ in range(_MOST_HOPS if reply.stage is Stage.RCPT else 0):
        found = _find_passed_on(reply.text[:_MAX_TEXT])
        if found is None or _speaks_of_sender(found.before, own):
            break
        code = min(reply.code, found.code) if reply.code >= 400 else reply.code
        reply = SmtpReply(found.stage, code, "", found.text)
        if found.stage is not Stage.RCPT:
            break
    return reply


def _speaks_of_sender(text: str, own: Sequence[str]) -> bool:
    words = simplify(text, own=own)
    return OURSELVES in words or _patterns().search(words).finds(_patterns().bits(SENDER))


def _unwrap_verification(reply: SmtpReply) -> SmtpReply:
    """Return the reason alone where the reply is about a verification by Postfix.

    After "undeliverable address:" or "unverified address:" (reject_unverified_recipient) only the inner
    reason speaks: the code before it is Postfix' own, whatever the reason is.
    """
    if reply.stage is not Stage.RCPT or " address:" not in reply.text:
        return reply
    found = _VERIFIED.search(reply.text[:_MAX_TEXT])
    if not found or "sender" in reply.text[: found.start()].lower():
        return reply
    return SmtpReply(reply.stage, reply.code, "", found["reason"])


# The words, as the table reads them.

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\s]+")
_ADDRESS = re.compile(
    r'<[^<>@\s]{0,64}(?:"[^"<>]{0,64}")?@[^<>\s]{1,255}>|"[^"]{0,64}"@[\w.-]{1,255}|[^\s<>@()\[\]:,;"\'=]{1,64}@[\w.-]{1,255}'
)
_ELISION = re.compile(r"\b([ldscjn]|qu|un|dell|all|nell|dall|sull|quest)['’](?=\w)")


def simplify(text: str, *, own: Sequence[str] = ()) -> str:
    """Return the words of a reply as the table reads them.

    Lower case without accents or apostrophes ("doesn't" as "does not", "l'adresse" as "l adresse"), one space
    between words, without enhanced codes; email addresses and our own names are replaced by the placeholders
    of mailsift.pipeline.replies.table, links by what their page is about. At most 2,000 characters are read.
    """
    plain = _fold(_CONTROL.sub(" ", text[:_MAX_TEXT]))
    plain = _TRAILER.sub(" ", plain)
    if "/" in plain or "www." in plain:
        plain = _URL.sub(_link_placeholder, plain)
    if "@" in plain:
        ours = tuple(name[name.rindex("@") :].casefold() for name in own if "@" in name)
        plain = _ADDRESS.sub(lambda found: _address_placeholder(found[0], ours), plain)
    for name in own:
        plain = _name_pattern(name).sub(OURSELVES, plain) if name else plain
    plain = _ENHANCED.sub(" ", plain)
    plain = _ID.sub(_ID_PLACEHOLDER, plain)
    plain = _CONTRACTION.sub(_expand_contraction, " ".join(plain.translate(_CHARACTER_MAP).split()))
    plain = _LOCAL_PART.sub("local part", plain).replace("that login", "that user")
    return _without_courtesies(_POSSESSIVE.sub(r"\1 ", plain)).strip()


def _fold(text: str) -> str:
    """Return a text in lower case, without accents and with elided articles apart."""
    folded = fold(text)[:_MAX_TEXT]
    return _ELISION.sub(r"\1 ", folded) if "'" in folded or "’" in folded else folded


def _address_placeholder(address: str, ours: tuple[str, ...]) -> str:
    """Return what stands for an address: at our sender's domain all are ours, a missing postmaster's too."""
    is_ours = bool(ours) and address.rstrip(">").endswith(ours)
    return f" {OURSELVES if is_ours else MAILBOX} "


_TRAILER = re.compile(
    r"\[[^\[\]]{0,120}\bip: ?[0-9a-f.:]{3,45} ?\]|(?<=\baddressee unknown), relay=\[[0-9a-f.:]{3,45}\]"
)
"""An id and our address for the people who run the server, at the end of every refusal."""

_ID = re.compile(r"\b(?=[a-z]*\d)(?=\d*[a-z])[a-z\d]{7,}\b")
_ID_PLACEHOLDER = "id0000000"
"""Stands for what numbers a message, a session or a machine: the same refusal is read once."""

_URL = re.compile(
    r"(?:\bhttps?://|\bwww\.|(?<![\w@.-])(?:[a-z0-9-]{1,63}\.){1,8}[a-z]{2,24}/)[^\s<>\"]{0,2000}"
)
_WARNING = re.compile(rf"{LISTED}|spam|\babuse|\brbl|block|\bbl\.|spf|dkim|dmarc")
_LINK_SUBJECTS = (
    ("nosuchuser", re.compile(r"\bp=nosuchuser\b")),
    ("greylisting", re.compile(r"gr[ea]ylist")),
    ("warning", _WARNING),
)


def _link_placeholder(found: re.Match[str]) -> str:
    """Return what stands for a link: it may hold our address, an address or the name of a block list.

    All of them help people and none says why the mail was refused, so only the subject of the page counts.
    """
    subject = next((name for name, pattern in _LINK_SUBJECTS if pattern.search(found[0])), "")
    return f" a-{subject}-link " if subject else " a-link "


_CONTRACTION = re.compile(
    r"\b(?:(is|are|was|were|do|does|did|has|have|had|could|would|should|ca)nt|cannot)\b"
)


def _expand_contraction(found: re.Match[str]) -> str:
    verb = found[1] or "ca"
    return "can not" if verb == "ca" else f"{verb} not"


_LOCAL_PART = re.compile(
    r"\b(?:name|part|code|word|string|text|letters|characters|nom|partie|nombre|parte|nome|teil|deel)"
    r" (?:(?:that |which )?(?:comes |stands |is )?"
    r"(?:before|in front of|preceding|ahead of|(?:to the )?left of)"
    r"|avant|devant|antes d\w|delante d\w+|prima d\w+|davanti a\w*|vor|voor)"
    r" (?:(?:the|l|la|le|el|dem|del|da|do|de|het) )?(?:@|at[ -](?:sign|symbol)|arr?obas?[ae]|chiocciola"
    r"|klammeraffen?|apenstaartje)(?!\w)"
)
"""How an address' local part is called by those who do not know the word."""

_POSSESSIVE = re.compile(
    r"\b((?:usuari[oa]|utilizador|destinatari[oa]|utente|titulare?|cliente)\b[^.;!?]{0,60}?) "
    r"(?:sus?|su[ao]|seus?) (?=cuenta|conta|buzon|caixa|casella|indirizzo|direccion|endereco)"
)
"""Whose account it is has just been said: "o utilizador existe mas a sua conta"."""

_without_courtesies = removal(
    # What became of our message, or of the sending, is nothing that happened to the mailbox.
    r"\b(?:delivery|transfer|transmission|connection|message|e-?mail|attempts?) (?:to|for|with) the-address"
    r" (?:was|were|has been|have been) (?:abandoned|cancel+ed|suspended|closed|removed|deleted|dropped)\b",
    # What may be the reason, among other things, is none.
    r"[(\[](?:ex|e\.?g|for example|such as|z\. ?b|p\. ?(?:ej|ex)|par ex\w*)\b[^()\[\]]*[)\]]",
    # What a server did; why stands behind the colon: Postfix' "Recipient address rejected:", translated.
    r"^(?:\d{3}[ -])?(?:the-address ?:? ?)?"
    r"(?=[^:]*\b(?:alici|empf|destin|odbiorc|prijemc|ontvang|mottag|modtag|cimzett|получател))(?:\w+ ){1,4}"
    r"(?:reddedil\w+|abgelehnt|zuruckgewiesen|verweigert|rejetee?|refusee?"
    r"|rechazad[oa]|rejeitad[oa]|rifiutat[oa]|odrzucon\w+|odmitnut\w*|geweigerd|avvis\w+"
    r"|отклонен\w*|visszautasit\w+)"
    r" ?: (?=\S+ \S+)",
    # To whom the message went back is no reason.
    r"\breturn(?:ed|ing)? (?:it |this |(?:the |your )?(?:message |e?-?mail ))?to (?:the |its )?sender\b"
    r"|\b(?:an den|dem) absender zuruck\w*|\bzuruck an (?:den )?absender\b|\ba l expediteur\b"
    r"|\b(?:devuelt[oa]|devolvid[oa]) (?:al?|ao|a su) re(?:mitente|metente)\b"
    r"|\b(?:restituit|rispedit|rinviat|rimandat)[oa] al mittente\b"
    r"|\b(?:teruggestuurd|geretourneerd|terug) (?:naar|aan) (?:de )?afzender\b"
    r"|\b(?:zwrocon\w+|odeslan\w+) (?:do )?nadawc\w+|\bvracen\w* odesilatel\w*"
    r"|\bвозвращ\w+ отправител\w+|\bgonderene (?:iade|geri)\w*|\bvisszakuld\w+ a feladonak\b"
    r"|\b(?:tillbaka|retur\w*) (?:till|til) (?:avsandar|afsender|avsender)\w*",
    # The blank in "any body".
    r"(?:(?<=\bany)|(?<=\bevery)|(?<=\bno)|(?<=\bsome)) (?=body\b)",
    # What a server did to find out; what it found stands behind that.
    r"^(?:recipient|rcpt|address)(?: address)? (?:verif\w+|check(?:ing)?|look-?up)(?: failed| error)?: "
    r"(?=.*\b(?:account|mailbox|user|recipient|alias)\b)"
    r"|^(?:the-address ?: )?(?:user|recipient|account|mailbox|address) look-?up (?:success\w*|succeeded),? "
    r"but (?=no (?:user|recipient|account|mailbox|address) (?:record|entry)\b)",
    # What would be so under a condition is no reason, once a sentence has gone before it.
    r"(?<=[.;!?] )if (?:you|he|she|they|it) "
    r"(?![^.;!?]*(?:block|listed|listing|spam|sender|\bips?\b|server|abuse|relay|author))[^.;!?]*[.;!?]?",
    # What somebody would have to do about it is no reason either.
    r"[,;:.]? ?\b(?:its |the |his |her )?(?:owner|holder|user|customer|student|sender)s?"
    r" (?:must|has to|have to|needs? to|should) (?:first )?(?:re-?)?"
    r"(?:(?:log|sign) ?(?:in|on)|activate|renew|contact|call|phone|ring|telephone)\b[^.;!?]*",
    # Nor is what people are asked to do about the recipient's address.
    r"(?:^|(?<=[.:;,!?-] ))"
    r"(?:(?:please|kindly|merci de|veuillez|bitte|por favor|si prega di|prego|gelieve|prosze|prosim"
    r"|пожалуиста) )?"
    r"(?:(?:double[- ]?)?check(?:ing)?|verify|verifi(?:er|ez|que|quen|care|chi)|(?:uber)?prufen sie"
    r"|comprueb[ea]|controll(?:are|i|eer)|controleer|sprawdz\w*|(?:z|pre)kontrol\w+|проверьте|перевірте)"
    r" (?!(?:the )?(?:your|senders?|return|votre|ihre|sus?|tu|seu|sua|suo|uw|vas\w*) )"
    r"(?:\S+ ){0,2}?(?:address|spelling|adresse|orthographe|schreibweise|direccion|endereco|indirizzo|adres"
    r"|pisowni\w*|adresu|адрес|адресу)\b(?! (?:of|du|des|de|del)\b)",
    # What we are asked to stop, and how we are greeted.
    r"[.,;!?]+ (?:(?:so|and|please|kindly|pls) )*(?:stop|cease|quit) (?:sending|mailing|writing|e-?mailing)"
    r"(?: (?:us|me|him|her|them|to|it|this|that|here|the-address|e?-?mails?|messages?|letters))*\W*$",
    r"^(?:dear|hello|liebe[rs]?|geehrte[rs]?|sehr geehrte[rs]?|chere?|estimad[oa]|prezad[oa]|car[oa]|gentile"
    r"|geachte|beste|szanown\w+|vazen\w+|mil[yae]|basta|kjaere|kaere|hyva|tisztelt|stimate?|уважаем\w+"
    r"|шановн\w+|sayin) (?:\w+[.,;:!]|\S+ ?[,:!])",
)
"""Takes out of a simplified text what is polite or beside the point, in this order."""


_CHARACTER_MAP = {
    **dict.fromkeys(map(ord, "'’‘ʼ`")),
    ord("_"): " ",
    **{ord(letter): plain for letter, plain in (("ł", "l"), ("ø", "o"), ("æ", "ae"), ("ı", "i"), ("đ", "d"))},
}


@lru_cache(maxsize=64)
def _name_pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.-]){re.escape(name.casefold())}(?![\w-])(?!\.\w)")


# Names of hosts, and words that are run together or misspelt.


def _without_hosts(text: str, own: Sequence[str]) -> str:
    """Return a text in which names of hosts, and the domains of its addresses, say nothing.

    "Gone.example" is a name as any other; but our own, and those of block lists, tell who is refused.
    """
    if "." not in text:
        return text
    addresses = _ADDRESS.finditer(text.lower()) if "@" in text else ()
    named = {f".{found[0].rpartition('@')[2].rstrip('>.')}" for found in addresses}
    domains = tuple(name for name in named if not _WARNING.search(name))
    ours = tuple(f".{name.rpartition('@')[2].lower()}" for name in own if name)

    def unnamed(found: re.Match[str]) -> str:
        host = f".{found[0].lower()}"
        if any(host.endswith(name) or name.endswith(host) for name in ours):
            return found[0]
        is_name = host.endswith(domains) or (_HOST_NAME.fullmatch(host) and not _WARNING.search(host))
        return _SOME_HOST if is_name else found[0]

    return _HOST.sub(unnamed, text)


_HOST = re.compile(r"(?<![\w.@%+-])(?<!//)(?:[\w-]{1,63}\.){1,8}[\w-]{2,63}(?![\w@/-])(?!\.\w)")
_HOST_NAME = re.compile(
    r"(?=.*-|(?:[^.]*\.){3}|.*\.(?:com|net|org|info|example|test|invalid|local)$)"  # not "unknown.so sorry"
    r"[\w.-]+\.(?:[a-z]{2}|com|net|org|info|biz|edu|gov|mil|int|arpa|example|test|invalid|local|lan"
    r"|internal)"
)
"""A host's name, from the dot before it on; missing spaces make others ("user unknown.please check")."""
_SOME_HOST: Final = "mx.example.test"

_IDENTIFIER = re.compile(
    rf"{_ADDRESS.pattern}|(?<=[a-z])(?=[A-Z][a-z])|(?<=[A-Za-z]{{2}})[-_](?=[A-Za-z]{{2}})"
)


def _split_identifiers(text: str) -> str:
    """Return a text with the words of identifiers apart ("UserUnknown", "no-such-user"), not of addresses."""
    return _IDENTIFIER.sub(lambda found: found[0] if "@" in found[0] else " ", text[:_MAX_TEXT])


_KEY_WORDS = """
recipient recipients mailbox mailboxes address addresses account accounts username
unknown unknowns invalid exist exists existing existent existed found registered recognized available
unavailable disabled inactive suspended deactivated sender senders server servers service blocked
domain denied
"""
_CORRECT_WORDS = _KEY_WORDS.split()
_ALIKE: Final = 0.88
_WORD = re.compile(r"[a-z]{5,16}")


def _correct_spelling(text: str) -> str:
    """Return a simplified text with its key words spelled right: "adress unknow" as "address unknown"."""
    return _WORD.sub(lambda found: _correct_word(found[0]), text)


@lru_cache(maxsize=1_024)
def _correct_word(word: str) -> str:
    """Return the key word that a word is meant to be, among those of about its length."""
    as_long = [
        right for right in _CORRECT_WORDS if 2 * min(len(word), len(right)) >= _ALIKE * len(word + right)
    ]
    return next(iter(get_close_matches(word, as_long, 1, _ALIKE)), word)


# How long to wait.

_DELAY = re.compile(
    r"\b(?:in|for|after|within|wait|retry|again|dans|tra|fra|entro|over|em|en|apres|nach|na|despues de|apos)"
    r"(?: (?:about|at least|approximately|another|circa|environ))? (?P<count>\d{1,5}|an?|one) ?"
    r"(?:(?P<h>h(?:(?:ou|eu)?re?s?|oras?)?|stunden?|or[ae]|uur)"
    r"|(?P<m>m(?:in(?:ut\w{0,3}|s)?)?)|(?P<s>s(?:e[cgk]\w{0,5})?))\b"
)
_CLOCK_DELAY = re.compile(r"(?<![\d:])(\d{1,2}):([0-5]\d):([0-5]\d)(?![\d:])")
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600}


def _retry_after(text: str) -> float:
    """Return the seconds a simplified text asks to wait, at most a day; 0 when it names none."""
    if clock := _CLOCK_DELAY.search(text):
        hours, minutes, seconds = (int(part) for part in clock.groups())
        return min(hours * 3600.0 + minutes * 60.0 + seconds, _MAX_WAIT)
    if named := _DELAY.search(text):
        count = int(named["count"]) if named["count"].isdecimal() else 1
        return min(float(count * _UNIT_SECONDS[named.lastgroup or "s"]), _MAX_WAIT)
    return 0.0


# What a mailbox has and is none: "the recipient's queue does not exist" says nothing of the mailbox.
#
# What a sentence says is said of its subject. Where that is no word for a mailbox or its owner, for mail or
# for room, but a thing that belongs to one, "missing", "closed" and "unknown" are the thing's.

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

_WHERE_LOOKED_FOR: Final = (
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
_PREDICATE_FOLLOWS: Final = r"(?= (?:is|was|has|have|does|did|do|no longer|not|can not|could not)\b)"

_THINGS_IN_ENGLISH: Final = (
    rf"\b{_THING} {_OF_A_BOX}",
    rf"\b(?:{BOX}s?|the-address ?:?) (?:{_ADJECTIVE} )?(?:{_THING} )*{_THING}\b",
    rf"\b{BOX}s? (?:{_THING} )?(?:{_REGISTER}|services?)\b{_FOUND_NOTHING}",
    (
        rf"\b(?:{_REGISTER}|{_THING}|services?(?= of| with)) (?:for|of|with) (?:\w+ ){{0,3}}?"
        rf"(?:{BOX}|users|recipients|mailboxes|accounts|addresses)\b"
    ),
    rf"(?:^|(?<=[.;:!?] )|\b(?:the|our|your|an?|this) ){_SUBJECT} {_OF_A_BOX}{_PREDICATE_FOLLOWS}",
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
_LOCALIZED_BOX: Final = "|".join((*(language.box for language in LANGUAGES), BORROWED, "caixa", "add?ress"))
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
    r"(?:\w*(?:verzeichnis|datenbank|adressbuch|tabel(?:le)?|annuaire|repertoire|registr|directori|diretori"
    r"|database"
    r"|elenc|rubric|bestand|adresboek|katalog|rejestr|каталог|справочник|реестр|databaz|adresar|adatbazis"
    r"|nyilvantart|tietokan|hakemist|veritaban)\w*|(?:base|baza|banco) de (?:donnees|datos|dados|date)"
    r"|(?:table|tabla|tabela|liste?n?|lista|lijst|baz[ay]|таблиц[аы]|баз[аы](?: данных)?|список|seznam)\b)"
)
_BOXES_IN_GENITIVE: Final = (
    r"(?:odbiorcow|uzytkownikow|kont|skrzynek|uzivatelu|prijemcu|schranek|пользователеи|получателеи|ящиков"
    r"|адресатов|mottagare|anvandare|(?:a )?(?:utilizatorilor|destinatarilor|conturilor|casutelor|adreselor))"
)
_GENITIVE_BEFORE: Final = (
    r"(?:(?:bu|taman) )?(?:mottagarens|anvandarens|kontots|brevladans|modtagerens|brugerens|kontoens"
    r"|mottakerens|brukerens|postkassens|vastaanottajan|kayttajan|tilin|postilaatikon|alicinin|kullanicinin"
    r"|hesabin|kutusunun|an? (?:cimzett|felhasznalo|postafiok)(?= \w+[ae] (?<!tele )(?<!v[ae] )))"
)
"""Whose a thing is in languages in which that comes first."""
_BEFORE_THING: Final = r"(?:^|(?<=[.;:!?] ))(?:(?:el|la|le|l|der|die|das|il|lo|o|a|de|het) )?"
_AFTER_THING: Final = r"\b(?= \S)"
_THINGS_LOCALIZED: Final = (
    rf"(?:{_NOUN} ){{1,3}}?(?:{_GENITIVE} ){{1,3}}(?:{_LOCALIZED_BOX})\w{{0,2}}",
    rf"(?:{_NOUN} ){{1,2}}?{_BOX_IN_GENITIVE}",
    rf"{_GENITIVE_BEFORE} {_NOUN}",
    (
        rf"(?:(?:kullanici|alici|felhasznaloi|cimzetti) )?{_LOCALIZED_REGISTER}"
        rf"(?: (?:{_GENITIVE}|av|over|{_BOXES_IN_GENITIVE}|(?:{_LOCALIZED_BOX})\w{{0,3}})\b)*"
    ),
    (
        r"(?:geen|keine?) \w*(?:tabel(?:le)?|datenbank|database|verzeichnis|adressbuch|adresboek)"
        r"(?= gevonden| gefunden)"
    ),
)

THING: Final = AnyOf(
    *_THINGS_IN_ENGLISH, *(f"{_BEFORE_THING}{thing}{_AFTER_THING}" for thing in _THINGS_LOCALIZED)
)
"""Matches where `without_things` has something to replace."""


@cache
def _thing_of_a_box() -> re.Pattern[str]:
    """Return the pattern: compiled when it is first needed, for that takes as long as a thousand replies."""
    return re.compile(
        rf"{_WHERE_LOOKED_FOR}(?:{AnyOf(*_THINGS_IN_ENGLISH)}|{_BEFORE_THING}{AnyOf(*_THINGS_LOCALIZED)}{_AFTER_THING})"
    )


def without_things(text: str) -> str:
    """Return a simplified text (classifier.simplify) with OTHER_THING for what a mailbox has and is none."""
    return _thing_of_a_box().sub(_other_thing, text)


def _other_thing(found: re.Match[str]) -> str:
    return found[0] if found["where"] else f" {OTHER_THING} "


# The reply of another server that a text passes on: "host mx.example said: 550 …".
#
# So speak servers that ask one behind them while they are asked (Postfix' address verification, Exim's
# callouts, gateways), and reports of what became of a message. What stands around such a reply is of who
# passes it on.


class _PassedOn(NamedTuple):
    """A reply within a text.

    Attributes:
        before: what stands before it, without the words that introduce it.
        stage: the step of the other session that it answered; RCPT where nothing is told.
        code: its three-digit code.
        text: its words.
    """

    before: str
    stage: Stage
    code: int
    text: str


_VERB: Final = (
    r"(?:said|says|replied|answered|responded|returned|responds|response|reply|error|reason|failed)"
)
_COMMAND: Final = r"[^\n]{1,400}?"
_INTRODUCTIONS: Final = (
    # Exim, and what its callouts add ("Called: 192.0.2.1 Sent: RCPT TO:<…> Response: 550 …")
    rf"error from remote mail(?: ?server|er)? after (?P<exim>{_COMMAND}): ?\s*(?:host \S+ \[[^\]\s]*\]: )?",
    rf"\bsent: ?(?P<callout>{_COMMAND})\s+response:\s*",
    # Postfix
    r"\bhost \S+(?: \[[^\]\s]*\])? (?:said|(?P<greeting>refused to talk to me)):\s*",
    # qmail
    r"\b(?P<qmail>sender was rejected|greeting failed|my name was rejected)\.?\s+remote host said:\s*",
    # Exchange Online, and anybody else
    rf"\b{_VERB}(?: (?:with|was|is|code|status|message|from \S+))*:?\s*|[-=]>\s*|[:;]\s*",
)
_CODE_PASSED_ON: Final = (
    r"(?P<code>4(?:00|[2-7]\d)|5[0-57]\d)"
    r"(?=[ -]\W{0,3}(?:[45]\.\d{1,3}\.\d|[^\W\d]|[45]\d\d[ -]))"
    r"(?![ -]?(?:[kmgt]i?b|bytes|octets|messages|mails|users|recipients|seconds|minutes|times)\b)"
)
_OPENING_QUOTES: Final = r"['\"(<\[#]{0,3}"
_PASSED_ON = re.compile(
    rf"(?:(?:{'|'.join(_INTRODUCTIONS)})(?:smtp; ?)?{_OPENING_QUOTES}{_CODE_PASSED_ON}"
    rf"|\b{_VERB}(?: with)?:?\s*{_OPENING_QUOTES}(?=(?P<class>[45])\.\d{{1,3}}\.\d{{1,3}}\b))[ -]?",
    re.IGNORECASE,
)
_NESTED_REPLY = re.compile(
    rf"\A\W{{0,3}}(?:[45]\.\d{{1,3}}\.\d{{1,3}} )?{_CODE_PASSED_ON}[ -]", re.IGNORECASE
)
"""A text that begins with a code: another one's, for the server's own has been taken off."""
_SOME_CODE = re.compile(r"(?<![\d.])[45](?:\d\d[ -]|\.\d{1,3}\.\d)")
"""What no reply is passed on without: looked for first, for few have it."""
_CODE_OF_LINES = re.compile(r"\A\W{0,3}([45]\d\d)-[\s\S]*?\s\1[ -]")

_IN_REPLY = re.compile(r"\s*\(in reply to (?P<command>[^()]{1,60})\)\)?", re.IGNORECASE)
_BEFORE_RCPT = re.compile(
    r"(?:pipelined |sending )?(?:MAIL FROM|[EHL]+LO\b|STARTTLS|AUTH\b|initial connection|connect)",
    re.IGNORECASE,
)
_END_OF_PASSED_ON = re.compile(
    r"(?:['\"/]?\s*giving up on \S+|['\"]?\s*#SMTP#|\}[;\]][\s\S]*|['\">]+\s*\Z)", re.IGNORECASE
)
"""What a reporter writes behind a reply (qmail, Exchange)."""


def _find_passed_on(text: str) -> _PassedOn | None:
    """Return the first reply of another server that a text passes on; None where there is none.

    A reply of several lines repeats its code (RFC 5321 section 4.2.1): that is none within it.
    """
    if not _SOME_CODE.search(text):
        return None
    found = _NESTED_REPLY.match(text) or _PASSED_ON.search(_without_codes_of_lines(text))
    if found is None:
        return None
    groups = found.groupdict()
    rest = found.string[found.end() :]
    in_reply = _IN_REPLY.search(rest)
    commands = (groups.get("exim"), groups.get("callout"), in_reply and in_reply["command"])
    came_early = any(_BEFORE_RCPT.match(command) for command in commands if command)
    stage = Stage.MAIL if came_early or groups.get("greeting") or groups.get("qmail") else Stage.RCPT
    code = int(groups["code"] or f"{groups['class']}50")
    words = _END_OF_PASSED_ON.sub("", _IN_REPLY.sub("", rest))
    return _PassedOn(found.string[: found.start()], stage, code, words)


def _without_codes_of_lines(text: str) -> str:
    lines = _CODE_OF_LINES.match(text)
    return re.sub(rf"(?<=\s){lines[1]}[ -]", "", text) if lines else text
