"""Reply rows about the mailbox: accepted, full, disabled, not found."""

from __future__ import annotations

from pipeline import reply_words as words
from pipeline.facts import Answer
from pipeline.reply_row import RCPT, Row

_BOX = words.BOX
_LINK = (
    r"(?: (?:the-address|that|which|you|tried|to|reach|is|are|was|has|have|been|be|currently"
    r"|now|also|this|for|or|and|name))"
)
"""Words that may stand between the mailbox and what is said of it."""

_ABSENT = words.any_of(
    r"(?:does|do|did|could|may|must)? ?not exist",
    r"\bdo?e?s?nt exist",
    r"\b(?:is not|isnt|not) (?:here|present)\b",
    r"\bnon-? ?exist[ea]nt",
    r"\binexistent",
    r"\bnever existed",
    rf"\bunknown\b{words.ENDS}",
    rf"(?<!host )(?<!domain )(?<!record )\bnot found\b(?! in \S* ?{words.DOMAIN_NOT_BOX}\b)",
    r"\bnot (?:\w+ )?known\b",
    r"\bno longer (?:exists?|here|on (?:this )?server|valid)\b",
    r"\b(?:can|could) ?n?o?t be (?:found|verified|located|resolved)\b",
    r"\bnot (?:\w+ )?(?:listed|registered|recogni[sz]ed|local)\b",
    r"\bunrecogni[sz]ed\b",
    r"\bunregistered\b",
    r"\bnot in (?:\w+ ){0,2}(?:directory|list|validrcptto)\b",
    r"\bhas moved\b",
    r"\bnot an? (?:\w+ )?(?:member|part) of (?:our|this|the)\b",
)
"""Says that something is not there."""

_INVALID = (
    r"(?:invalid|illegal|bad|unknown|no such|non-?existent|nonexistant|unroute?able|undeliverable"
    r"|unregistered|unrecogni[sz]ed|not an?|isnt an?|no|no matching)"
)
_KIND = r"(?:(?:or illegal|e-?mail|mail|recipient|user|destination|local|virtual|such|valid|known|active|existing) )"
_NOUN = (
    r"(?:access|action|agent|authentication|certificate|command|data|details|error|family|filter|format"
    r"|input|literal|lookup|permission|policy|privileges|protection|records?|service|session|settings|syntax|type|validation"
    r"|verification)\b"
)
_LAST_NAME = rf"(?= (?!{_NOUN})[^\s.,:;]+\W*$)"
_NO_BOX = rf"\b{_INVALID} {_KIND}{{0,2}}{_BOX}\b(?:{words.ENDS}|{_LAST_NAME})"
"""The defect stands before the noun: "unknown user", "no such mailbox"; a name may follow, but no noun."""

_NAMED = rf"(?: (?!{_NOUN}|{words.DOMAIN_NOT_BOX}\b)[^\s,:;]+(?= (?:is|was|has)\b))?"
_BOX_INVALID = (
    rf"\b{_BOX}{_NAMED}{_LINK}{{0,6}}:? (?:invalid|not valid|isnt valid|incorrect|unroute?able|undeliverable|misspelled|deleted|removed|not in use)"
    rf"\b(?! {words.DOMAIN_NOT_BOX})"
)
_OTHERS = rf"(?:{words.DOMAIN_NOT_BOX}|recipients|users|mailboxes|accounts|addresses|correspondents)"
_BOX_ABSENT = rf"\b{_BOX}\b[^;!?]{{0,60}}?{_ABSENT}(?! {_OTHERS}\b)"

_NO_POLICY_CODE = r"(?!7\.).*"

_NO_SUCH_MAILBOX = words.any_of(
    _NO_BOX,
    _BOX_ABSENT,
    _BOX_INVALID,
    rf"\b(?:not|doesnt|dont) match (?:any|an?|our) (?:\w+ ){{0,2}}{_BOX}\b",
    r"\b(?:nobody|no ?one) (?:\w+ ){0,3}?(?:by|with|at|of|called|named|under)\b",
    r"p=nosuchuser\b",
    r"recip\w*notfound\b",
    r"\b(?:do|does) ?n(?:o)?t have (?:an? |any )?(?:account|user|mailbox)\b",
    rf"\bno such {_BOX} (?!{_NOUN})[^\s.,:;]+{words.ENDS}",
    rf"\b(?:not|cannot|c(?:an|ould)nt|unable to) find (?:the |any |an? )?{_BOX}\b",
)
_AT_ONCE = r"^(?:(?:the-address|sorry|error|this|the|recipient address rejected)[ .,:;-]*){0,4}"
"""The start of a reply that comes to its point without a word about anything else."""

