"""The vocabulary of SMTP replies: which words speak of the mailbox, which of us, which of "later".

Every pattern is meant for simplified text (classifier.simplify): lower case, accents and apostrophes
removed, one space between words. None nests repetitions, so each is matched in linear time. What other
languages than English say is in mailsift.pipeline.replies.languages.
"""

from __future__ import annotations

from mailsift.pipeline.replies import languages
from mailsift.pipeline.replies.patterns import AnyOf

BOX = (
    r"(?:the-address|user|username|user ?id|recipient|rcpt|addressee|mail ?box|inbox|mail ?(?:drop|folder)"
    r"|message box|alias|forwarder|account"
    r"|(?:mail)?address|(?:e-?)?mail ?id|subscriber|customer|person|employee|local[ -]?part)"
)
"""A noun for the mailbox or its owner; never plural, for "unknown recipients" speaks of how we behave."""

ANY_BOX = rf"\b{BOX}\b"

ENDS = (
    r"(?= ?(?:$|[^\w ]|the-address|(?:here|there|at|in|on|by|with|within|for|of|or|and|to|as|under"
    r"|account|exists?|found|called|named|that|this|the|we know|is|has|please|rejected)\b))"
)
"""What may follow a noun or a predicate that ends there: "no user", but not "no user verification"."""

DOMAIN_NOT_BOX = (
    r"(?:host|hostname|domain|dns|record|mx|ptr|server|client|name|route|relay|network|reverse|ip"
    r"|database|table|backend|sender|command|message|header|helo|parameter|protocol|option|argument"
    r"|certificate|content)s?"
)
"""A noun that makes "unknown" or "not found" say something about anything but the mailbox."""

OTHER_THING = "otherthing"
"""Stands for a thing that a mailbox has (mailsift.pipeline.replies.classifier)."""

SENDER = AnyOf(
    r"(?<!\breturn to )\bsenders?\b",
    r"\bsending\b",
    r"\b(?:return|reply|source|bounce|reverse)[ -]?(?:to[ -]?)?(?:path|address)",
    r"\benvelope\b(?! (?:recipient|to)\b)",
    r"\byour (?:e-?mail )?address\b(?! ?books?\b)",
    r"\bmail from\b|\b(?:send|sent|write|wrote) from\b",
    r"\b(?:(?:e-?)?mail|message|letter|post|anything)s? from\b"
    r"(?! (?:the|this|his|her|their) (?:server|mailbox|inbox|account)\b)",
    r"\bfrom:? (?:address|domain)\b|\b(?:mailing|writing|coming) from\b|\bused to send\b",
    r"\boriginat(?:ors?|ing)\b",
    r"call-?back(?! (?:\w+ ){0,4}(?:recipient|rcpt)\b)|\bcall-?outs? from you",
    r"badmailfrom",
    r"\bback-?scatter|\bbatv\b",
    *(language.sender for language in (*languages.LANGUAGES, *languages.UNSPACED)),
)
"""Speaks of the sender: a refusal of our MAIL FROM, whatever else it says."""

CLIENT = AnyOf(
    r"\byour (?:(?:e-?mail|mail|sending) ?)?"
    r"(?:isp|host|hostname|server|mta|network|domain|system|machine|computer|gateway|client|provider"
    r"|dns)s?\b",
    r"\bwho are you\b|\byou claim\b",
    r"\byour (?:internet|access|connection)\b",
    r"\bfrom your\b(?! (?:mailing )?(?:lists?|address|contacts|records|database))",
    r"\b(?:server|host|client|network|relay|gateway|machine)s? (?:ip )?address\b",
    r"\b(?:ip )?address \[?\d+\.\d+\.\d+\.\d+",
    r"\byou(?:re not| (?:are not|do not|must|need|have to))\b",
    r"\byou(?:re| are| were| have been) (?:\w+ )?(?:unknown|blocked|banned|refused|rejected|denied)\b",
    r"\bclient host\b",
    r"\brefused to talk to me\b|\bafter initial connection\b",
    r"\bexternal client\b",
    r"\bclient was not\b",
    r"\b(?:(?:do|does) not|(?:nobody|no ?one)(?: \w+){0,4}?) knows? you\b",
    r"\bclient [\[(]",
    r"\bhost impersonat",
    r"\bip(?:s|v[46])?\b",
    r"\bcountry\b|\bgeo-?ip\b",
    r"\b(?:mail|bounces|access) from [\[\d]",
    r"\bconnections? (?:not accepted|denied|rejected|will not|from)\b",
    r"\bdynamic (?:address|range)",
    r"\bptr\b",
    r"\br-?dns\b|\bfcrdns\b",
    r"\breverse[ -](?:dns|lookup|host|name|record)",
    r"\b[eh]e?hlo\b|\bhelo\b",
    r"\bopen (?:proxy|relay)\b",
    r"\bbotnet\b",
    languages.YOUR_HOST,
)
"""Speaks of the connecting host: its address, its name, its network."""

LISTED = AnyOf(
    r"spamhaus",
    r"spamcop",
    r"\bsorbs\b",
    r"barracudacentral|barracuda ?networks",
    r"\b\w{0,20}[dr]n?s?bls?\b",
    r"(?:block|black|deny|drop)[ -]?list",
    r"黑名[单單]|ブラックリスト|블랙리스트",
    r"\bis listed (?:in|on|at)\b",
    r"\blisted (?:in|on|at) \S+\.\w",
    r"\bbanned\b",
    r"reputation",
    r"\bs31[45]0\b",
    r"\bdelist",
    r"\baup#",
    r"\bsperrliste",
    r"\bliste noire\b|\blista negra\b|\blista nera\b|\bzwarte lijst\b",
    r"\bczarn\w+ list\w+|\bcern\w+ list\w+|\bsvartlist\w*|\bkara liste\w*|\bчерн\w+ спис\w+",
)
"""Names a block list or a reputation."""

BLOCK_LIST = AnyOf(
    LISTED, r"\bblocked (?:using|by|because|for|due|at|see|-)(?! (?:to )?(?:inactiv|non-?|lack|long))"
)
"""Names a block list, a reputation, or why somebody is blocked: as a rule we are."""

REFUSED_BY_NAME = (
    r"\bbadr(?:cpt|ecipient)to\b|\benvelope recipient has been denied\b"
    r"|^(?:sorry, )?recipient not ok\b|\bcan not accept user\b"
)
"""The server has a list of recipients of its own that it takes no mail for, and this is one of them."""

RELAY_FOR_NOBODY = (
    r"\brelay\w*\b.{0,40}?\b(?:unknown local part|(?:recipient|(?:user|mailbox) (?!not\b|is\b|un\w+)\S+)\b"
    r"(?:[^.;!?]|\.(?! )){0,60}?\bnot (?:in|local|an?|known|found|listed)\b)"
)
"""Will not relay because the recipient, by name, is none of theirs."""

AUTHENTICATION = AnyOf(
    r"\bspf\b|openspf",
    r"\bdkim\b",
    r"\bdmarc\b",
    r"\bsender id\b",
    r"auth?enti[cfs]|\bsasl\b|\bsmtp auth\b(?! is not required)|\bpassword\b|\bcredentials?\b",
    r"(?<!has not )(?<!never )(?<!nobody )\blog(?:ged)? ?in\b",
    r"\b(?:starttls|tls|ssl|encryption)\b(?! not available)",
    r"(?<!user unknown in )\brelay(?:ing|ed|s)?\b(?! recipient table| domain|=)|\brelais\b|\breenvio\b",
    r"rcpthosts",
    r"\bspoof",
    r"\bverschlu(?:e)?ssel|\bchiffre[rmez]|\bcifra[dt][oa]\b|\bszyfrowan|\bшифрован",
    *(language.identity for language in languages.LANGUAGES),
)
"""Asks for proof of who we are, for encryption, or refuses to relay for us."""

CONTENT = AnyOf(
    r"\bspam(?:s|mer|mers|ming|my)?\b",
    r"\bjunk",
    r"\bvirus",
    r"\bmalware\b|\bphish|\bmalicious|\bforged\b",
    r"\bunsolicited\b",
    r"\bsuspicious\b|\bsuspicion\b|\bsuspected\b",
    r"\b(?:to|cc|from|date|subject)[: ] ?headers?\b|\b(?:bulk|mass|marketing) (?:e-?)?mails?\b",
    r"\bmail content\b|\bmessage filtered\b|\bcontent (?:denied|rejected)",
    r"\b(?:dt|mi|hl|sn):[a-z]{3}\b",
    r"\battack\b|\bharvest|\bprob(?:ing|es)\b(?![.-])",
    *(language.content for language in languages.LANGUAGES),
)
"""Judges what is sent, or how."""

RULE = AnyOf(
    r"(?<![/-])polic(?:y|ies)(?! ?-?(?:holders?|numbers?)\b)",
    *(language.rule for language in languages.LANGUAGES),
    r"(?<!mailbox name )\bnot (?:\w+ )?(?:allowed|permitted|authori[sz]ed)\b",
    r"\bunauthori[sz]ed\b",
    r"\b(?:from|to|by|for) (?:the )?outside\b|\bexternal (?:e-?mail|mail|messages?|hosts?|sources?)\b",
    r"\binternal(?:ly)? (?:use|e-?mail|mail|messages?)\b",
    r"\bprohibit",
    r"\bforbidden\b",
    r"\bdo not accept\b",
    r"\bdoes not have permission",
    r"\brestrict(?:ion|ed to)",
    r"\bonly\b|\bnon-?members?\b|\bauthrequired\b",
    r"\bban\b|\bdenied\b",
    r"\b(?:recipient|user|member|owner|receiver)(?:.?s)? (?:\w+ )?(?:preferences?|settings?)\b|\bprivacy\b",
    r"\bas\(\d+\)",
)
"""A rule of the house; could be about us or about a recipient that takes mail from few."""

POLICY = AnyOf(
    RULE,
    r"\bnot accept(?:ed|ing|s)? (?:e-?mail|mail|messages?|delivery|connections?)\b|\bwill not accept\b",
    r"(?<!mailbox )(?<!mailbox is )(?<!account )(?<!account is )(?<!user )(?<!user is )\bblocked\b",
    r"\brejected by\b|\b(?:mail|message) (?:is |was )?re(?:jected|fused|jete)\b(?! ?:)",
    r"受信(?:が)?拒否|なりすまし|拒收|拒绝接收|拒絕接收|수신 ?거부",
    r"\bmay not connect\b|\bservice (?:is )?refused?\b|\bdelivery (?:is )?refused\b",
)
"""A rule of the house, or a refusal without a reason."""

IP_LITERAL = (
    r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]?\d)"
    r"|(?<![\w:])(?!\d?\d:\d\d:\d\d(?![\w:]))[0-9a-f]{1,4}:[0-9a-f:]{0,30}:[0-9a-f]{1,4}(?![\w:])"
)
"""An address in a refusal, and no time of day: most often the one that was refused."""

MACHINE = (
    r"(?<!\bon our )(?<!\bin our )(?<!\bfrom our )(?<!\bfrom the )(?<!\bout of our )(?<!\bout of the )"
    r"\b(?:servers?|hosts?|clients?|machines?|networks?|systems?)\b"
)
"""Speaks of computers: doubtful beside a code that should speak of a mailbox."""

A_SERVER = r"\b(?:servers?|hosts?|clients?)\b"
"""The words among them that other languages borrow for what is not the mailbox."""

_ASKED = "".join(
    f"(?<!{verb} )" for verb in ("try", "tried", "trying", "attempt", "attempted", "want", "wanted", "unable")
)
"""Before "to send": then the sentence speaks of whom the mail is for."""

OURS = AnyOf(
    r"(?:\bdns\b(?!\.)|\bresource record|\b(?:no|invalid|bad|valid) mx\b|\bmx (?:record|lookup|entry|or)\b)"
    r"(?!.{0,60} recipient)",
    rf"{_ASKED}\bto (?:send|post|submit|relay)\b",
    r"\bcomes? from\b|\bpost(?:ing|er)\b|\brequest(?:er|or)\b|\bsubmi(?:tt|ss)\w+",
    r"\bmay (?:not )?(?:send|post|write|connect)\b",
    r"\bsign in\b|\bregister first\b|\bfor you\b",
    r"\b(?:for|from|of) (?:strangers|third part(?:y|ies))\b|\bon (?:your )?behalf\b",
    r"\b(?:pass|hand|carry|send)(?:ing|ed)? "
    r"(?:(?:an?|any|this|that|your|it|the|mail|messages?|letters) ){0,2}(?:on|onwards?|along|through us)\b",
    r"\byour\b(?! (?:intended|e-?mails?\b(?! a)|mail\b(?! a)|messages?|recipients?|correspondents?"
    r"|contacts?|addressee|address book|delivery|request|typing|spelling|(?:mailing )?lists?|letter"
    r"|directory|records|files|database|customer data"
    r"|help ?desk|support"
    r"|(?:\w+ )?admin(?:istrator)?))",
)
"""Speaks of what we do or have, or of names in the DNS, but not of our message or of whom it is for."""

