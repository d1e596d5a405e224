"""The vocabulary of SMTP replies: which words speak of the mailbox, and which of us.

Every pattern is meant for simplified text (classifier.simplify): lower case, accents and apostrophes
removed, one space between words. None nests repetitions, so each is matched in linear time.
"""

from __future__ import annotations

from pipeline.replies.languages import LANGUAGES, YOUR_HOST


def any_of(*alternatives: str) -> str:
    """Return one pattern that matches any of the given ones."""
    return "(?:" + "|".join(alternatives) + ")"


BOX = (
    r"(?:the-address|user|username|userid|recipient|rcpt|addressee|mail ?box|inbox|alias|account"
    r"|(?:mail)?address|(?:e-?)?mail ?id|subscriber|customer|person|employee|local[ -]?part)"
)
"""A noun for the mailbox or its owner; never plural, for "unknown recipients" speaks of how we behave."""

ENDS = (
    r"(?= ?(?:$|[^\w ]|the-address|(?:here|there|at|in|on|by|with|within|for|of|or|and|to|as|under"
    r"|account|exists?|found|called|named|that|this|the|we know|is|has|please|rejected)\b))"
)
"""What may follow a noun or a predicate that ends there: "no user", but not "no user verification"."""

DOMAIN_NOT_BOX = (
    r"(?:host|hostname|domain|dns|record|mx|ptr|server|client|name|route|relay|network|reverse|ip"
    r"|database|table|backend|sender|command|message|header|helo|parameter|protocol|option|argument|certificate|content)s?"
)
"""A noun that makes "unknown" or "not found" say something about anything but the mailbox."""

SENDER = any_of(
    r"\bsenders?\b",
    r"\bsending\b",
    r"\b(?:return|reply|source|bounce|reverse)[ -]?(?:to[ -]?)?(?:path|address)",
    r"\benvelope\b",
    r"\byour (?:e-?mail |from |return )?address\b",
    r"\bmail from\b",
    r"\be-?mails? from\b",
    r"\bmessages? from\b",
    r"\bfrom (?:address|domain)\b|\b(?:mailing|writing|sent|coming) from\b|\bused to send\b",
    r"\boriginat(?:ors?|ing)\b",
    r"call-?back",
    r"badmailfrom",
    *(said.sender for said in LANGUAGES),
)
"""Speaks of the sender: a refusal of our MAIL FROM, whatever else it says."""

CLIENT = any_of(
    r"\byour (?:(?:e-?mail|mail|sending) ?)?"
    r"(?:isp|host|hostname|server|mta|network|domain|system|client|provider|dns)s?\b",
    r"\byour (?:internet|access|connection)\b",
    r"\bfrom your\b",
    r"\b(?:server|host|client|network|relay|gateway|machine)s? (?:ip )?address\b",
    r"\b(?:ip )?address \[?\d+\.\d+\.\d+\.\d+",
    r"\byou(?:re not| (?:are not|do not|must|need|have to))\b",
    r"\bclient host\b",
    r"\bexternal client\b",
    r"\bclient was not\b",
    r"\bclient [\[(]",
    r"\bhost impersonat",
    r"\bsource ip\b",
    r"\bips?\b",
    r"\bcountry\b|\bgeo-?ip\b",
    r"\b(?:mail|bounces|connections?|access) from [\[\d]",
    r"\bconnections? (?:not accepted|denied|rejected|will not)",
    r"\bdynamic (?:address|range)",
    r"\bptr\b",
    r"\br-?dns\b|\bfcrdns\b",
    r"\breverse[ -](?:dns|lookup|host|name|record)",
    r"\b[eh]e?hlo\b|\bhelo\b",
    r"\bopen (?:proxy|relay)\b",
    r"\bbotnet\b",
    YOUR_HOST,
)
"""Speaks of the connecting host: its address, its name, its network."""

LISTED = any_of(
    r"spamhaus",
    r"spamcop",
    r"\bsorbs\b",
    r"barracudacentral|barracuda ?networks|barracuda reputation",
    r"\b\w{0,20}[dr]n?s?bls?\b",
    r"(?:block|black|deny|drop)[ -]?list",
    r"\bis listed (?:in|on|at)\b",
    r"\blisted (?:in|on|at) \S+\.\w",
    r"\bbanned\b",
    r"reputation",
    r"\bs31[45]0\b",
    r"\bdelist",
    r"\baup#",
    r"\bsperrliste",
    r"\bliste noire\b|\blista negra\b|\blista nera\b|\bzwarte lijst\b",
)
"""Names a block list or a reputation."""

BLOCK_LIST = any_of(LISTED, r"\bblocked (?:using|by|because|for|due|at|see|-)")
"""Names a block list, a reputation, or why somebody is blocked: as a rule we are."""