_CLOSED = (
    r"(?:disabled|deactivated|inactive|suspended|discontinued|locked|expired|closed|terminated"
    r"|frozen|cancel+ed|blocked|archived|dormant|revoked|abandoned|out of service|deprovisioned|retired|not active|not enabled|no longer (?:active"
    r"|in use|available|accepts? mail|accepting))"
)
_BOX_CLOSED = rf"\b{_BOX}{_LINK}{{0,9}}:? {_CLOSED}\b(?! (?:to|by another)\b)"
_CLOSED_BOX = (
    rf"\b(?:disabled|deactivated|inactive|suspended|discontinued|locked|expired|closed|terminated|archived) {_BOX}\b"
)

_FULL = words.any_of(
    r"\bquota\b",
    r"\bover ?quota\b",
    r"\bout of storage\b",
    r"\bexceed\w* (?:\w+ ){0,2}storage\b",
    r"\bstorage (?:space )?(?:allocation|limit|exceeded|full)\b",
    rf"\b{_BOX}{_LINK}{{0,4}}:? (?:full|over (?:its |the |their )?(?:\w+ )?limit)\b",
    rf"\b{_BOX} (?:disk )?space (?:is )?(?:full|exhausted)\b",
    rf"\bfull {_BOX}\b",
    rf"\binsufficient (?:\w+ )?(?:storage|space) (?:of|in|for) (?:\w+ )?{_BOX}\b",
)
_NOT_FULL = r"\binsufficient (?:system|disk)|\bsystem (?:storage|resources)|\bdisk space|\btoo many"

ACCEPTED = (
    Row(
        "accepted-unverified",
        Answer.UNCLEAR,
        "RFC 5321 section 3.5.3: 252 takes the mail but says that the mailbox was not verified.",
        codes=("252",),
        stages=RCPT,
    ),
    Row(
        "accepted",
        Answer.ACCEPTED,
        "RFC 5321 section 4.2.1: a 2yz reply accepts the recipient, 251 by forwarding.",
        codes=("2",),
        stages=RCPT,
    ),
)

INTERNATIONAL = (
    Row(
        "no-international-addresses",
        Answer.NOT_ASKABLE,
        "RFC 6531 X.6.7: the server takes no address that is not ASCII.",
        codes=("5",),
        enhanced=r"6\.7",
        stages=RCPT,
    ),
)

DIRECTORY = (
    Row(
        "exchange-directory",
        Answer.NOT_FOUND,
        'Exchange Online\'s 5.4.1 "Access denied" is how its directory says that it has no such user.',
        codes=("5",),
        enhanced=r"4\.1",
        text=r"\brecipient address(?:es)? rejected ?: access denied",
        stages=RCPT,
    ),
)

FULL = (
    Row(
        "full",
        Answer.FULL,
        "The reply speaks of the mailbox's quota or storage.",
        codes=("4", "5"),
        text=_FULL,
        unless=_NOT_FULL,
        stages=RCPT,
    ),
    Row(
        "full-code",
        Answer.FULL,
        "RFC 3463 X.2.2 is a full mailbox.",
        codes=("4", "5"),
        enhanced=r"2\.2",
        stages=RCPT,
    ),
)

SWITCHED_OFF = (
    Row(
        "mailbox-blocked",
        Answer.DISABLED,
        "RFC 3463 X.2.1 for a mailbox that is blocked or inactive; of ours nothing is named.",
        codes=("5",),
        enhanced=r"2\.1",
        text=_BOX_CLOSED,
        unless=words.any_of(words.SENDER, words.CLIENT, words.LISTED, words.AUTHENTICATION, words.CONTENT, words.IP_LITERAL),
        stages=RCPT,
    ),
)