US = AnyOf(SENDER, CLIENT, BLOCK_LIST, AUTHENTICATION, CONTENT)
"""Speaks of us, whatever else it says: "sender verify failed: user unknown" is about the sender."""

OTHER_MATTERS = (
    r"\b(?:refuses|verif\w+|possible(?! to deliver)|now|filter(?:s|ing)?|bounces?|moment"
    r"|(?<!in our )(?<!in the )database|lookup|failure|message size|too (?:large|big)|attachments?"
    r"|vrfy|expn|options?|features?|(?:not |un)supported)\b"
)
"""Tells of something else than that a mailbox is not there."""

WARNING_LINK = r"\ba-warning-link\b"
"""Stands for a link to a page about block lists or spam (classifier.simplify)."""

_NOT_TOLD = (
    r"\bwhether\b|\b(?:valid|real|known) or (?:not|invalid|unknown)\b"
    r"|\b(?:do|does|will|may|can) not (?:say|tell|disclose|reveal|discuss)\b"
)
_NOBODY = r"(?:nobody|no ?one|niemand|personne|nadie|ninguem|nessuno|nikt|nikdo|никто|ingen)"
CONDITION = AnyOf(
    r"\brequires?\b|\bconfirm(?:ation|ed)\b|\bagreed\b|\bopt(?:ed|s)?[ -](?:in|out)\b"
    r"|\bconsent|\bapproved?\b|\bsubscribed to\b",
    rf"\b{_NOBODY}\b[^.;!?]{{0,40}}\b(?:asked|subscri|want|request|order|sign(?:ed)? up|wish|bestel"
    r"|angeforder|abon|demand|souhait|veut|pidi|pedi[du]|solicit|suscri|richie|iscri|gevraagd"
    r"|zamow|prosi|подпис|просил|заказ)",
    _NOT_TOLD,
)
"""Tells what would have to be for the mail to be taken, or that nothing is told."""

_UNKNOWN_LOCALIZED = AnyOf(*(language.unknown for language in languages.LANGUAGES))
_FAULT = (
    r"(?:reason|failure|error|fault|problem|issue|trouble|cause|state|status|condition|type|class|kind|option"
    r"|parameter|format|response|reply|answer|result|charset|character set|encoding)s?"
)
_KIND_OF_IT = r"(?:types?|class|kind|format|options?|parameters?|status|state)"
_BOX_LOCALIZED = AnyOf(*(language.box for language in languages.LANGUAGES), languages.BORROWED)


def _unknown_fault(language: languages.ReplyLanguage) -> str:
    return (
        rf"\b{language.unknown} (?!{language.box}|{languages.BORROWED})(?:\w+ )?{language.fault}\b"
        rf"|\b{language.fault}(?: (?:ist|est|es|e|is|jest|je))? {language.unknown}\b"
        rf"(?! (?:{language.box}|{languages.BORROWED})\b)"
    )


NOT_FOUND_OUT = AnyOf(
    *(language.unsure for language in (*languages.LANGUAGES, *languages.UNSPACED)),
    r"\b(?:not|unable|impossible|fail\w*)\b[^.;!?]{0,40}\b"
    r"(?:find out|tell|check|determine|verify|know|confirm|establish|say|see) if\b",
    r"\bexistence\b|\b(?:may|might) (?:or (?:may|might) not|not exist)\b|\bapi\b|\bhttp \d{3}\b",
    r"\b(?:(?:un|not )able to|fail\w* to|(?:could|can|did) not(?: be)?) "
    r"(?:check|determine|examine|inspect|look|query|queri|read|retriev|load)(?:e?d)?\b(?! ?:)",
    rf"\bunknown (?!{BOX}\b)(?:\w+ )?{_FAULT}\b",
    rf"\bunknown {BOX} {_KIND_OF_IT}\b|\b{BOX} {_KIND_OF_IT} (?:is )?unknown\b",
    rf"\b{_FAULT} (?:of (?:(?:the|this|that) )*{BOX} )?(?:is |was )?"
    rf"(?:unknown|not known|undetermined)\b(?! {BOX}\b)",
    *map(_unknown_fault, languages.LANGUAGES),
    r"\b(?:other|another|primary|main|right|correct|proper|different|wrong|backup|secondary|fallback) "
    r"(?:mx|(?:mail )?servers?|(?:mail )?exchangers?|mail ?hosts?|nodes?)\b|\buse the mx\b|\banderen mx\b",
    r"\b(?:at|by|from|in|on|to) (?:\w+ ){0,3}?"
    r"(?:mx|replica|backup|standby|secondary|cache|shard|port)(?![\w.-]| school)|\bthis (?:\w+ )?node\b",
)
"""The server could not find out, does not tell, or is one of several of which another knows."""

STRANGERS = AnyOf(
    r"\bunknown (?:people|persons|writers|correspondents|parties|callers)\b|\bstrangers\b",
    r"\b(?:people|persons|correspondents) (?:\w+ ){0,2}?(?:unknown|not)\b",
    r"\byou (?:are|were) not (?:found|listed|known|among|in)\b",
    rf"\b(?:von|d|de|des|da|dai|van|av|fran|fra|od|от|від|από|dari|tu) {_UNKNOWN_LOCALIZED}\b"
    rf"(?! {_BOX_LOCALIZED}\b)",
    r"\b(?:refuse (?:les|des|d|aux)|rechaza(?: a)?|rejeita|recusa|rifiuta(?: gli| da)?|weigert|odrzuca"
    rf"|отклоняет|отвергает|lehnt|blockt|blockiert) {_UNKNOWN_LOCALIZED}\b(?! {_BOX_LOCALIZED}\b)",
    r"\bkenn(?:t|en) (?:sie|dich)\b|\bvous conn\w+|\bn[oa]o? (?:l[eao]|te|os|lhe|o) con[oh]\w+"
    r"|\bnon (?:la|ti|vi) conosc\w+|\bkent (?:u|je)\b"
    r"|\bвас не зна\w+|\bне знает вас\b|\bne(?:zna| zna) vas\b",
    r"\b(?:white|allow|safe|pass|permit)(?:ed)?[ -]?list\w*"
    r"|\bnot (?:\w+ )?in (?:the )?(?:recipients?|users?|owners?|his|her|their) (?:\w+ )?"
    r"(?:address ?book|contacts)\b"
    r"|\bnot in (?:the |our )?list of (?:allowed|permitted|trusted) "
    r"(?!recipients|users|mailboxes|addresses)"
    r"|\blistes? blanche|\blista (?:blanca|branca|bianca)|\b(?:бел|біл)\w+ спис\w+|\bbial\w+ lisc?\w+"
    r"|\bwitte lijst|白名[单單]|ホワイトリスト|화이트리스트",
)
"""Somebody takes no mail from those he does not know."""

NOT_ONLY_THE_MAILBOX = AnyOf(
    *(US, OURS, POLICY, IP_LITERAL, OTHER_MATTERS, CONDITION, WARNING_LINK, NOT_FOUND_OUT, STRANGERS)
)
NOT_THE_MAILBOX = AnyOf(NOT_ONLY_THE_MAILBOX, MACHINE, OTHER_THING, languages.YOURS)
"""Anything that makes a bare code about the mailbox doubtful."""

NO_POLICY_CODE = r"(?!7\.).*"
"""Any enhanced code but RFC 3463 X.7.X, security or policy."""


# About the mailbox: not there, closed, full.

_LINK = (
    r"(?: (?:the-address|that|which|you|tried|to|reach|is|are|was|has|have|been|be|currently"
    r"|now|also|this|for|or|and|name|marked|flagged|set|as|access|wrote|writing|mailing|specified"
    r"|entered|supplied"
    r"|given|provided|typed|trying|contact))"
)
"""Words that may stand between the mailbox and what is said of it."""

_ELSEWHERE = (
    r"(?!(?:this|our|the|that) (?:domain|server|host|system|network|database|table)\b)"
    rf"\S* ?{DOMAIN_NOT_BOX}\b(?! directory)"
)
_HERE = r"(?:this|our|that) (?:server|host|system|machine|site|node|installation)"
_DIRECTORY = (
    r"(?:directory|ldap|active directory|recipient filter|list|validrcptto|database|table|records|registry"
    r"|book|user base|index)"
)
_ABSENCE = AnyOf(
    r"\bnot (?:(?:appear|seem) to )?exist",
    r"\bdo?e?s?nt exist",
    r"\bnot (?:here|present)\b|\bnot (?:hosted|served|handled|live|reside) here\b",
    rf"\bnot (?:hosted |held )?(?:on|at) {_HERE}\b",
    r"\b(?:obsolete|defunct|gone)\b",
    r"\b(?:never|not) (?:been )?created\b",
    r"\bnot (?:one of )?ours\b|\bnot with us\b",
    r"\bnon-? ?exist[ea]nt",
    r"\binexistent",
    r"\bnever existed",
    rf"\bunknown\b{ENDS}",
    rf"(?<!host )(?<!domain )(?<!record )\bnot (?:been )?found\b(?! in {_ELSEWHERE})",
    r"\bnot (?:\w+ )?known\b",
    r"\bno longer (?:exists?|here|on server|(?:on|at|with|in) (?:this|our|the)|valid|known|registered)\b",
    r"\b(?:can|could) not be (?:found|verified|located|resolved|identified|matched|mapped)\b",
    r"\bnot (?:\w+ )?(?:listed|registered|recogni[sz]ed|local)\b",
    r"\bunrecogni[sz]ed\b",
    r"\bunregistered\b",
    rf"\bnot in (?:\w+ ){{0,3}}?{_DIRECTORY}\b",
    r"\bhas moved\b",
    r"\bnot (?:assigned|defined|allocated|issued|provisioned|on file)\b",
    r"\bun(?:assigned|provisioned)\b|\bwithdrawn\b",
    r"\bno longer (?:in service|assigned|used|listed|part of|a (?:member|user|customer))\b",
    r"\bnot an? (?:\w+ )?(?:member|part) of (?:our|this|the)\b",
    r"\bno (?:entry|record|match|results?)(?= ?(?:$|[.,;)]))",
    r"\breturned (?:nothing|no (?:results?|match\w*|entr\w+))\b",
)
"""Says that something is not there."""

_INVALID = (
    r"(?:invalid|illegal|bad|unknown|no such|non-?existent|nonexistant|unroute?able|undeliverable"
    r"|non-?existing|undefined|unlisted|unregistered|unrecogni[sz]ed|unprovisioned|incorrect"
    r"|wrong|void|not an?|no|no matching)"
)
_KIND = (
    r"(?:(?:or (?!domain|host|sender)\w+|(?!domain|host)\w+ or|e-?mail|mail|recipient|user"
    r"|destination|local"
    r"|virtual|such|valid|known|active|existing|domain(?= user\b)) )"
)
_NOUN = (
    r"(?:licen[cs]e|access|action|agent|authentication|certificate|command|data|details|error"
    r"|family|filter|format"
    r"|input|literal|lookup|permission|policy|privileges|protection|records?|service|session|settings"
    r"|syntax|type|validation|verification)\b"
)
_LAST_NAME = rf"(?= (?!{_NOUN}|{DOMAIN_NOT_BOX}\b)[^\s.,:;]+(?:\W*$|[.;,!] ))"
_NO_BOX = rf"\b{_INVALID} {_KIND}{{0,2}}{BOX}\b(?:{ENDS}|{_LAST_NAME})"
"""The defect stands before the noun: "unknown user", "no such mailbox"; a name may follow, but no noun."""

_NAMED = rf"(?: (?!{_NOUN}|{DOMAIN_NOT_BOX}\b)[^\s,:;]+(?= (?:is|was|has)\b))?"
_BOX_INVALID = (
    rf"\b{BOX}{_NAMED}{_LINK}{{0,6}}:? (?:invalid|not valid|not a valid one|wrong|incorrect|unroute?able"
    rf"|undeliverable|misspelled"
    rf"|deleted|removed|not in use)\b(?! {DOMAIN_NOT_BOX})"
)
_OTHERS = rf"(?:{DOMAIN_NOT_BOX}|recipients|users|mailboxes|accounts|addresses|correspondents)"
_NOT_OF_ITS_OWN = r"(?! (?:licen[cs]e|directory|table|database|db|maps?|store|backend|registry)\b)"
_BOX_ABSENT = rf"\b{BOX}\b{_NOT_OF_ITS_OWN}[^;!?]{{0,60}}?{_ABSENCE}(?! {_OTHERS}\b)"

