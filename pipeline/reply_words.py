"""The vocabulary of SMTP replies: which words speak of the mailbox, and which of us.

Every pattern is meant for simplified text (pipeline.replies.simplify): lower case, accents and apostrophes
removed, one space between words. None nests repetitions, so each is matched in linear time.
"""

from __future__ import annotations


def any_of(*alternatives: str) -> str:
    """Return one pattern that matches any of the given ones."""
    return "(?:" + "|".join(alternatives) + ")"


BOX = r"(?:the-address|users?|username|userid|recipients?|rcpt|addressee|mail ?box(?:es)?|inbox|alias|account|address|subscriber|customer|local[ -]?part)"
"""A noun for the mailbox or its owner."""

DOMAIN_NOT_BOX = (
    r"(?:host|hostname|domain|dns|record|mx|ptr|server|client|name|route|relay|network|reverse|ip"
    r"|sender|command|message|header|helo|parameter|protocol|option|argument|certificate|content)"
)
"""A noun that makes "unknown" or "not found" say something about anything but the mailbox."""

SENDER = any_of(
    r"\bsenders?\b",
    r"\bsending\b",
    r"return[ -]?path",
    r"envelope[ -]?from",
    r"reverse[ -]?path",
    r"\bmail from\b",
    r"\be-?mails? from\b",
    r"\bmessages? from\b",
    r"\bfrom address\b",
    r"\boriginat(?:or|ing)\b",
    r"call-?back",
    r"badmailfrom",
    # German, French, Spanish, Portuguese, Italian, Dutch
    r"\babsender",
    r"\bexpediteur",
    r"\bemett(?:eur|rice)\b",
    r"\bremitente\b",
    r"\bremetente\b",
    r"\bmittente\b",
    r"\bafzender\b",
)
"""Speaks of the sender: a refusal of our MAIL FROM, whatever else it says."""

CLIENT = any_of(
    r"\byour (?:ip|isp|host|hostname|(?:mail ?)?server|mta|network|domain|system|client|country|provider|dns|sender"
    r"|internet|access|connection|helo)\b",
    r"\bfrom your\b",
    r"\bclient host\b",
    r"\bexternal client\b",
    r"\bclient was not\b",
    r"\bclient [\[(]",
    r"\bhost impersonat",
    r"\bsource ip\b",
    r"\bip[ -](?:address|range|reputation|name)",
    r"\b(?:mail|bounces|connections?|access) from (?:ip|\[|\d)",
    r"\bconnections? (?:not accepted|denied|rejected|will not)",
    r"\bdynamic ips?\b|\bdynamic address|\bdynamic range",
    r"\bptr\b",
    r"\br-?dns\b|\bfcrdns\b",
    r"\breverse[ -](?:dns|lookup|host|name|record)",
    r"\b[eh]e?hlo\b|\bhelo\b",
    r"\bopen (?:proxy|relay)\b",
    r"\bbotnet\b",
    r"\bip=",
    r"\bip[ -]?adresse",
    r"\badresse ip\b",
    r"\bihre? (?:ip|server|host)",
    r"\bvotre (?:ip|serveur|adresse ip|hote)",
    r"\bsu (?:ip|servidor)\b",
    r"\bseu (?:ip|servidor)\b",
    r"\b(?:suo|vostro|tuo) (?:ip|server)\b",
    r"\buw (?:ip|server)\b",
)
"""Speaks of the connecting host: its address, its name, its network."""

BLOCK_LIST = any_of(
    r"spamhaus",
    r"spamcop",
    r"\bsorbs\b",
    r"barracudacentral|barracuda ?networks|barracuda reputation",
    r"\b\w{0,20}[dr]n?s?bls?\b",
    r"(?:block|black|deny|drop)[ -]?list",
    r"\bis listed (?:in|on|at)\b",
    r"\blisted (?:in|on|at) \S+\.\w",
    r"\bblocked (?:using|by|because|for|due|at|see|-)",
    r"\bbanned\b",
    r"reputation",
    r"\bs31[45]0\b",
    r"\bdelist",
    r"\baup#",
    r"\bsperrliste",
    r"\bliste noire\b|\blista negra\b|\blista nera\b|\bzwarte lijst\b",
)
"""Names a block list or a reputation."""

AUTHENTICATION = any_of(
    r"\bspf\b|openspf",
    r"\bdkim\b",
    r"\bdmarc\b",
    r"\bsender id\b",
    r"authenticat",
    r"\bstarttls\b|\bmust (?:use|issue) (?:a )?tls\b|\btls (?:is )?required\b|\bencryption (?:is )?required\b",
    r"\brelay(?:ing|ed|s)?\b(?! recipient| domain|=)",
    r"rcpthosts",
    r"\bspoof",
)
"""Asks for proof of who we are, for encryption, or refuses to relay for us."""

CONTENT = any_of(
    r"\bspam(?:s|mer|mers|ming|my)?\b",
    r"\bjunk",
    r"\bvirus",
    r"\bmalware\b|\bphish|\bmalicious",
    r"\bunsolicited\b",
    r"\bsuspicious\b|\bsuspicion\b|\bsuspected\b",
    r"\bmail content\b|\bmessage filtered\b|\bcontent (?:denied|rejected)",
    r"\b(?:dt|mi|hl|sn):[a-z]{3}\b",
    r"\battack\b|\bharvest",
)
"""Judges what is sent, or how."""

POLICY = any_of(
    r"polic(?:y|ies)",
    r"\baccess(?: \w+)? denied\b|\bconnection denied\b|\bpermission denied\b",
    r"\bnot (?:\w+ )?(?:allowed|permitted|authori[sz]ed)\b",
    r"\bunauthori[sz]ed\b",
    r"\bprohibit",
    r"\bforbidden\b",
    r"\bblocked\b",
    r"\bnot accept(?:ed|ing|s)? (?:e-?mail|mail|messages?|delivery|connections?)\b|\bwill not accept\b",
    r"\bnot accept(?:ed)? mail\b|\bdont accept\b",
    r"\brejected by\b|\bmail (?:is |was )?re(?:jected|fused|jete)\b|\bmessage (?:is |was )?re(?:jected|fused)\b",
    r"\bdoes not have permission",
    r"\brestrict(?:ion|ed to)",
    r"\bonly members\b|\bmembers only\b|\bauthrequired\b",
    r"\bservice (?:is )?refused?\b|\bdelivery (?:is )?refused\b",
    r"\bban\b|\bdenied\b",
    r"\bas\(\d+\)",
)
"""A rule of the house; could be about us or about a recipient that takes mail from few."""

IP_LITERAL = (
    r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]?\d)|(?<![\w:])[0-9a-f]{1,4}:[0-9a-f:]{0,30}:[0-9a-f]{1,4}(?![\w:])"
)
"""An address in a refusal: most often the one that was refused."""

US = any_of(SENDER, CLIENT, BLOCK_LIST, AUTHENTICATION, CONTENT)
"""Speaks of us, whatever else it says: "sender verify failed: user unknown" is about the sender."""

NOT_THE_MAILBOX = any_of(US, POLICY, IP_LITERAL)
"""Anything that makes a bare code about the mailbox doubtful."""
