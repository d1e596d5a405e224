"""The vocabulary of English SMTP replies about a mailbox: not there, closed, full."""

from __future__ import annotations

from pipeline.replies import words
from pipeline.replies.words import BOX

_LINK = (
    r"(?: (?:the-address|that|which|you|tried|to|reach|is|are|was|has|have|been|be|currently"
    r"|now|also|this|for|or|and|name))"
)
"""Words that may stand between the mailbox and what is said of it."""

_ELSEWHERE = (
    rf"(?!(?:this|our|the|that) (?:domain|server|host|system|network)\b)\S* ?{words.DOMAIN_NOT_BOX}\b"
)
_ABSENT = words.any_of(
    r"\bnot (?:(?:appear|seem) to )?exist",
    r"\bdo?e?s?nt exist",
    r"\bnot (?:here|present)\b",
    r"\bnon-? ?exist[ea]nt",
    r"\binexistent",
    r"\bnever existed",
    rf"\bunknown\b{words.ENDS}",
    rf"(?<!host )(?<!domain )(?<!record )\bnot (?:been )?found\b(?! in {_ELSEWHERE})",
    r"\bnot (?:\w+ )?known\b",
    r"\bno longer (?:exists?|here|on server|(?:on|at|with|in) (?:this|our|the)|valid|known|registered)\b",
    r"\b(?:can|could) not be (?:found|verified|located|resolved)\b",
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
    r"|unregistered|unrecogni[sz]ed|not an?|no|no matching)"
)
_KIND = (
    r"(?:(?:or illegal|(?!domain|host)\w+ or|e-?mail|mail|recipient|user|destination|local|virtual|such|valid"
    r"|known|active|existing) )"
)
_NOUN = (
    r"(?:access|action|agent|authentication|certificate|command|data|details|error|family|filter|format"
    r"|input|literal|lookup|permission|policy|privileges|protection|records?|service|session|settings"
    r"|syntax|type|validation|verification)\b"
)
_LAST_NAME = rf"(?= (?!{_NOUN})[^\s.,:;]+\W*$)"
_NO_BOX = rf"\b{_INVALID} {_KIND}{{0,2}}{BOX}\b(?:{words.ENDS}|{_LAST_NAME})"
"""The defect stands before the noun: "unknown user", "no such mailbox"; a name may follow, but no noun."""

_NAMED = rf"(?: (?!{_NOUN}|{words.DOMAIN_NOT_BOX}\b)[^\s,:;]+(?= (?:is|was|has)\b))?"
_BOX_INVALID = (
    rf"\b{BOX}{_NAMED}{_LINK}{{0,6}}:? (?:invalid|not valid|incorrect|unroute?able|undeliverable|misspelled"
    rf"|deleted|removed|not in use)\b(?! {words.DOMAIN_NOT_BOX})"
)
_OTHERS = rf"(?:{words.DOMAIN_NOT_BOX}|recipients|users|mailboxes|accounts|addresses|correspondents)"
_BOX_ABSENT = rf"\b{BOX}\b[^;!?]{{0,60}}?{_ABSENT}(?! {_OTHERS}\b)"

NO_SUCH_MAILBOX = words.any_of(
    _NO_BOX,
    _BOX_ABSENT,
    _BOX_INVALID,
    r"\bnot (?:belong|resolve|correspond|match|map|lead)(?: to)? (?:any|an?|our) "
    rf"(?:\w+ ){{0,2}}(?!address){BOX}\b",
    r"\b(?:nobody|no ?one) (?:\w+ ){0,3}?(?:by|with|at|of|called|named|under)\b",
    r"p=nosuchuser\b",
    r"recip\w*notfound\b",
    r"\b(?:do|does) ?not have (?:an? |any )?(?:account|user|mailbox)\b",
    rf"\bno such {BOX} (?!{_NOUN})[^\s.,:;]+{words.ENDS}",
    rf"\b(?:not|(?:un|not )able to) find (?:(?:the|any|an?|that|this|such) )?(?:recipients )?{BOX}\b",
    rf"\bno {_KIND}{{0,2}}{BOX} (?:set up|configured|matche?s|matching|associated|defined|corresponds)\b",
)
AT_ONCE = r"^(?:(?:the-address|sorry|error|this|the|recipient address rejected)[ .,:;-]*){0,4}"
"""The start of a reply that comes to its point without a word about anything else."""

_CLOSED = (
    r"(?:disabled|deactivated|inactive|suspended|discontinued|locked|expired|closed|terminated"
    r"|frozen|cancel+ed|archived|dormant|revoked|abandoned|out of service|deprovisioned|retired"
    r"|not active|not enabled|no longer (?:active|in use|available|accepts? mail|accepting))"
)
BOX_CLOSED = (
    rf"\b{BOX}{_LINK}{{0,9}}:? {_CLOSED}\b(?! (?:to|by another)\b)"
    rf"|\b(?!the-address|(?:mail)?address\b){BOX}{_LINK}{{0,9}}:? blocked\b(?! (?:to|by another)\b)"
)
CLOSED_BOX = (
    r"\b(?:disabled|deactivated|inactive|suspended|discontinued|locked|expired|closed|terminated|archived) "
    rf"{BOX}\b"
)

FULL = words.any_of(
    r"\bquota\b",
    r"\bover ?quota\b",
    r"\bout of storage\b",
    r"\bexhausted (?:\w+ ){0,3}(?:storage|space)\b|\bstorage (?:\w+ ){0,2}exhausted\b",
    r"\bexceed\w* (?:\w+ ){0,2}storage\b",
    r"\bstorage (?:space )?(?:allocation|limit|exceeded|full)\b",
    rf"\b{BOX}{_LINK}{{0,4}}:? (?:full|over (?:its |the |their )?(?:\w+ )?limit)\b",
    rf"\b{BOX} (?:disk )?space (?:is )?(?:full|exhausted)\b",
    rf"\b{BOX}{_LINK}{{0,4}} (?:reached|hit) (?:its |the )?(?:\w+ )?(?:size|capacity)\b",
    rf"\bfull {BOX}\b",
    rf"\binsufficient (?:\w+ )?(?:storage|space) (?:of|in|for) (?:\w+ )?{BOX}\b",
)
NOT_FULL = r"\binsufficient (?:system|disk)|\bsystem (?:storage|resources)|\bdisk space|\btoo many"