ABSENT = AnyOf(
    _NO_BOX,
    _BOX_ABSENT,
    _BOX_INVALID,
    r"\bnot (?:belong|resolve|correspond|match|map|lead)(?: to)? (?:any|an?|our) "
    rf"(?:\w+ ){{0,2}}(?!address){BOX}\b",
    r"\b(?:nobody|no ?one|not (?:\w+ )?any(?:body|one)) (?:\w+ ){0,3}?(?:by|with|at|of|called"
    r"|named|under)\b",
    rf"\b{BOX} unknown (?!{_NOUN}|{DOMAIN_NOT_BOX}\b)[^\s.,:;]+$",
    r"(?<!host )(?<!domain )(?<!server )\bnot (?:unique or not )?(?:listed|found|registered|known) in "
    r"(?:\S+ ){0,5}?(?:directory|address ?book|phone ?book)\b",
    r"\b(?:0|zero|no) (?:\w+ )?(?:users|mailboxes|accounts|recipients) (?:match\w*|found|exist\w*)\b",
    r"\b(?:0|zero|no) entries match\w*\b",
    rf"^\W*(?:sorry )?not (?:in|on|among) (?:our|the|my) (?:\w+ )?(?:{_DIRECTORY}|file)\b",
    rf"^\W*not (?:found|listed|known) in (?:(?:our|the|user|recipient|mailbox) )*(?!list){_DIRECTORY}\W*$",
    r"\ba-nosuchuser-link\b",
    rf"\b(?:do|does|did|can|could) not (?:recogni[sz]e|know|find|locate|have|identify)"
    rf"(?: (?:a|an|any|the|this|that|such|our|local|user|recipient))* {BOX}\b(?! {_NOUN}"
    rf"| {DOMAIN_NOT_BOX}\b)",
    rf"\b(?:misspel\w+|mistyped|typos? in) (?:(?:the|this|your) )?(?:recipients? )?(?:{BOX}|name)\b",
    r"\ball (?:the |these )?(?:addresses|recipients|mailboxes|users) (?:are |were )?"
    r"(?:unknown|invalid|not found)\b",
    rf"\bthere(?: i)?s no (?!{DOMAIN_NOT_BOX}\b)\S+ (?:in|at) (?:our|this) (?:company|organi[sz]ation"
    r"|university|school|college|firm|office|house)\b",
    r"\bno longer (?:with|employed|works?|working|at) (?:\w+ ){0,2}"
    r"(?:us|here|company|organi[sz]ation|university|school|college|firm)\b",
    r"\bnot (?:one of|an? \w+ of|part of|among) (?:our|this|the) "
    r"(?:users|customers|subscribers|mailboxes|members|domain|organi[sz]ation|company|staff)\b",
    r"\b(?:user|employee|person) (?:has )?left(?: us)?(?= ?(?:$|[.,;!]))",
    r"\bhas left (?:the|our|this) (?:company|organi[sz]ation|university|school|college|firm)\b",
    r"recip\w* ?notfound\b",
    r"\b(?:user|recipient|mailbox|account|address)(?:unknown|notfound|invalid|notexist\w*)\b",
    r"\b(?:unknown|invalid|nosuch)(?:user|recipient|mailbox|account|address)\b",
    rf"\bno (?!{DOMAIN_NOT_BOX}\b)\S+ in (?:the |our |this )?(?:\w+ )?directory\b",
    r"\bdestination address(?:es)? (?:is|are|was|were) (?:unknown|invalid|not found)\b",
    rf"\bno (?:records?|entry|entries|trace|match|matches|results?|hits?) (?:of|for|in) "
    rf"(?:(?:the|this|that|an?|any|such|our) )*{BOX}\b(?! {_NOUN})",
    rf"\bnot an? (?:(?!{DOMAIN_NOT_BOX})\w+ ){{1,2}}"
    r"(?:user|mailbox|account|recipient|member|customer|subscriber|name|mail address)\b(?! names?\b)",
    rf"\bnot (?:our (?:user|customer|subscriber|member)|user of {_HERE})\b",
    r"\bnot an? member of [\w-]+\.[\w.-]+$",
    r"\bno (?:mailboxes|accounts|users|addresses) (?:with|by|of|under|called|named)\b",
    rf"\bnot (?:in|on|among) (?:the|our) {_DIRECTORY} of "
    r"(?:\w+ )?(?:recipients|users|mailboxes|addresses|accounts)\b",
    rf"^(?:unknown|not known) (?:to|at|on) {_HERE}\b",
    r"\bnobody (?:here )?(?:answers|goes)\b|\bno (?:\w+ or )?\w+ (?:goes"
    r"|is known) (?:here )?(?:by|under)\b",
    r"\bno (?:such )?(?:mailing )?list (?:\S+ )?(?:at|by|here|called|named)\b|\bno such mailing list\b",
    rf"\b(?:can|could|did|do) not (?:find|locate) (?!(?:\w+ )?{DOMAIN_NOT_BOX}\b)\S+ in (?:the|our|any) "
    rf"(?:\w+ )?{_DIRECTORY}\b",
    rf"\b{_INVALID} (?:mailbox|user|recipient|account) name\b",
    r"\b(?:do|does) ?not have (?:an? |any |the |such an? )?(?:account|user|mailbox|recipient)\b",
    r"\bno (?:e-?)?mail (?:is (?:collected|accepted|taken) )?for (?:an?|the|any) (?:account|user|mailbox)"
    r" (?:called|named)\b",
    rf"\bno such {BOX} (?!{_NOUN})[^\s.,:;]+{ENDS}",
    r"\bno such entry in (?:the )?(?:alias|user|mailbox|recipient)\b",
    r"\bno (?:account|mailbox|user) \S+ (?:in|at|on) (?:the |this )?domain\b",
    rf"\bno {BOX} (?!{_NOUN}|delivery\b|{DOMAIN_NOT_BOX}\b)[^\s.,:;]+ (?:here|(?:at|on|in"
    rf"|with) (?:this|our|the|us)\b)",
    rf"\b(?:not|(?:un|not )able to) (?:find|locate|identify) (?:(?:the|any|an?|that|this|such) )?"
    rf"(?:recipients )?{BOX}\b",
    rf"\bno {_KIND}{{0,2}}{BOX} (?:set up|configured|matche?s|matching|associated|defined|corresponds)\b",
)

_NOT_THERE = (
    r"\b(?:exist\w*|found|find|know[ns]?|list(?:ed)?|match\w*|records?|entry|entries|registered|recogni\w+"
    r"|located?|resolved?|defined|present|hosted|assigned|provisioned|created|got|ours|members?|belongs?"
    r"|such|(?:works?|working|employed) (?:\w+ ){0,2}?(?:here|for|at|with|in)|anybody|anyone"
    r"|mapped|associated|attached|configured|set up|deliverable)\b"
)
_NEGATION = r"\b(?:no|not|none|nothing|nobody|never|neither|without|unable|failed to|any ?more|any longer)\b"
_NEAR = r"[^.;!?]{0,100}?"
DENIED = AnyOf(
    r"\b(?:unknown|no such) (?!sender|sending|client|remote|relay)\w+ (?:user|recipient|mailbox|account)\b"
    rf"{ENDS}",
    rf"{ANY_BOX}{_NEAR}\b(?:matches|resolves to|maps to|leads to|belongs to) (?:no|nothing|none|nobody)\b",
    rf"\b{BOX} (?:is )?(?:not available|unavailable) (?:here|(?:at|on|in) (?:this|our))\b",
    rf"\b(?:{BOX}|e-?mail)\b{_NOT_OF_ITS_OWN}{_NEAR}{_NEGATION}{_NEAR}{_NOT_THERE}",
    rf"\bno (?:{BOX}|maildir|home directory)\b(?! (?:{_NOUN}|delivery|here to))",
    rf"\b(?:nobody|no ?one) (?:\w+ ){{0,3}}?{BOX}\b|\bthere is no [^\s.,:;]+$",
    r"^\W*no (?:match|entry|record) (?:was |is )?(?:found|exists?|for|in)\b",
    rf"\bno [\w-]+(?:\.[\w-]+)+ {BOX}\b",
    r"\bnot (?:find|locate) \S+ (?:among|in|on) (?:the |our )?(?:\w+ )?(?:users|mailboxes"
    r"|accounts|recipients)\b",
    r"\b(?:has )?left (?:us|the (?:company|firm|school|team))\b",
    rf"{_NEGATION} (?:(?!for\b|of\b|to\b|by\b)\w+ ){{0,2}}?{ANY_BOX}{_NEAR}{_NOT_THERE}",
    rf"{_NEGATION} (?:\w+ )?(?:have|got|such|know|find|locate|match|host|recogni\w+|work)\b{_NEAR}{ANY_BOX}",
)
"""One sentence has the mailbox, a negation and a word of being there, in an order that ties them together."""

TEMPORARILY = AnyOf(
    r"\btemporar(?:y|ily)\b|\btry (?:again )?later\b|\bat this time\b|\bcurrently unavailable\b|\bdeferred\b",
    r"\b(?:said|says|replied|answered|responded|response|reply|returned)(?: with)?:? 4\d\d\b",
    r"(?:\b(?:code|error|got|status|smtp|with) |[(\[])(?:421|45[0-24])(?![\w.-])",
    r"\bfor (?:today|now|the (?:day|night|weekend|holidays?))\b|\bon (?:weekends?|holidays?|sundays?)\b",
    r"\bfor (?:an?|one|\d+) (?:minutes?|hours?)\b|[,;.:-] ?(?:please )?retry\b",
    r"\b(?:for|during|due to|because of) (?:an? |the )?(?:back-?up|maintenance|migration|upgrade|repairs?)\b",
    r"\bat the moment\b|\bcome back later\b|\bwhile (?:it|we)\b|\bwegen (?:\w+ )?(?:umzugs?|wartung)\b",
    r"\bim (?:augenblick|moment)\b|\ben (?:ce|este|aquest) momento?\b|\b(?:no|neste|in questo) momento\b"
    r"|\bop dit moment\b|\bjust nu\b|\bfor tillfallet\b|\b(?:for|i) o[yj]eblikket\b|\btalla hetkella\b"
    r"|\bw tej chwili\b|\bv (?:tuto chvili|tejto chvili)\b|\bв (?:данныи|этот) момент\b"
    r"|\bin acest moment\b|\bsu anda\b|\bαυτη τη στιγμη\b",
    r"\b(?:fur|pour|por|per|voor|na|на) (?:\w+ ){0,2}?(?:stunden?|tage?|minuten|heures?|jours?|horas?|dias?"
    r"|ore|giorni|uur|dagen|godzin\w*|dni|час\w*|дн\w+|сутки)\b",
    r"\b(?:demain|manana|amanha|domani|(?<!heute )morgen|jutra|zitra|завтра)\b",
    r"\buntil\b(?! you)|\btill (?:\d|the |next\b|further\b|tomorrow\b|\w+(?:day|uary|ber)\b)|\bas long as\b"
    r"|\bfor the (?:duration|time being|moment)\b|\bat present\b",
    r"(?<![\w.-])(?:vacations?|holidays?|sabbatical)\b(?![.-]\w)|\b(?:on|parental|maternity|paternity|sick"
    r"|annual|study) leave\b",
    r"\b(?:over|during|for) (?:the )?(?:\w+ )?(?:christmas|easter|summer|winter|spring|break|recess|night)\b",
    r"\b(?:outside|out of|after) (?:office|business|working|opening|service) hours\b"
    r"|\bout of (?:the )?office\b",
    r"\bbetween \d{1,2}(?::\d\d)?(?: ?[ap]m)? and \d",
    r"(?<!not )(?<!not be )(?<!never )(?<!never be )\bre-?(?:open|activat|enabl)\w*|\bresumes?\b|\bback (?:on"
    r"|in|from|after|next|by)\b|\b(?:his|her|their"
    r"|owners?) return\b",
    r"\breturn(?:s|ing)? (?:on|in|next)\b|\bwakes? up\b|\bpaused\b",
    r"\bwill (?:then )?be (?:\w+ )?(?:available|open(?:ed)?|active|activated|restored|created"
    r"|unlocked|enabled|re-?activated|re-?enabled)\b",
    r"\b(?:no|not|never|nothing|nobody) (?:(?!activ)\S+ ){0,5}?yet\b(?! (?:been )?activ)|\byet to be\b"
    r"|\bpending\b(?! (?:delet|remov|clos))",
    r"\bin progress\b|\bunder ?way\b|\bongoing\b|\b(?:replication|migration"
    r"|import) (?:\S+ ){0,4}?running\b",
    r"\bbeing (?:migrated|moved|transferred|imported|restored|repaired|created|set up|provisioned|upgraded"
    r"|replicated|configured|relocated|converted)\b",
    r"(?<!error )(?<!occurred )(?<!failed )(?<!failure )\bwhile (?:its?|his|her|their|he|she|they|the|an?"
    r"|on|owner)\b",
    r"\b(?:right|just) now\b|\bsoon\b|\blater (?:today|on|this)\b|\bthis (?:evening|afternoon|morning|week"
    r"|weekend)\b|\b(?:reach\w*|available|delivered|found) today\b|\bask again\b|\b(?:is|are) down\b",
    r"\bnext (?:week|month|year|term|semester|(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b",
    r"\bagain (?:in|after|on|from|next) (?!\w*(?:address|spelling|record))|\b(?:busy|read-?only)\b",
    r"\b(?:suspended|locked|locked out|blocked|frozen|closed|disabled|barred|shut|deactivated"
    r"|unavailable) for (?:the next )?(?:\w+ ){1,2}(?:minutes?|hours?|days?|weeks?)\b(?! of)",
    r"\b(?:meanwhile|meantime)\b|\bso far\b(?! as\b)|\bfor a while\b|\bas soon as (?!you\b)"
    r"|\bonce (?:the )?(?:it|he|she|they|we|its|his|her|their|owner|user|customer|payment)\b",
    r"\bbefore (?:the |his |her |its |their )?(?:start|beginning|opening|launch|first|go-?live|\d)",
    r"\b(?:await\w*|waiting (?:for|on)) (?!delet|remov|clos)",
    r"\b(?:every|each) (?:night|evening|morning|day|weekend|summer|winter|year|\w+day)\b|\bat night\b",
    r"\bcomes? alive\b|\bgoes live\b|\bgrace period\b|\b(?:expected|scheduled|planned) (?:back )?(?:for|by"
    r"|on|in|at)\b",
    r"\b(?:rebuil|re-?index|re-?load|re-?sync)\w*|\brestor(?:e (?:job|is|from)|ing)\b|\bs[iy]n(?:c|k|ch"
    r"|kh)roni\w+"
    r"|\bсинхрони\w+",
    *(language.passing for language in (*languages.LANGUAGES, *languages.UNSPACED)),
)
"""Says that it will pass, or that a server behind this one says so.

A word of a return, a holiday, of what is under way or not yet so is enough, whatever is said to be so long.
"""