AUTHENTICATION = any_of(
    r"\bspf\b|openspf",
    r"\bdkim\b",
    r"\bdmarc\b",
    r"\bsender id\b",
    r"auth?enti[cfs]|\bsmtp auth\b|\bpassword\b|\bcredentials?\b|\blog(?:ged)? ?in\b",
    r"\b(?:starttls|tls|ssl|encryption)\b(?! not available)",
    r"\brelay(?:ing|ed|s)?\b(?! recipient table| domain|=)|\brelais\b|\breenvio\b",
    r"rcpthosts",
    r"\bspoof",
    *(said.identity for said in LANGUAGES),
)
"""Asks for proof of who we are, for encryption, or refuses to relay for us."""

CONTENT = any_of(
    r"\bspam(?:s|mer|mers|ming|my)?\b",
    r"\bjunk",
    r"\bvirus",
    r"\bmalware\b|\bphish|\bmalicious|\bforged\b",
    r"\bunsolicited\b",
    r"\bsuspicious\b|\bsuspicion\b|\bsuspected\b",
    r"\bmail content\b|\bmessage filtered\b|\bcontent (?:denied|rejected)",
    r"\b(?:dt|mi|hl|sn):[a-z]{3}\b",
    r"\battack\b|\bharvest|\bprobing\b",
    *(said.content for said in LANGUAGES),
)
"""Judges what is sent, or how."""

RULE = any_of(
    r"(?<![/-])polic(?:y|ies)",
    *(said.rule for said in LANGUAGES),
    r"\baccess(?: \w+)? denied\b|\bconnection denied\b|\bpermission denied\b",
    r"(?<!mailbox name )\bnot (?:\w+ )?(?:allowed|permitted|authori[sz]ed)\b",
    r"\bunauthori[sz]ed\b",
    r"\b(?:from|to|by|for) (?:the )?outside\b|\bexternal (?:e-?mail|mail|messages?|hosts?|sources?)\b",
    r"\binternal(?:ly)? (?:only|use|e-?mail|mail|messages?)\b",
    r"\bprohibit",
    r"\bforbidden\b",
    r"\bdo not accept\b",
    r"\bdoes not have permission",
    r"\brestrict(?:ion|ed to)",
    r"\bonly\b|\bnon-?members?\b|\bauthrequired\b",
    r"\bban\b|\bdenied\b",
    r"\bas\(\d+\)",
)
"""A rule of the house; could be about us or about a recipient that takes mail from few."""

POLICY = any_of(
    RULE,
    r"\bnot accept(?:ed|ing|s)? (?:e-?mail|mail|messages?|delivery|connections?)\b|\bwill not accept\b",
    r"\bblocked\b",
    r"\brejected by\b|\b(?:mail|message) (?:is |was )?re(?:jected|fused|jete)\b",
    r"\bservice (?:is )?refused?\b|\bdelivery (?:is )?refused\b",
)
"""A rule of the house, or a refusal without a reason."""

IP_LITERAL = (
    r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]?\d)"
    r"|(?<![\w:])[0-9a-f]{1,4}:[0-9a-f:]{0,30}:[0-9a-f]{1,4}(?![\w:])"
)
"""An address in a refusal: most often the one that was refused."""

MACHINE = r"\b(?:servers?|hosts?|clients?|machines?|networks?|systems?)\b"
"""Speaks of computers: doubtful beside a code that should speak of a mailbox."""

_ASKED = "".join(
    f"(?<!{verb} )" for verb in ("try", "tried", "trying", "attempt", "attempted", "wanted", "unable")
)
"""Before "to send": then the sentence speaks of whom the mail is for."""

OURS = any_of(
    r"(?:\bdns\b(?!\.)|\bresource record|\b(?:no|invalid|bad|valid) mx\b|\bmx (?:record|lookup|entry|or)\b)"
    r"(?!.{0,60} recipient)",
    rf"{_ASKED}\bto (?:send|post|submit|relay)\b",
    r"\bcomes? from\b|\bpost(?:ing|er)\b|\brequest(?:er|or)\b|\bsubmi(?:tt|ss)\w+",
    r"\bsign in\b|\bregister first\b",
    r"\byour\b(?! (?:intended|e-?mails?\b(?! a)|mail\b(?! a)|messages?|recipients?|correspondents?"
    r"|contacts?|addressee|address book|delivery|request|typing|spelling))",
)
"""Speaks of what we do or have, or of names in the DNS, but not of our message or of whom it is for."""

US = any_of(SENDER, CLIENT, BLOCK_LIST, AUTHENTICATION, CONTENT)
"""Speaks of us, whatever else it says: "sender verify failed: user unknown" is about the sender."""

OTHER_MATTERS = r"\b(?:refuses|verif\w+|possible|now|filters?|bounces?|moment|database|lookup|failure)\b"
"""Tells of something else than that a mailbox is not there."""

NOT_THE_MAILBOX = any_of(US, OURS, POLICY, IP_LITERAL, MACHINE, OTHER_MATTERS)
"""Anything that makes a bare code about the mailbox doubtful."""

NO_POLICY_CODE = r"(?!7\.).*"
"""Any enhanced code but RFC 3463 X.7.X, security or policy."""