DISABLED = (
    Row(
        "disabled",
        Answer.DISABLED,
        "The reply says that the mailbox is closed.",
        codes=("5",),
        enhanced=_NO_POLICY_CODE,
        text=words.any_of(_BOX_CLOSED, _CLOSED_BOX),
        unless=r"\boutbound",
        stages=RCPT,
    ),
    Row(
        "disabled-5.7",
        Answer.DISABLED,
        "The same words with a policy code count where the reply says nothing else.",
        codes=("5",),
        text=rf"{_AT_ONCE}(?:{_BOX_CLOSED}|{_CLOSED_BOX})",
        unless=words.NOT_THE_MAILBOX,
        stages=RCPT,
    ),
    Row(
        "disabled-code",
        Answer.DISABLED,
        "RFC 3463 X.2.1 with words that say the mailbox takes no mail.",
        codes=("5",),
        enhanced=r"2\.1",
        text=r"\bnot accepting\b|\b(?:cannot|can not|cant|not|unable to) receiv|\bno longer accepts?\b|\bdisabled\b|\binactive\b",
        stages=RCPT,
    ),
)

DOMAIN = (
    Row(
        "something-else-missing",
        Answer.UNCLEAR,
        "Something is not there, but it is a domain, a host or a table of the server and not the mailbox.",
        codes=("5",),
        text=words.any_of(
            r"\b(?:host|hostname|domain|dns|record|mx|server)s? (?:name )?(?:is |was |may |does )?"
            r"(?:not found|unknown|not exist|invalid|lookup)\b",
            r"\b(?:no such|unknown|invalid) (?:host|domain|database)\b",
            r"\b(?:database|table|ldap|map|backend)\b(?: \w+)?:? "
            r"(?:not found|unknown|unavailable|error|fail)",
            r"\bfind the recipient domain\b",
        ),
        stages=RCPT,
    ),
)

NOT_FOUND = (
    Row(
        "no-such-mailbox",
        Answer.NOT_FOUND,
        "The reply says that the mailbox, its user or its address does not exist.",
        codes=("5",),
        enhanced=_NO_POLICY_CODE,
        text=_NO_SUCH_MAILBOX,
        unless=words.any_of(words.RULE, words.YOURS),
        stages=RCPT,
    ),
    Row(
        "no-such-mailbox-5.7",
        Answer.NOT_FOUND,
        "The same words with a policy code count where the reply says nothing else.",
        codes=("5",),
        text=rf"{_AT_ONCE}(?:{_NO_SUCH_MAILBOX})",
        unless=words.NOT_THE_MAILBOX,
        stages=RCPT,
    ),
    Row(
        "unroutable",
        Answer.NOT_FOUND,
        "Exim's words for an address that no router of its own accepts.",
        codes=("5",),
        text=r"\bunroute?able address\b|\bnot our customer\b|\buser doesnt have an? \S+ account\b",
        stages=RCPT,
    ),
    Row(
        "not-local",
        Answer.NOT_FOUND,
        "RFC 5321 section 3.4: 551 is a user who is not here.",
        codes=("551",),
        unless=words.NOT_THE_MAILBOX,
        stages=RCPT,
    ),
    Row(
        "opensmtpd-expansion",
        Answer.NOT_FOUND,
        "OpenSMTPD answers 524 5.2.4 when an address expands to no user of its own.",
        codes=("524",),
        enhanced=r"2\.4",
        unless=words.NOT_THE_MAILBOX,
        stages=RCPT,
    ),
    Row(
        "mailbox-unavailable",
        Answer.NOT_FOUND,
        "RFC 5321's words for 550, and no policy is named.",
        codes=("5",),
        text=r"\bmailbox (?:is )?(?:unavailable|not available)\b",
        unless=words.NOT_THE_MAILBOX,
        stages=RCPT,
    ),
    Row(
        "bad-mailbox-code",
        Answer.NOT_FOUND,
        "RFC 3463 X.1.1, X.1.3, X.1.6 and X.1.10 are about the mailbox, and no word speaks of us.",
        codes=("5",),
        enhanced=r"1\.(?:1|3|6|10)",
        unless=words.NOT_THE_MAILBOX,
        stages=RCPT,
    ),
    Row(
        "bad-address-code",
        Answer.NOT_FOUND,
        "RFC 3463 X.1.0 with the recipient's address as its subject.",
        codes=("5",),
        enhanced=r"1\.0",
        text=rf"\b{_BOX}\b",
        unless=words.NOT_THE_MAILBOX,
        stages=RCPT,
    ),
)