CLOSED_TO_SOME = (
    r"\b(?:external|outside(?:rs)?|extern[aeio]\w?|estern[eio]|zewnetrzn\w+|внешн\w+|зовнішн\w+"
    r"|general public|members only|by another|maintenance"
    r"|wartung(?:sarbeiten)?|konserwacj\w+|обслуживани\w+|udrzb\w+|underhall|vedlige?hold\w*|vedlikehold\w*"
    r"|huolto\w*|karbantart\w*|bakim\w*|συντηρησ\w*|odrzavanj\w*"
    r"|mantenimiento|manutencao|manutenzione|onderhoud)\b"
    r"|\b(?:inbounds?|forwarding|relaying|notifications?|sharing|autoresponders?|sync\w*|pop3?|imap|webmail"
    r"|filter\w*) (?:is |are |was |were |has been )?"
    r"(?:disabled|suspended|blocked|locked|(?:switched|turned) off)\b"
    r"|\b(?:user|recipient|owner|customer|subscriber) (?:has )?(?:disabled|blocked|(?:switched|turned) off) "
    r"(?:receiving|reception|incoming|e?-?mails?|messages?|delivery|news\w*)\b"
    r"|\bnews ?letters? (?:reception|delivery|mails?)\b"
    r"|\b(?:until|till) (?:tomorrow|(?:mon|tues|wednes|thurs|fri|satur|sun)day\b)"
)
"""Closed to some, or for some hours, or only something of it."""

SOMETHING_ELSE_DENIED = (
    rf"{CLOSED_TO_SOME}|"
    r"\b(?:a|aaaa|mx|txt|ptr) records?\b|"
    r"\b(?:service|session|connection|command|transaction|feature|extension|protocol|encoding|attachment"
    r"|subject|headers?|body|size|language|charset|consent|confirm\w*|approv\w*|whitelist\w*|challenge"
    r"|certificate|signature|keys?|tokens?|licen[cs]e|data|(?:know|recogni[sz]e) you|domains?"
    r"|hosts?|routes?)\b"
)
"""What may be the subject of such a sentence instead."""

UNKNOWN_AT_START = (
    r"^(?:the-address ?)?[: .]*(?:recipient address rejected ?: )?"
    r"(?:mailbox|user|recipient|account|address) (?:unknown|not found|does not exist)[.!] "
)
"""The whole first sentence is that there is no such mailbox; others only explain."""

_CLOSED = (
    r"(?:disabled|deactivated|inactive|suspended|discontinued|locked|expired|closed|terminated"
    r"|decommissioned|deregistered|(?:put )?on hold|parked|hibernated|lapsed|shut"
    r"|frozen|cancel+ed|archived|dormant|revoked|abandoned|out of service|deprovisioned|retired"
    r"|not (?:(?:yet |been )?(?:active|activated|enabled)|yet been activated)|locked out|(?:switched"
    r"|turned) off|shut down|barred"
    r"|no longer (?:active|in use|available|monitored|accepting|(?:accepts?|receives?)"
    r" (?:e-?)?(?:mails?|messages?))"
    r"|not (?:accept(?:ing)?|receiv(?:e|ing)|tak(?:e|ing)) (?:e-?)?(?:mails?|messages?) any ?(?:more|longer)"
    r"|in (?:an? )?(?:closed|locked|inactive|suspended) (?:state|status))"
)
_NAMED_CLOSED = (
    rf"(?: (?!{_NOUN}|{DOMAIN_NOT_BOX}\b|(?:forwarding|sending|login|notifications?|feature|sharing)\b)"
    rf"[^\s,:;]+(?= {_CLOSED}\b))?"
)
BOX_CLOSED = (
    rf"\b{BOX}{_NAMED_CLOSED} {_CLOSED}\b(?! by another\b)"
    rf"|\b{BOX}{_NAMED}{_LINK}{{0,9}}:? {_CLOSED}\b(?! (?:to (?!receive|accept|get)|by another\b))"
    rf"|\b(?!the-address|(?:mail)?address\b){BOX}{_LINK}{{0,9}}:? blocked\b(?! (?:to|by another"
    rf"|you|your)\b)"
)
_OWNED = (
    r"\b(?:recipients?|users?|customers?|accounts?)"
    r" (?:(?:e-?)?mail (?:service|access)|subscription|contract|membership|licen[cs]e|account|mailbox)"
)
CLOSED_BOX = (
    rf"\b{BOX}\b[^.;!?]{{0,40}}: it (?:is|was|has been) {_CLOSED}\b|"
    r"\b(?:account|mailbox|user|recipient)(?:disabled|inactive|suspended|locked|blocked)(?:exception)?\b|"
    rf"\b(?:user|account|mailbox) or domain (?:is|was|has been) {_CLOSED}\b|"
    rf"\b{BOX} (?:has )?suspend(?:s|ed)? (?:the|this|its) service\b|"
    rf"\b{BOX} status{_LINK}{{0,2}}:? {_CLOSED}\b|"
    r"\b(?:receiving|reception|delivery)(?: of)?(?: e?-?mails?| messages?)? (?:is |was |has been )?"
    rf"(?:disabled|suspended|switched off) (?:for|on|at) (?:this |the |that )?{BOX}\b|"
    rf"{_OWNED}{_LINK}{{0,4}} {_CLOSED}\b|"
    r"\b(?:disabled|deactivated|inactive|unactivated|suspended|discontinued|locked|expired|closed|terminated|archived"
    rf"|dormant|frozen|retired|cancel+ed|parked|abandoned) {BOX}\b"
)
CLOSED = AnyOf(BOX_CLOSED, CLOSED_BOX)
CLOSED_LOOSELY = rf"\b{BOX}\b[^.,:;!?]{{0,40}}? {_CLOSED}\b(?! (?:to (?!receive|accept|get)|by another\b))"
"""One clause says of the mailbox that it is closed."""

_ONE_OF = r"(?=[^.;!?]{0,150}?%s)"
"""What stands in the same sentence, in whatever order."""

FULL = AnyOf(
    r"\bquota\b",
    r"\bover ?quota\b",
    r"\bout of storage\b",
    r"(?<!server )(?<!system )(?<!host )\b(?:do|does|did) not have (?:enough|sufficient|any) "
    r"(?:\w+ )?(?:space|room|storage)\b",
    r"\bexhausted (?:\w+ ){0,3}(?:storage|space)\b|\bstorage (?:\w+ ){0,2}exhausted\b",
    r"\bexceed\w* (?:\w+ ){0,2}storage\b",
    r"\bstorage (?:space )?(?:allocation|limit|exceeded|full)\b",
    rf"\b{BOX}{_LINK}{{0,4}}:? (?:full|over (?:its |the |their )?(?:\w+ )?limit)\b",
    rf"\b{BOX} (?:disk )?space (?:is )?(?:full|exhausted)\b",
    rf"\b{BOX}{_LINK}{{0,4}} (?:reached|hit) (?:its |the )?(?:\w+ )?(?:size|capacity)\b",
    rf"\bfull (?!(?:e-?mail |mail)?address|recipient address|user ?name){BOX}\b",
    rf"\b{BOX}{_LINK}{{0,4}}:? (?:too |completely |almost )?(?:full|filled(?: up)?|oversized|maxed out"
    r"|exhausted)\b",
    r"\b(?:over|exceed\w*|beyond|above) (?:\w+ ){0,3}(?:allowance|allotment|allocation)\b",
    r"\bcan not (?:hold|store|keep) (?:any ?)?more\b",
    r"(?<!server )(?<!system )(?<!host )\b(?:is|has run|ran) out of (?:mail |mailbox )?space\b",
    rf"\binsufficient (?:\w+ )?(?:storage|space) (?:of|in|for) (?:\w+ )?{BOX}\b",
    rf"\b{BOX}s?{_LINK}{{0,4}}(?: size| storage)? (?:has |have |is |been ){{0,2}}exceed\w* "
    r"(?:\w+ ){0,3}(?:size|limit|capacity|space|allocation|storage)\b",
    r"\b(?:mail ?box|inbox|account|storage) (?:size|capacity|space|storage)(?: limit)? "
    r"(?:is |has been |was )?(?:full|exceed\w*|reached|exhausted|used up)\b",
    rf"\b{BOX}{_LINK}{{0,4}} (?:no|insufficient|not enough|out of) (?:\w+ )?(?:space|room|storage)\b",
    rf"\b(?:no|insufficient|not enough|out of) (?:\w+ )?(?:space|room|storage) (?:\w+ )?(?:in|for|on|of) "
    rf"(?:(?:the|this|that|recipients|users) )*{BOX}\b",
    rf"\b{BOX}{_LINK}{{0,4}} (?:at|over|beyond) (?:(?:its|full|the|their|maximum) )*(?:capacity|limit"
    rf"|size)\b",
    r"\b(?:mailbox|disk|storage) usage (?:is )?(?:above|over|beyond|exceed\w*)\b",
    r"\bmore (?:\w+ )?(?:space|storage) than\b",
    r"\ballotted (?:storage|space)\b|\bused up (?:\w+ ){0,4}(?:storage|space)\b",
    r"\b(?:mailbox|account|user) storage (?:\w+ ){0,2}(?:exceeded|full|reached)\b",
)
FULL_LOOSELY = (
    r"(?:^|[.;!?] ?)"
    + _ONE_OF % rf"\b(?:{BOX}|mbox|mail ?dir|mail ?file|mail ?store)\b"
    + _ONE_OF % r"\b(?:space|storage|room|capacity|quota|size|disk|inodes?)\b"
    + _ONE_OF
    % r"(?:\b(?:full|exceed\w*|reach\w*|used up|exhaust\w*|no|not|insufficient|over|beyond|above|left"
    r"|out of)\b|\b100 ?%)"
)
"""One sentence has the mailbox, its space, and that it is used up."""

OUR_ALLOWANCE = r"\bout(?:going|bound)\b|\byour (?:\w+ )?(?:account|plan|subscription)\b"
"""Speaks of what we may send, or have with our own provider: that may be used up or closed, too."""

OUR_BOX = r"\byour (?:\w+ )?(?:mailbox|inbox|address)\b"
"""Speaks of a mailbox of ours."""

QUOTA_UNKNOWN = (
    rf"\bquota {{1,2}}(?:\w+ )?(?:{OTHER_THING}|(?:system|service|server|daemon|database|file|plugin"
    r"|back-?end|look-?up|query|record|status|information)s?)\b(?!.*\b(?:exceed\w*|over|full|reached)\b)"
    r"|\b(?:read\w*|get\w*|determin\w*|look\w* up|query\w*|retriev\w*|fetch\w*|load\w*|comput\w*|calculat\w*)"
    r" (?:\w+ ){0,2}?quota\b(?!.*\b(?:exceed\w*|over|full|reached)\b)"
)
"""The server could not find out how much room the mailbox has."""
NOT_FULL_LOOSELY = (
    rf"{OUR_ALLOWANCE}|{QUOTA_UNKNOWN}|"
    rf"\b(?:unknown|no such) {BOX}\b|\bdatabase\b|\bnot found\b|"
    r"\b(?:messages?|mails?) (?:(?:of (?:this|that|such) )?size|(?:is |was )?too|exceed\w*)\b"
    r"|\btoo (?:large|big|long|many)\b|\bsystem\b|\bserver\b|\btransaction\b|\battachments?\b"
    r"|\b(?:domain|user|address|local[ -]?part) (?:name )?(?:size|length)\b"
)
FULL_OF_MESSAGES = AnyOf(
    r"\b(?:mailbox|inbox|maildir|mail ?drop|folder)\b[^.;!?]{0,40}\b(?:maximum|limit)\b[^.;!?]{0,20}"
    r"\b(?:messages|mails)\b(?! (?:per|an?|it|that|which|in \w+ (?:hour|minute|day))\b)",
    rf"\btoo many (?:messages|mails|e-?mails|files) (?:stored )?(?:on|in|at) (?:\w+ ){{0,2}}(?:server"
    rf"|{BOX}|folder|maildir)\b",
    r"\b(?:messages|mails|e-?mails) (?:stored )?(?:in|on) (?:\w+ ){0,3}(?:mailbox|inbox|maildir)"
    r"(?: (?:has|have))? exceed",
    r"\bzu ?viele (?:e-?)?(?:mails|nachrichten) (?:\w+ ){0,2}(?:server|postfach)\b",
    r"\b(?:trop de messages|demasiados (?:mensajes|correos)|muitas mensagens|tropp[ie] (?:messaggi|e-?mail)"
    r"|te veel berichten) (?:dans|sur|en|na|nella|nel|sul|in|op)\b",
    r"\b(?:holds|contains|has) too many (?:messages|mails|e-?mails)\b",
    r"\btoo much (?:e-?)?mail (?:is )?(?:data|stored|waiting|kept|in (?:the|this|that) )\b",
    r"\b(?:mailbox|inbox|maildir|mail ?drop) (?:\w+ )?(?:limit|maximum)(?: size)? (?:is |was |has been )?"
    r"(?:exceeded|reached)\b",
    r"\b(?:mail ?box|inbox|maildir|mail ?drop)(?: the-address| has| is)* (?:exceed\w*|over|beyond|above|past)"
    r" (?:(?:the|its|his|her|their|an?|allowed|permitted|agreed|maximum|size|set) )*(?:limit|maximum)\b"
    r"(?! of \w+ per\b)",
    r"\bmessages? (?:count )?(?:limit|quota)\b.{0,20}\b(?:mailbox|inbox|quota)\b"
    r"|\bquota\b.{0,30}\bmessages? limit\b",
)
"""The number of messages in a mailbox is no rate."""

NOT_FULL = (
    rf"{OUR_ALLOWANCE}|{QUOTA_UNKNOWN}"
    r"|\binsufficient (?:system|disk)|\bsystem (?:storage|resources)|\bdisk space|\btoo many"
)


# About rates, limits and greylisting.

_BAD = r"(?:invalid|unknown|bad|wrong|non-?exist[ea]nt)"
_BAD_LOCALIZED = AnyOf(
    _UNKNOWN_LOCALIZED,
    r"inval\w+",
    r"inexist\w+",
    r"ungultig\w*",
    r"(?:несуществ|неверн)\w+",
    r"(?:nieistniej|bledn)\w+",
)
_MANY = AnyOf(
    r"\btoo (?:many|much)\b(?! hops| relays| received)",
    r"\btoo (?:fast|quickly|often|frequently|rapidly|soon)\b",
    r"\bexcess(?:ive(?:ly)?)?\b",
    *(language.many for language in (*languages.LANGUAGES, *languages.UNSPACED)),
    rf"\b(?:{_BAD} {BOX}|{_BAD}(?: \w+)?)s? (?:count|ratio|rate|percentage|threshold|limit)s?\b",
    rf"\b(?:counts?|ratio|number|percentage|share|proportion|rate) of (?:\w+ )?{_BAD}\b",
    r"\b(?:anzahl|zahl|nombre|limite|numero|a?antall?|liczb\w+|pocet|число|количество|кількість) "
    rf"(?:(?:de|d|der|an|di|av) )?(?:\w+ )?{_BAD_LOCALIZED}\b",
)
_SPEED = AnyOf(
    r"\brate[ -]?(?:control|exceed|limit|overlimit)",
    r"\b(?:sending|receive|connection|message|submission|unusual) rate\b|\bat a rate\b",
    r"\bthrottl|\bback-?off\b",
    r"\bslow(?:ing)? down\b",
    r"\bfrequency\b",
    r"\bconcurren|\bsimultane",
    r"\bper (?:hour|day|minute|second)\b|\bhourly\b|\bdaily\b",
    r"\bunexpected volume\b|\buser complaints\b",
    r"\b(?:mail|message) quota (?:for|of) your (?:host|server|ip|network)\b",
    r"(?:连接|連接|連線|邮件|郵件|发送|發送)[^,.。]{0,6}(?:过多|過多|频繁|頻繁|太多|超限)|接続[^,.。]{0,4}多すぎ",
    r"\bthread limit\b|\b(?:connection|message|recipient) cap\b|\bfewer \w+ at (?:once|a time)\b",
    r"\b(?:sender|sending|send|daily|hourly|rate|connection|verification|look-?up|query)"
    r" (?:message |mail )?quota\b",
)
RATE = AnyOf(_MANY, _SPEED)
"""Speaks of how much or how fast we send, or a mailbox receives."""

LIMIT = AnyOf(
    r"\blimit (?:is |was |has been )?(?:exceeded|reached)\b",
    r"\bexceed\w* (?:\w+ ){0,3}(?:limit|maximum)\b",
    r"\b(?:recipient|connection|session|message) limit\b",
    r"\bmax(?:imum)? (?:number of |concurrent )?(?:connections|recipients|messages|sessions)\b",
    r"\bmaximum (?:\w+ ){0,3}rate\b",
    r"\blimits? for how many\b",
)
GREYLISTING = AnyOf(
    r"gr[ea]y[ -]?list",
    r"\bpostgrey\b|\bgra\w* ?list\w*\b|\bszar\w+ list|\bсер\w+ спис|\bсір\w+ спис"
    r"|灰名[单單]|グレーリスト",
    r"\blistes? grises?\b|\blista gris\b|\blista grigia\b|\blista cinza\b|\bgrijze lijst\b",
    r"\bnot yet authori[sz]ed to deliver\b",
    r"\bretry timeout not reached\b",
    r"\binternal resources? (?:is |are )?temporarily unavailable\b",
)
GREYLISTING_MANNER = AnyOf(
    r"\btemporar(?:il)?y (?:rejected|deferred|delayed)\b",
    r"\b(?:deferred|come back later)\b",
    r"\b(?:try(?: it)?|come|retry|send)(?: again| back)? (?:in|after) \d",
)
STORAGE_OR_LENGTH = (
    r"\bstorage\b|\bsize\b|\bcapacity\b|\broom\b|\blength\b|\bspace\b|\bquota\b|\bfull\b|\binodes?\b"
)
"""What a limit may be about that is no rate."""

SERVER_TROUBLE = r"\btemporary server error\b|\btls not available\b|\bconfiguration error\b|\boverload"

_CUSTOMER = r"\b(?:customer|subscriber|client|kunde|cliente|klant)"
SOMETHING_ELSE_MISSING = AnyOf(
    r"\b(?:host|server|domain|route|gateway|relay|exchanger)s? (?:for|of|behind|serving)"
    rf" (?:\w+ ){{0,2}}?{BOX}\b",
    r"\baddress (?:for|of) (?:\w+ ){0,2}?(?:host|domain|server)\b",
    r"(?<!\bno )\bforward(?:ing)? (?:address|target|destination)\b",
    r"\b(?:rcpt|recipient) (?:options?|parameters?)\b",
    r"\b(?:host|hostname|domain|dns|record|mx|server)s? (?:name )?(?:is |was |may |does )?"
    r"(?:not found|unknown|not exist|invalid|lookup)\b",
    r"\b(?:no such|unknown|invalid) "
    r"(?:host|domain|database|table|column|field|relation|function|file|socket|service|session|command"
    r"|tenant|organi[sz]ation)\b(?! user\b)"
    r"|\b(?:table|column|file|relation)(?: \S+){1,2}? (?:(?:is|was|does) )?not (?:exist|found|known)\b",
    r"\b(?:host|domain|mx|zone)s?(?: name)? (?:is |was |has |does )?"
    r"(?:not (?:known|hosted|served|handled|provisioned|configured|set up|defined)|gone|lapsed|withdrawn)\b",
    r"\b(?:no|unknown|kein\w*|aucune?|ningun\w?|nessuna|geen|nie ma|нет) (?:\w+ )?"
    r"(?:connectors?|tenants?|mandant|licen[cszt]\w+|lizenz\w*|лицензи\w+|configuration)\b",
    rf"(?:\bdomain|\w\.\w+) (?:is )?(?:not|no longer) an? {_CUSTOMER}",
    rf"{_CUSTOMER} (?:of|de\w*|dieses|unsere[rs]|van) (?:\S+ ){{0,3}}?"
    r"\w*(?:filter|gateway|protect|schutz|securit|scanning)",
    r"\b(?:host|domain|server) [\w-]{1,63}(?:\.[\w-]{1,63}){1,6} (?:is |was |does )?"
    r"(?:not found|unknown|not exist)\b",
    r"\b(?:database|table|ldap|map|backend)\b(?: \w+)?:? "
    r"(?:not found|unknown|unavailable|error|fail)",
    rf"\b(?:database|table|ldap|backend|directory|{OTHER_THING})(?: (?:server|service))? {{1,2}}(?:(?:is"
    rf"|are|was) )?"
    r"(?:currently )?(?:offline|down|unreachable|locked|restarting"
    r"|not (?:available|reachable|ready|responding|loaded))\b",
    r"\bfind the recipient domain\b",
    r"\b(?:(?<!mail )files?|keys?|sessions?|tokens?|modules?|pages?|resources?|connectors?|gateways?"
    r"|configs?|scripts?|filters?|messages?|objects?(?!.{0,30} in (?:\w+ )?directory\b)|partners?"
    r"|organi[sz]ations?|tenants?|licen[cs]es?|next hops?|transports?"
    r"|routes?|zones?) (?:(?:is|was|does|could|can) )?(?:not (?:be )?(?:found|known|exist|provisioned)"
    r"|unknown)\b",
    r"\b(?:datei|fichier|archivo|arquivo|file|bestand|plik|фаил|dosya|soubor|fil(?:en)?|fajl|fisier)\w{0,2}"
    r" (?:nicht|introuvable|no|nao|non|niet|nie|не|bulunam\w+|nenalez\w+|finns|findes|ikke|nem|nu)\b",
    r"\b(?:domain|host) of (?:the |your )?\w+ (?:(?:is|was|does|could|can) )?"
    r"(?:not (?:be )?(?:found|exist)|unknown)\b",
)
"""Says that a domain, a host or a table of the server is not there."""

UNROUTABLE = (
    r"\bunroute?able address\b|\bnot our customer\b|\buser does not have an? \S+ account\b"
    r"|\buser has not got the service mapped\b"
)
"""Exim's words for an address that no router of its own accepts, and others' like them."""

MAILBOX_UNAVAILABLE = (
    r"\bmailbox (?:the-address )?(?:is )?(?:unavailable|not available)\b"
    r"|\b(?:account|user|recipient) (?:is )?(?:unavailable|not available)(?= ?(?:$|[.,;!)]))"
)
"""RFC 5321's words for 550."""

DOMAIN_CLOSED = (
    rf"\bdomain (?:the-address |[\w-]+\.[\w.-]+ )?(?:(?:is|was|has been|has|account) ){{0,2}}{_CLOSED}\b"
    rf"(?=.*\b(?:unavailable|not available)\b)"
    rf"|(?:{MAILBOX_UNAVAILABLE}).{{0,40}}\bdomain (?:(?:is|was|has been) )?{_CLOSED}\b"
)
"""The mailbox is unavailable as the domain it is in is closed."""

EXCHANGE_DIRECTORY = r"\brecipient address(?:es)? rejected ?: access denied"

_BARRED = (
    rf"(?:{_CLOSED}|blocked|taken (?:out of|off)|(?:put |taken )?out of (?:service|use)"
    r"|stopped|ended|taken down|withdrawn)"
)
_WHOSE = (
    r"(?:(?:this|that|the|recipients?|users?|customers?|members?|subscribers?|owners?|his|her|their) ){1,3}"
)
_HIS_BOX = r"(?:e-?mail )?(?:account|mailbox|inbox|box|user|recipient|customer|member|subscriber|e-?mail)"
CLOSED_FOR_A_REASON = AnyOf(
    rf"\b(?:{_WHOSE}){_HIS_BOX} (?:is|was|has been|had to be|remains) (?:now |currently |permanently )?"
    rf"{_BARRED} ?(?:$|[.,;:(]|(?:because|due|for|after|by|since|on|as|following|per|under)\b)"
    r"(?! ?(?:sending|outbound))",
    rf"\b(?:{_WHOSE}){_HIS_BOX} may (?:sign|log) in no (?:more|longer)\b",
    r"\b(?:owner|user|customer|holder|heirs|family|administrator|management)\b[^.;!?]{0,30}? "
    r"(?:close[ds]?|blocked|locked|disabled|suspended|cancel+ed|shut|switched off) "
    r"(?:this|the|his|her|their) (?:account|mailbox|inbox|box)\b",
    r"\b(?:mail )?service (?:for|of) (?:this|that|the) (?:box|mailbox|account|user|customer|recipient) "
    rf"(?:is|was|has been) {_BARRED}\b",
    r"\b(?:dieses|das) (?:konto|postfach)(?: des empfangers)? (?:ist|wurde) (?:\S+ ){0,5}?"
    r"(?:gesperrt|geschlossen|deaktiviert|stillgelegt|abgeschaltet)\b",
    r"\b(?:ce|cette|le|la) (?:compte|boite)(?: d[eu]s?)?(?: (?:l|ce|cet|cette))?"
    r"(?: (?:client|usager|utilisateur|abonne|destinataire))? (?:est|a ete) (?:\S+ ){0,3}?"
    r"(?:suspendu|ferme|bloque|desactive|cloture|resilie)e?\b",
    r"\b(?:esta|la|a) (?:cuenta|conta)(?: d\w+ (?:usuario|utilizador|cliente|destinatari[oa]))? "
    r"(?:ha sido|fue|foi|esta) (?:\S+ ){0,3}?(?:suspendid|suspens|bloquead|cerrad|encerrad|cancelad"
    r"|desactivad|desativad)[oa]\b",
    r"\b(?:questa|la) casella(?: dell utente| del destinatario)? (?:e stata|e) (?:\S+ ){0,3}?"
    r"(?:sospesa|bloccata|chiusa|disattivata)\b",
    r"\b(?:dit|het) (?:account|postvak)(?: van \w+ (?:klant|gebruiker|ontvanger))? (?:is|werd) (?:\S+ ){0,5}?"
    r"(?:geblokkeerd|afgesloten|opgeschort|gesloten|opgezegd)\b",
)
"""This mailbox and no other is closed; what follows is only why: unpaid, misused, its owner's wish."""

NOT_CLOSED_FOR_A_REASON = AnyOf(
    SENDER,
    CLIENT,
    LISTED,
    IP_LITERAL,
    TEMPORARILY,
    r"\byour\b",
    CLOSED_TO_SOME,
    r"\b(?:until|till|tomorrow|today|again|only|members|another|process|session|unknown|inconnus)\b",
    r"(?<!\bper )(?<!\bunder )(?<!\bper our )(?<!\bunder our )\bpolicy\b",
    r"\boutbound|\brelay|\bspam|\bdomain (?:is|was|has)\b|\bby (?:another|you)\b",
    languages.YOURS,
)
"""Makes words of this account say something about ours."""

TAKES_NO_MAIL = (
    r"\bnot accepting\b|\b(?:not|unable to) receiv|\bno longer accepts?\b|\bdisabled\b|\binactive\b"
)
"""Beside a code that says the mailbox is disabled."""

NOT_THE_CLOSED_MAILBOX = AnyOf(
    SENDER, CLIENT, LISTED, AUTHENTICATION, CONTENT, IP_LITERAL, CLOSED_TO_SOME, TEMPORARILY
)
"""Makes words of a closed mailbox say something about us."""

# About the mailbox, in other languages than English.

_SAID = r"(?:[^.;:!?]|\.(?! )){0,60}?\b"
"""What may stand between a noun and what the same sentence says of it."""

_STATE = (
    r"(?:,? (?:the-address|derzeit|aktuell|momentan|leider|actuellement|actualmente|attualmente|atualmente"
    r"|momenteel|obecnie|aktualne|ist|sind|wurde|est|a|ete|es|esta|e|foi|ha|sido|du|de|del"
    r"|della|des|do|da|dell"
    r"|utilisateur|usuario|destinatario|destinataire|empfangers|utente|stat[oa]|is|werd|al|el|o"
    r"|se|encuentra"
    r"|jest|zostal[ao]?|odbiorcy|uzytkownika|adresata|je|byl[ao]?|uzivatele|prijemce|ar|er|har|blivit"
    r"|har blivit"
    r"|este|a fost|on|е|на|получателя|пользователя|адресата|был[ао]?|почтовый))"
)
"""A verb between a noun and its state, or whose mailbox it is."""

_BECAUSE = r"(?:wegen|aufgrund|pour|por|per|vanwege|wegens|durch|par|da|door|von|vom)"

_ELSE = (
    r"(?:dominio|domaine?|domein|hostname|rechnername|nom d hote|(?:\w*-)?domane|dns\S*|mx\S*"
    r"|(?:empf(?:ae|a)nger|mottagar|modtager|ontvanger)s?[- ]?(?:doma?a?i?ne?|server|host)\w*|name ?server"
    r"|domen\w*|doman\w*|alan adi|sunucu\w*|serwer\w*|домен\w*|хост\w*|сервер)"
)
_ABSENT_LOCALIZED = AnyOf(*(language.absent for language in languages.LANGUAGES))

_SUBJECT = r"(?:^|[.;:!] ?)(?:(?:el|la|le|l|der|die|das|il|lo|o|a|de|het) )?"

_CLOSE = (
    r"(?:lock|clos|fro?[ez]|archiv|suspend|disabl|cancel)\w*|(?:ge|zu ?)?(?:sperr|schlie|schloss|lock)\w*"
    r"|(?:verrouill|bloqu|ferm|clotur|cerr|encerr|bloc+|chiu|vergrendel|zablok|uzam|lukk|las|блокир|закры)\w*"
)
CLOSING_FAILED = (
    rf"\b(?:can|could|may) not (?:be )?(?:get )?(?:an? )?(?:{_CLOSE})"
    rf"|\b(?:fail\w*|(?:un|not )able|(?:error|trouble|problem) (?:in|while|when)) "
    rf"(?:to )?(?:get |be )*(?:an? )?(?:{_CLOSE})"
    rf"|\b(?:konnte|kann) (?:\w+ )?nicht (?:\w+ )?(?:{_CLOSE})"
    rf"|\b(?:pas (?:pu|possible)|impossible|imposible|impossivel|impossibile"
    rf"|(?:no|nao|non) (?:(?:se|si|es|e) )?"
    rf"(?:pud[oe]|puede|pode|foi possivel|puo|possibile|stato possibile)|niet|nie (?:mozna|udalo sie)|nelze"
    rf"|kunne ikke|kan inte|не (?:может|удалось|удается)) "
    rf"(?:de |d |a |etre |ser |essere |worden |byt )*(?:{_CLOSE})"
)
"""The server failed to lock or to close a mailbox, which is open then."""

EXISTS_BUT = (
    r"(?<!\bnot )(?<!\bno )(?<!\bnao )(?<!\bnon )(?<!\bn )(?<!\bnie )(?<!\bне )\b"
    r"(?:exists|known|existiert|bekannt|existe|connu|conocido|conhecido|esiste|bestaat|bekend|istnieje|znany"
    r"|существует|известен),? (?:(?!nicht|pas|plus|niet|nie)\w+ )?"
    r"(?:but|aber|jedoch|mais|pero|mas|ma|maar|ale|lecz|но|але)\b"
)
"""The mailbox is there; what is denied then is something else."""

NOT_THE_BOX_LOCALIZED = AnyOf(
    CLOSING_FAILED,
    QUOTA_UNKNOWN,
    r"\b(?:vous (?:n )?etes|usted(?:es)? (?:no )?(?:es|son|esta)|voce (?:nao )?e|sie sind|du bist"
    r"|lei (?:non )?e|u bent|jij bent|вы (?:не|ещё не|должны)|ви не|siz|du ar|du er"
    r"|usted(?:es)? no|voce nao|vous ne|lei non|sie (?:stehen|sind|haben) nicht|u (?:staat|komt) niet)\b",
    r"\b(?:schlussel|cle|clave|chave|chiave|sleutel|klucz|klic|nyckel|nokkel|nogle|ключ|anahtar|kulcs|avain"
    r"|κλειδι|certifi|zertifi|сертифик|сертифік)\w{0,6}\b",
    r"\b(?:transfert|redirection|reexpedition|reenvio|reencaminhamento|inoltro|weiterleitung\w*|doorstuur\w*"
    r"|przekierowan\w*|presmerovan\w*|пересылк\w*|переадрес\w*)\b",
    rf"{_SUBJECT}(?:{_ELSE}|{languages.MACHINE}) (?:de|des|du|del|della|dell|do|da|van|von|odbiorcy|prijemce"
    r"|получателя|адресата)\b",
    rf"{_SUBJECT}(?:{_ELSE}|{languages.MACHINE}) (?:destinatai?r[eoi]\w*|distante?|remot[oa])\b",
    rf"\b{_ELSE}(?: (?!de|des|du|del|do|da)\S+)?,? {_ABSENT_LOCALIZED}\b",
    r"\bhost ?name|\brechnername|\bnom d hote|\bnombre del? (?:host|equipo|servidor)",
    r"\bnome (?:\w+ )?host|\bdns\b",
    languages.YOURS,
    _NOT_TOLD,
    RULE,
    CLOSED_TO_SOME,
)
"""Says that something else is not there, or speaks of what is ours or allowed."""

BESIDE_A_BARE_CODE = AnyOf(
    EXISTS_BUT,
    NOT_THE_MAILBOX,
    NOT_THE_BOX_LOCALIZED,
    r"\b(?:dominio|domaine|domein|\w*-?doman\w*|domen[ayu]?\w*|domaen\w*|alan adi|etki alan\w*|tartomany\w*"
    r"|verkkotunnus\w*|serveur|servidor|sunucu\w*|serwer\w*|rechner\w*|домен|хост|сервер|hote"
    r"|commands?|befehle?|commandes?|comandos?|comand[oi]|opdracht|polecenie|prikaz|команд\w+)\b",
    r"\b(?:can|could) not (?:be )?(?:open|creat|append|writ|lock|access|read|stor|sav)\w*|\bnot mounted\b"
    r"|\block ?files?\b|\blicen[cs]es?\b|\bloops?\b|\b(?:honey ?pot|spam ?trap|mailer)s?\b"
    r"|\b(?:before|after|without|need) (?:the |an? )?(?:mail|rcpt|data|[eh]+lo)\b"
    r"|\brcpt to:? (?:\w+ )?syntax\b|\bnot for (?:this|that|the|our|any)\b"
    r"|\btry (?:the|our|an)? ?(?:primary|other)\b|\bclosed (?:mailing )?(?:list|group)s?\b",
    r"\b(?:recipients?|owners?) domain\b|\bdomain owner\b|\bno mx\b|\b(?:a|aaaa|mx|ptr) records?\b"
    r"|\ba route to\b|\banti-?abuse\b|\bcontacted\b|\bnumber of\b|\bpaid\b",
    r"\b(?:open(?:ed|ing)?|chdir|offnen|geoffnet|ouvrir|ouverture|abrir|apertura|aprire|openen|geopend|otworz\w*"
    r"|откры\w*|otevr\w*|oppna\w*|apne\w*|megnyit\w*|acilama\w*|avata)\b",
    languages.fold("打开|打開|開け|開く|열 수"),
    r"\b\w{4,}server\w{0,2}\b|\b(?:lehnt|verweigert|refuse|rechaza|rejeita|recusa|rifiuta|weigert|odmawia"
    r"|odrzuca|odmita|avvisar|afviser|kieltaytyy|elutasitja|reddediyor|отклоняет|отвергает|отказывает)\b",
    languages.fold(
        "垃圾|黑名单|黑名單|封锁|封鎖|策略|迷惑|スパム|ブラックリスト|拒否|ポリシー|스팸|차단|정책"
    ),
    languages.fold(
        "域名|服务器|伺服器|網域|网域|ドメイン|サーバ|도메인|서버|โดเมน|เซิร์ฟเวอร์"
        "|(?:数据库|資料庫|表|データベース|テーブル|데이터베이스)(?![中里裡内內上にで에])"
    ),
)
"""Speaks in any language of something that need not be the mailbox: a code alone does not make it that."""

_PEOPLE = AnyOf(
    r"\b(?:(?:any|every|no|some) ?(?:body|one)|persons?|people|members?|employees?|pupils?|students?|owners?"
    r"|teachers?|residents?|staff|them|him|her|his|receivers?|employed)\b",
    r"\b(?:person[aeo]\w{0,2}|personn?el?\w*|niemand|iemand|mitarbeiter\w*|alguien|alguem|nessuno|ninguem"
    r"|nadie|osob\w*|nikt\w*|nikdo|ogrenci\w*|chercheur\w*|etudiant\w*|alumno\w*|сотрудник\w*|никто"
    r"|никого)\b",
    *(rf"\b{language.box}" for language in languages.LANGUAGES),
    *(language.box for language in languages.UNSPACED),
)
NO_DELIVERY = (
    r"\b(?:can|could|do|will|does) not deliver (?:(?:e-?mail|mail|messages?|anything) )?(?:for"
    r"|to) [{<(]?\s?the-address"
    r"|\bunable to deliver (?:(?:e-?mail|mail|messages?) )?(?:for|to) [{<(]?\s?the-address"
    r"|\bmail for [{<(]?\s?the-address[})>]? (?:can|could) not be delivered"
)
SAYS_NOTHING = (
    r"(?:(?:requested|mail|action|not|taken|aborted|and|or|the|this|that|sorry|we|are|is|was|but|has|been|on|at"
    r"|our|servers?|no|thank|thanks|you|rejected|refused|delivery|failed|failure|error|permanent|fatal|for|more"
    r"|explanation|information|details?|please|visit|see|try|again|a-link|the-address|id0000000|mx|example|test"
    r"|smtp|code|recipient|address|rcpt|to|in|reply|mode|normal|undeliverable"
    r"|destination|refer|codes|section|\d{1,6})(?![\w-])[^\w\[-]*|\[[^\[\]]{0,120}(?:\]|$)[^\w\[-]*){0,30}"
)
_FRAME = (
    r"(?:recipient |user |mailbox )?(?:e-?mail )?(?:address )?(?:is |was )?"
    r"(?:rejected|refused|not accepted)\b"
)
NO_MORE_THAN_THE_CODE = AnyOf(
    r"^\W*(?:does|do) not exist\b|^\W*\w\W*$",
    rf"^\W*{SAYS_NOTHING}(?:(?:bad|invalid|wrong|valid|unknown|known|found|here)\b[^\w\[-]*{SAYS_NOTHING})?$",
    *(rf"^\W*{language.absent}\W*$" for language in languages.LANGUAGES),
    r"\b(?:recipient|mailbox) (?:\w+ )?(?:contains an? )?syntax\b",
    r"\b(?:user address required|ambiguous address)\b|^\W*\w+ is gone\W*$",
)
"""Words that say nothing, or only once more what the code says."""

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)\w*"
OF_SOMEBODY = AnyOf(
    rf"^\W*(?!no|mails?\b|messages?\b)[a-z]+ (?:has )?left (?:in (?:\d{{4}}|{_MONTH})|last \w+)\W*$",
    rf"\b(?<!the-)(?!the-address\b|{_FRAME}){BOX}s?\b|\bthe-address (?:is|was|has|does|not|unknown)\b"
    r"|\w@ (?:is|was|does)\b",
    r"\b(?:mailboxes|addresses|box(?:es)?|lists?|names?|entry|passwd|spelling|typo)\b",
    *_PEOPLE.parts,
    rf"\b(?<!the-)(?!the-address\b|{_FRAME}){languages.BORROWED}",
    NO_MORE_THAN_THE_CODE,
)
"""Speaks of a mailbox or of people, or of nothing: a code about the mailbox may count.

That the recipient, by his address, is rejected is only what every server writes before its reason.
"""

NO_DELIVERY_ALONE = AnyOf(
    rf"(?:{NO_DELIVERY})\W*{SAYS_NOTHING}$",
    rf"(?:{NO_DELIVERY}).*(?:\b(?:recipient|user|account)\b|{_PEOPLE})",
)
"""Delivers nothing to this address, and names no reason that is none of the mailbox."""

UNAVAILABLE_ALONE = AnyOf(
    rf"^\W*{SAYS_NOTHING}(?:{MAILBOX_UNAVAILABLE})\W*{SAYS_NOTHING}$",
    rf"(?:{MAILBOX_UNAVAILABLE}).*(?:\b(?:recipient|user|address|customer|account)\b|{_PEOPLE})",
    rf"(?:\b(?:recipient|user|address|customer|account)\b|{_PEOPLE}).*(?:{MAILBOX_UNAVAILABLE})",
)
"""RFC 5321's words for 550, and what stands beside them is of the mailbox, too, or says nothing: many servers
write them before a reason of their own."""

NOT_THE_MAILBOX_LOCALIZED = AnyOf(NOT_ONLY_THE_MAILBOX, NOT_THE_BOX_LOCALIZED, A_SERVER, EXISTS_BUT)
NOT_THE_MAILBOX_BY_MEANING = AnyOf(NOT_ONLY_THE_MAILBOX, SOMETHING_ELSE_DENIED, NOT_THE_BOX_LOCALIZED)
"""Makes a sentence of another language, or one whose wording is not known, doubtful."""

_STORAGE_USED_UP = (
    r"\b(?:sin|sem|sans|senza|ohne|zonder|bez|kein|pas d|plus d|plus de) (?:\w+ )?"
    r"(?:espacio|espaco|espace|spazio|(?:speicher)?platz|ruimte|miejsca|mista)\b"
    r"|\bspeicher\w* (?:\S+ ){0,3}?erreicht\b|"
    r"\bнет (?:свободного )?места\b"
    r"|\b(?:speicher(?:platz)?|espace|stockage|espacio|espaco|armazenamento|spazio|opslagruimte)\b"
    r"(?: \S+){0,6} (?:erschopft|aufgebraucht|belegt|insuffisant|depasse|epuise|agotado|esgotado"
    r"|insu?ff?iciente|esaurito|vol)\b"
    r"|\bspeicher(?:u(?:be|ebe)rschreitung|mangel)\b"
    r"|\b(?:u(?:be|ebe)rschreitung|exceso|excesso|exceder|depassement|superamento|overschrijding|przekroczeni\w+)"
    r" (?:\S+ ){0,3}?(?:speicher\w*|espace|stockage|espacio|almacenamiento|espaco|armazenamento|spazio"
    r"|opslagruimte|pojemnosci)\b"
)


def _box(language: languages.ReplyLanguage) -> str:
    return AnyOf(language.box, languages.BORROWED)


def _closed(language: languages.ReplyLanguage) -> str:
    return AnyOf(
        rf"\b{_box(language)}{_STATE}{{0,4}} {language.closed}\b",
        rf"\b(?!{languages.ADDRESS}){_box(language)}{_STATE}{{0,4}} {language.blocked}\b(?! {_BECAUSE}\b)",
    )


def absent_in(language: languages.ReplyLanguage) -> str:
    """Return what says in this language that a mailbox does not exist."""
    return rf"\b{_box(language)}\b{_SAID}{language.absent}\b|\b{language.no} {_box(language)}\b"


_BETWEEN = r"(?: ?[(]? ?the-address ?[)]?)?[^,.;。、]{0,14}?"
"""What may stand between a noun and what is said of it, in a language without blanks."""


def absent_unspaced(language: languages.UnspacedLanguage) -> str:
    """Return what says in a language without blanks that a mailbox does not exist."""
    return rf"{language.box}{_BETWEEN}{language.absent}|{language.no} ?{language.box}|^{language.no}\W*$"


def closed_unspaced(language: languages.UnspacedLanguage) -> str:
    """Return what says in a language without blanks that a mailbox is closed."""
    return rf"{language.box}{_BETWEEN}{language.closed}|{language.closed}[^,.。、]{{0,4}}?{language.box}"


def full_unspaced(language: languages.UnspacedLanguage) -> str:
    """Return what says in a language without blanks that a mailbox is full."""
    return (
        rf"(?:{language.box}|{language.space}){_BETWEEN}{language.full}"
        rf"|{language.full}.{{0,6}}?{language.space}"
    )


def other_unspaced(language: languages.UnspacedLanguage) -> str:
    """Return what speaks in a language without blanks of anything but the mailbox."""
    return rf"{language.sender}|{language.other}"


FULL_LOCALIZED = AnyOf(
    *(rf"\b{_box(language)}\b[^.;:!?]{{0,40}}? {language.full}\b" for language in languages.LANGUAGES),
    _STORAGE_USED_UP,
)
CLOSED_LOCALIZED = AnyOf(*map(_closed, languages.LANGUAGES))
_NOT_ACTIVE_LOCALIZED = (
    r"\b(?:nicht|kein\w*|pas|plus|no|non|nao|niet|nie|inte|ej|ikke|ei|ni|nije|nu|nem|не|δεν"
    r"|tidak) (?:\S+ ){0,2}?"
    r"(?:aktiv\w*|aktywn\w*|activ\w*|actief|attiv\w*|актив\w*|aktif|ενεργ\w*)"
)
CLOSED_LOOSELY_LOCALIZED = AnyOf(
    *(
        rf"\b{_box(language)}\b{_SAID}(?:{language.closed}|{_NOT_ACTIVE_LOCALIZED})\b"
        for language in languages.LANGUAGES
    )
)
"""The same sentence says of the mailbox that it is closed."""

BLOCKED_LOOSELY_LOCALIZED = AnyOf(
    *(
        rf"\b{_box(language)}\b{_SAID}(?:{language.closed}|{language.blocked})\b"
        for language in languages.LANGUAGES
    )
)
"""The same sentence says of the mailbox that it is closed, or blocked: beside a code that says so too."""

CLOSED_ANYHOW = AnyOf(
    CLOSED,
    CLOSED_LOOSELY,
    CLOSED_LOCALIZED,
    CLOSED_LOOSELY_LOCALIZED,
    BLOCKED_LOOSELY_LOCALIZED,
    CLOSED_FOR_A_REASON,
)
"""What may say that a mailbox is closed, in whatever words; it does not say for how long."""

_NEGATION_LOCALIZED = (
    r"\b(?:nicht|kein\w*|nie|pas|plus|aucune?|no|non|nao|nessun\w*|ningun\w*|nenhum\w*|niet|geen|brak|neni"
    r"|inte|ej|ikke|ingen|ingenting|ei|yok\w*|degil\w*|не|нет|нема|немає|ні|nincs|nem|nu"
    r"|personne|niciun\w*|nicio"
    r"|δεν|ne|nema|ni|nije|nav|nera|tidak|tak|khong)\b"
)
_THERE_LOCALIZED = (
    r"\b(?:in gebruik|in uso|en uso|em uso|in benutzung|n y a|gibt es|hay|faz(?:em)? parte"
    r"|cadastro|anagrafica|verzeichnis|annuaire|exist\w*|gefuhrt|gefuehrt|vergeben|zugewiesen"
    r"|zugeordnet|angelegt|eingerichtet|hinterlegt|bekannt"
    r"|vorhanden|gefunden|attribue\w*|affecte\w*|cree\w*|trouve\w*|connue?|reconnue?|enregistre\w*"
    r"|repertorie\w*|risulta\w*|assegnat\w*|attribuit\w*|presente|trovat\w*|registr\w*|esist\w*"
    r"|dad[oa] de alta"
    r"|asignad\w*|encontr\w*|cadastrad\w*|atribuid\w*|consta|pertenec\w*|pertence|corresponde?\w*|figura"
    r"|gevonden|bekend|toegekend|aangemaakt|geregistreerd|komt voor|istniej\w*|znalezion\w*|przypisan\w*"
    r"|zarejestrowan\w*|nalezen\w*|evidovan\w*|znam\w*|finns|finnes|findes|registrer\w*|kand|kjent|kendt"
    r"|kayitli|mevcut|tanimli|найден\w*|наиден\w*|существу\w*|зарегистр\w*|числит\w*|значит\w*|закреплен\w*"
    r"|letezik|talalhato|regisztral\w*|exista|gasit\w*|inregistrat\w*)\b"
)
_DELETED_LOCALIZED = (
    r"(?:gel(?:o|oe)scht|entfernt|supprime\w*|efface\w*|eliminad\w|borrad\w|excluid\w|apagad\w|removid\w"
    r"|cancellat\w|eliminat\w|rimoss\w|verwijderd|usunie\w+|skasowan\w+|smazan\w*|zmazan\w*|slettet"
    r"|raderat\w*"
    r"|borttag\w*|удал[её]н\w*|видален\w*|изтрит\w*|silin\w+|torol\w+|sters\w*|διαγραφ\w+|obrisan\w*"
    r"|izbrisan\w*|dihapus|bi xoa)"
)
DELETED_LOCALIZED = AnyOf(
    *(rf"\b{language.box}\b{_SAID}{_DELETED_LOCALIZED}\b" for language in languages.LANGUAGES)
)
"""The same sentence says of the mailbox that it was deleted."""

DENIED_LOCALIZED = (
    r"(?:^|[.;!?] ?)"
    + _ONE_OF
    % AnyOf(*(rf"\b{language.box}\b" for language in languages.LANGUAGES), rf"\b{languages.BORROWED}\b")
    + _ONE_OF % _NEGATION_LOCALIZED
    + _ONE_OF % _THERE_LOCALIZED
)
"""One sentence of another language has the mailbox, a negation and a word of being there."""

_QUOTA = (
    r"(?:cuotas?|cota|quotum\w*|kvot\w+|kota\w*|квот\w+|pojemnosc\w*|kapacit\w+|capacita|capacidade?|capacite"
    r"|kontingent\w*|(?:grosse|groesse) (?:des|ihres|seines) postfachs|taille de (?:la|sa) boite"
    r"|limit \w+|размер\w* ящика|(?:limite )?(?:di|de|d) (?:spazio|espacio|espace|stockage))"
)
_EXCEEDED = (
    r"(?:superad[oa]|supero|excedid[oa]|excede\w*|depass\w+|przekroczon\w+|przekroczyl\w*|prekrocen\w*"
    r"|asil\w+|doldu"
    r"|превыш\w+|исчерпан\w*|u(?:be|ebe)rschreitet|uberschritten|erschopft|overschreden|overskrid\w+"
    r"|overskred\w+|superat[oa]|esaurit[oa])"
)
QUOTA_LOCALIZED = rf"\b{_QUOTA}\b.{{0,40}}\b{_EXCEEDED}\b|\b{_EXCEEDED}\b.{{0,40}}\b{_QUOTA}\b"

NETWORK_TROUBLE = AnyOf(
    r"\bloops? back\b|\bmail loop|\btoo many hops\b",
    r"\b(?:no hay conexion|sem conexao|(?:pas de|aucune) connexion|keine verbindung|nessuna connessione"
    r"|geen verbinding|brak polaczenia|neni spojeni|нет (?:соединени|связи)|ingen (?:forbindelse|anslutning)"
    r"|baglanti yok|no connection|aucune route)",
    r"\bname service error\b|\b(?:host|name) (?:lookup|resolution)\b",
    r"\bconnect to \S+|\blost connection\b|\bconversation with\b|\bno route to host\b"
    r"|\bnetwork is unreachable\b",
    r"\btimed out\b|\btime-?out\b|\bno (?:answer|response|reply) from\b",
    r"\btransport (?:is )?unavailable\b|\bverification (?:is )?in progress\b|\bqueue file\b",
    r"\b(?:does|did|is) not (?:answer|respond|reply)(?:ing)?\b|\b(?:antwortet\w*|reagiert\w*) nicht\b",
    r"\bne repond\w* pas\b|\b(?:no|nao) respond[eio]\w*|\bnon rispond\w+|\b(?:antwoordt|reageert) niet\b"
    r"|\b(?:svarar|svarer) (?:inte|ikke)\b|\bnu raspunde\b|\bnem valaszol\b|\b(?:yanit|cevap) vermiyor\b",
    r"\b(?:nie odpowiada|neodpov[ei]da)\b(?! zadn)|\bне (?:отвечает|відповідає)\b(?! жодн)",
    r"(?:没有|無|无)(?:响应|回应|回應)|応答(?:が(?:ない|ありません)|しません)|응답(?:하지 않|이 없)",
)
"""The server could not reach the server behind it, so it does not know either."""

_REGISTER = (
    r"(?:ldap|(?:active )?director(?:y|ies)|data ?base|(?:user|recipient|mailbox|account|my)? ?(?:sql|db)"
    r"|back-?end|annuaire|annuario|base de (?:donnees|datos|dados)|veritabani|dizin"
    r"|\w*(?:verzeichnis|datenbank|adressbuch|directorio|diretorio|elenco|gebruikersbestand|databas|adresboek"
    r"|katalog|каталог|таблиц|баз[аеуы]|adatbazis|tietokan|databaz)\w*|baz[aey])"
)
"""What a server asks for its mailboxes."""

_AWAY = (
    r"(?:(?:temporarily |currently )?(?:unavailable|inaccessible|unreachable|offline|down|busy|broken|away)"
    r"|not (?:\w+ )?(?:available|reachable|accessible|respond\w*|answer\w*|ready|working|connected)"
    r"|(?:\w+ ){0,2}?nicht (?:erreichbar|verfugbar)|indisponib\w+|injoignable|inaccess?ib\w+|ausgefallen"
    r"|no (?:esta )?(?:disponible|accesible)|nao (?:esta )?(?:disponivel|acessivel)|inacess\w+"
    r"|en panne|non (?:e )?(?:disponibile|raggiungibile)|irraggiungibile|niet (?:beschikbaar|bereikbaar)"
    r"|onbereikbaar|niedostepn\w+|nedostupn\w+|недоступ\w+|не (?:отвечает|доступн\w+)"
    r"|(?:inte|ikke) (?:tillganglig|tilgjengelig|tilgaengelig)\w*|ulasilam\w+|nem elerheto"
    r"|ei (?:ole )?(?:saatavilla|kaytettavissa))"
)
NO_ENTRY = (
    r"^\W*(?:kein(?:en)?|aucune?|ningun[ao]?|nenhum[ao]?|nessuna?|geen|brak|zadny) "
    r"\w*(?:eintrag|entree|entrada|registro|voce|vermelding|wpisu|zaznam)"
    rf"(?: (?:gefunden|trouvee?|encontrad[oa]|trovat[oa]|gevonden))?(?: (?:\w+ ){{0,3}}?{_REGISTER})?\W*$"
)
"""Looked somebody up and found no entry, in another language than English: nothing else is said."""

_HAS_FAILED = (
    r"(?:(?:look-?up |query |search |connect\w* |bind )?(?:fail(?:ed|ure|s|ing)|errors?|refused|time-?out)"
    r"|timed out|trouble|problems?)"
)
_OF_IT = r"(?:,? {1,2}(?!(?:no|not|nothing|user|users|recipient|mailbox|account|address)\b)\w+){0,3}?"
_REGISTER_UNSPACED = languages.fold(
    "数据库|資料庫|目录服务|目錄服務|データベース|ディレクトリ|데이터베이스|디렉터리"
)
_AWAY_UNSPACED = languages.fold(
    "不可用|无法连接|无法访问|無法連接|無法存取|利用できません|接続できません|応答しません"
    "|사용할 수 없|연결할 수 없"
)
_ERROR = (
    r"(?:fehler|storung|erreur|error[ei]?|erro|fallo|fout|storing|blad|awaria|chyba|vypadek|fel|fejl|feil|hiba"
    r"|virhe|ошибка|сбои|помилка)"
)
_NEVER_FOUND = r"(?:no|non|nao|nicht|niet|nie|pas|inte|ikke|не|in?connu|unbekannt|onbekend\w*|sconosciut\w)"
_SERVICE = (
    r"(?:servi[cz]io|servico|serviciu|tjansten?|tjenesten?|palvelu|usluga|sluzba|szolgaltatas|hizmet|υπηρεσια"
    r"|сервис|служба)"
)
DIRECTORY_AWAY = AnyOf(
    rf"\b{_SERVICE}\b(?: \w+){{0,4}}? {_AWAY}\b",
    rf"\b{_ERROR}(?: (?!{_NEVER_FOUND}\b)\w+){{0,4}}? {_REGISTER}\b|\b{OTHER_THING} {{1,2}}(?:\w+ )?hatasi\b",
    rf"\b(?:ldap|\w*(?:datenbank|verzeichnis|databas))(?:-?server\w{{0,2}} {_AWAY}|s?-?{_ERROR})",
    rf"\b(?:{_REGISTER}|{OTHER_THING})\b{_OF_IT}(?: ?[:,(-])? {{1,2}}{_AWAY}\b",
    rf"\b(?:{_REGISTER}\b|{OTHER_THING} {{1,2}}(?:connection|query|bind|server)\b){_OF_IT}"
    rf"(?: ?[:,(-])? {{1,2}}{_HAS_FAILED}\b",
    r"\b(?:fail\w*|unable|could not|can not|errors?|failure|trouble|problems?|time-?out|timed out)"
    r"(?: (?:to|in|while|when|during|with|on|at|from))* (?:\w+ )?"
    r"(?:contact|connect|reach|quer(?:y|i)|open|access|bind|read|search|look(?:ing)?[ -]?up|consult|load)\w*"
    rf"(?: {{1,2}}(?!user|recipient|mailbox|account)\w+){{0,4}}? {{1,2}}"
    rf"(?:user |recipient |mailbox |account )?(?:{_REGISTER}|{OTHER_THING})\b",
    r"\b(?:errors?|failure|fault|trouble|problems?) (?:in|of|with|from|at|on)"
    rf"(?: {{1,2}}\w+){{0,3}}? {{1,2}}{_REGISTER}\b",
    r"\b(?:user|recipient|mailbox|account|address|alias)? ?look-?up (?:failure|error)\b",
    rf"\b(?:no (?:se )?(?:encontr\w+|existe)|non trovat\w|nie znaleziono|не (?:на[йи]ден|существует)\w*)"
    rf" (?:(?:el|la|сервер\w*|servidor) )*{_REGISTER}\b",
    r"\binternal (?:\w+ )?(?:errors?|failures?|faults?|problems?)\b"
    r"|\bservices? (?:is |are )?(?:re)?starting\b"
    r"|\bintern(?:er|al)? (?:fehler|fel|fejl|feil)\b|\b(?:erreur|error|errore|erro) intern[eo]\b"
    r"|\b(?:interne fout|wewnetrzny blad|blad wewnetrzny|vnitrni chyba|interni chyba)\b"
    + languages.fold(r"|\bвнутренн\w+ ошибк\w+|内部错误|内部錯誤|内部エラー|내부 오류"),
    r"\b(?:spool|volume|disk|file ?system|storage)s? (?:(?:is|are) )?not mounted\b"
    rf"|\bupstream\b[^.;:!?]{{0,20}}? {_AWAY}\b"
    r"|\b(?:can|could) not (?:be )?(?:verif(?:y|ied)|check(?:ed)?) (?:\w+ ){0,3}?"
    r"(?:now|moment|time|currently)\b",
    f"(?:ldap|{_REGISTER_UNSPACED})[^,.。、]{{0,6}}(?:{_AWAY_UNSPACED})",
)
"""What would know the mailbox could not be asked, so nobody has denied it."""

BAD_FORM = AnyOf(
    r"\b(?:recipient|rcpt(?! to\b)|mailbox|the-address|local[ -]?part)\b[^;!?]{0,40}?\b(?:malformed|syntax"
    r"|not correctly formed|improper\w*"
    r"|bad format|wrong format|invalid format|not a valid (?:e-?mail )?address|user address required)\b",
    r"\b(?:malformed|improper|incorrect|bad|invalid|illegal) (?:recipient |rcpt |mailbox "
    r"|e-?mail )?address(?: (?:format|syntax))?\b",
    r"\baddress (?:format|syntax)\b(?=.* recipient)",
)
"""Complains about the form of an address; its syntax is good, or we would not have asked."""
