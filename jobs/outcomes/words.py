"""The words by which senders call what happened, in a cell and in the name of a column."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final
from unicodedata import combining, normalize

from mailsift.pipeline.outcomes.outcome import OutcomeKind

KINDS: Final = {
    OutcomeKind.DELIVERED: "delivered delivery delivers deliver ok success successful"
    " opened open opens firstopening opening openings clicked click clicks clickthrough read replied viewed"
    " zugestellt geoffnet angeklickt geklickt livre remis delivre ouvert clique entregado abierto entregue"
    " aberto clicado consegnato recapitato aperto cliccato bezorgd afgeleverd geopend geklikt dostarczono"
    " ausgeliefert offnung offnungen klick klicks distribue ouverte ouverture ouvertures clic clics"
    " entregada abierta apertura aperturas aberta abertura aberturas cliques consegnata recapitata aperta"
    " aperture aangeklikt klik kliks dostarczona dostarczony otwarto otwarta otwarcie otwarcia kliknieto"
    " kliknieta klikniecie klikniecia",
    OutcomeKind.BOUNCED: "bounced bounce bounces hardbounce hardbounced hardbounces hard permanent"
    " permanentbounce"
    " failed failure fail dropped drop blocked block rejected reject invalid invalidemail undelivered"
    " undeliverable outofband permfail hardfail nonexistent expired expiration returned nondelivery ndr"
    " cleaned bounceback suppressed error errored giveup gaveup"
    " unzustellbar rucklaufer abgewiesen abgelehnt fehlgeschlagen rejete refuse echec echoue rebond rebonds"
    " rebote rebotado rechazado gebounced gebounct"
    " fallido devolvido rejeitado respinto rimbalzato fallito geweigerd mislukt odrzucono"
    " zuruckgewiesen rebondi devuelto devolucion devolucao rejeicao rimbalzo rimbalzi onbestelbaar"
    " teruggestuurd odrzucona odbicie odbicia odbito odbito zwrot zwrocono niedostarczono fallita npai"
    " definitif definitivo definitiva definitief endgultig dauerhaft duro hart harderror",
    OutcomeKind.DEFERRED: "deferred defer delay delayed deliverydelay softbounce softbounced softbounces soft"
    " deferral temporary transient temporaryfailure temporaryfail tempfail tranfail softfail retrying retry"
    " greylisted failedattempt verzogert differe retarde aplazado diferido adiado differito uitgesteld"
    " aufgeschoben retrasado atrasado ritardato rinviato vertraagd odroczono opozniono temporaire temporaneo"
    " temporanea temporario tijdelijk vorubergehend blando suave weich"
    " softerror",
    OutcomeKind.COMPLAINED: "complained complaint complaints spam spamreport spamreports spamcomplaint abuse"
    " abusereport abusereports reportedspam feedback junk spammed scomp fbl beschwerde plainte"
    " queja reclamacao reclamo klacht"
    " spambeschwerde spammeldung spamklacht spammelding plaintes quejas denuncia queixa skarga skargi",
    OutcomeKind.UNSUBSCRIBED: "unsubscribed unsubscribe unsubscribes unsub optout optedout groupunsubscribe"
    " listunsubscribe linkunsubscribe"
    " abgemeldet abbestellt desabonne desinscrit descadastrado disiscritto uitgeschreven afgemeld"
    " abmeldung abbestellung desinscription desabonnement baja descadastro disiscrizione uitschrijving"
    " afmelding ausgetragen desuscrito desuscripto desuscripcion desinscrito wypisano"
    " wypisana wypisany wypisanie",
}
"""What senders call a kind, in the letters of the word alone."""

_KIND_OF: Final = {word: kind for kind, words in KINDS.items() for word in words.split()}


def _row(kind: OutcomeKind | None, pattern: str) -> tuple[re.Pattern[str], OutcomeKind | None]:
    return re.compile(pattern), kind


_NOT: Final = r"not|non?|nicht|niet|nao|ne|pas|nie|ikke|inte"
_ARRIV: Final = (
    r"(?:deliver|zugestellt|livre|remis|delivre|distribue|entreg|consegn|recapit|bezorgd|afgeleverd|dostarcz)"
)
_PHRASES: Final = (
    _row(
        OutcomeKind.UNSUBSCRIBED,
        r"\bno longer (?:wants?|subscri\w+)\b"
        r"|\b(?:cancel|annul|rezygnacj)\w+ (?:\w{1,3} )?(?:inscri|subscri|suscri|iscri|subskry)\w+",
    ),
    _row(
        OutcomeKind.DEFERRED,
        rf"\b(?:not yet|noch nicht|nog niet|pas encore|todavia no|aun no|non ancora|ainda nao|annu inte"
        rf"|endnu ikke|jeszcze nie)\b.*\b{_ARRIV}",
    ),
    _row(
        OutcomeKind.BOUNCED,
        rf"\b(?:{_NOT}|never|nie(?:mals)?|jamais|nunca|mai|nooit|(?:could|was|were|did) ?n.?t"
        r"|can(?: ?no|.)?t|unable to|fail(?:ed|s) to)(?:[ -](?:be|been|ete|fue|foi|stato))?"
        rf"[ -](?:{_ARRIV}|success|ok\b)|\bunsuccess",
    ),
    _row(
        None,
        r"\b(?:(?:queued|scheduled|ready|waiting|pending|submitted|sent|out) (?:for|to be)|to be|being"
        rf"|awaiting|pending|in|partly|partial\w*|teilweise|partiell\w*) {_ARRIV}",
    ),
    _row(
        None,
        rf"\b(?:{_NOT}|never|jamais|nunca|mai|nooit) (?:yet )?(?:\w+ )?(?:open|clicked|read\b|viewed"
        r"|geoffnet|geklickt|angeklickt|ouvert|clique|abiert|abert|clicad|apert|cliccat|geopend|geklikt"
        r"|bounc|(?:un-?)?subscri|opt(?:ed)?[ -]?out|complain)",
    ),
    _row(None, r"\b(?:re-?subscri\w+|not[ -]spam|non[ -]?spam|(?:filter|quarantin)\w+)\b"),
    _row(
        OutcomeKind.BOUNCED,
        r"\bspam (?:notific|block|bounc|reject|content|relat)\w*|\b(?:block|reject)\w* .*\bspam\b",
    ),
    _row(OutcomeKind.COMPLAINED, r"\b(?:spamu?|abuse|complain\w*|junk)\b"),
    _row(OutcomeKind.UNSUBSCRIBED, r"\b(?:un-? ?subscri\w+|opt(?:ed)?[ -]?out)\b"),
    _row(
        OutcomeKind.DEFERRED,
        r"\b(?:soft|suave|blando|brando|leve|morbido|weicher?|zachte?|miekk\w{1,4}|deferred|delayed"
        r"|temporar\w+|temporal|temporaire|temporane\w+|transient|transitori\w+|vorubergehend\w{0,2}"
        r"|tijdelijke?|tymczasow\w+|przejsciow\w+)\b",
    ),
    _row(
        OutcomeKind.BOUNCED,
        r"\b(?:permanente?|(?:hard|block)?[ -]?bounce[ds]?|rebotes?|rebonds?|rimbalz\w+"
        r"|odbi(?:ci|t)\w+|un-?deliver\w+|deliver\w+ fail\w+)\b",
    ),
    _row(
        OutcomeKind.DELIVERED,
        r"\b(?:delivered|opened|clicked|received (?:an? |the |your )?e-?mail|loaded by proxy)\b",
    ),
)
"""What a phrase of a few words means ("Unsubscribed by user"), the first row that is in it."""

_NO_MAILBOX: Final = re.compile(
    r"\b(?:mailbox|user|recipient|address|account) (?:not found|unknown|does not exist)"
    r"|\b(?:unknown|no such|bad|invalid) (?:mailbox|user|recipient|address|account)\b"
)
"""In an event's own name ("email_mailbox_not_found"); in a sentence it is why, and not what happened."""

_ATTEMPTED: Final = frozenset({"delivery", "deliver", "delivers", "ok", "success", "successful"})
_SAYS_NO_MORE: Final = re.compile(
    r"e?mails?|messages?|confirm\w*|complet\w*|done|smtp|remote|local|final|event|was|is|has|been"
)
"""Words for an arrival, or for a try at it ("delivery problem"), and those that leave them what they are."""

_LONGEST_PHRASE: Final = 6
_LONGEST_WORDS: Final = 100
_LONGEST_NAME: Final = 3
"""Words of a phrase in which one known word is enough."""

_ANOTHER_CHANNEL: Final = re.compile(
    r"\b(?:sms|mms|rcs|whats ?app|viber|(?:line|text) messag\w+|in[ -]?app|(?:web|mobile|app)?[ -]?push)\b"
)
"""Ways to somebody that lead to no mailbox, though an address stands beside them to say who it was."""

_ANSWER: Final = re.compile(
    r"\W*(?:auto(?:matic|mated|matische?)?[ -]?(?:repl\w+|respon\w+|answer\w*|antwort\w*)"
    r"|out[ -]of[ -](?:the[ -])?office|vacation|abwesen\w+|challenge\b|respuesta automatica"
    r"|reponse automatique|resposta automatica|risposta automatica|automatisch antwoord|autoodpowiedz)"
)
"""Of an absence note, or what asks whether a person has written: no failure."""
_LONGEST_ANSWER: Final = 60

_STATES: Final = {
    "on its way": "sent send sends messagesent emailsend emailsent sendemail"
    " processed process accepted injection"
    " injected queued queue pending scheduled submission submitted reception requests request draft none"
    " unknown versendet gesendet envoye enviado inviato verzonden",
    "of people": "active inactive enabled disabled subscribed subscribe confirmed unconfirmed registered"
    " cold aktiv inaktiv actif inactif activo inactivo ativo inativo attivo inattivo actief inactief aktywny"
    " nieaktywny",
}
"""Words of a column that says what happened, where nothing has."""
_STATE_OF: Final = {word: state for state, words in _STATES.items() for word in words.split()}

_NAME_WORDS: Final = {
    "filler": "is has was been e email emails mail message date time timestamp datetime at on ts last first"
    " from marked as global globally all reported contact number of total count utc marketing",
    "textual": "reason cause type subtype category class classification description detail details campaign"
    " title id other",
}
"""Words in the name of a column that say no more about what happened; and that its cells are words, too."""
_NAME_WORD: Final = {word: use for use, words in _NAME_WORDS.items() for word in words.split()}
_CELL_ONLY: Final = re.compile(
    r"ok|success(?:ful)?|hard|soft|permanent|temporary|transient|feedback|returned|junk|deliver|retry"
    r"|error(?:ed)?|giveup|gaveup"
)
_JOINED: Final = (
    _row(
        OutcomeKind.BOUNCED,
        r"bounced?(?:category|reason|class|type|description|detail)|clean(?:ed)?(?:reason|time|at|campaign)"
        r"|(?:black|block|suppress(?:ion)?)(?:list)?(?:ed)?reason",
    ),
    _row(OutcomeKind.COMPLAINED, r"(?:complain(?:ed|t)|abuse|spam)(?:report)?(?:ed)?(?:time|date|at|on)\b"),
    _row(
        OutcomeKind.UNSUBSCRIBED,
        r"(?:unsub|unsubscribed?|optout|optedout)(?:time|date|at|on|reason|campaign)",
    ),
)
"""How a column's name begins, written as one word, that has a value only where this happened."""


def kind_of(word: str) -> OutcomeKind | None:
    """Return what a sender's word means, "Hard Bounce" for one; None for words that tell of nothing."""
    return _kind_of(word) if len(word) <= _LONGEST_WORDS else None


@lru_cache(maxsize=4_096)  # a column that says what happened has few words
def _kind_of(word: str) -> OutcomeKind | None:
    if is_of_another_channel(word) or _REPLY.match(word):
        return None
    plain = _apart(word if " " in word else word.rpartition(".")[2])  # users.messages.email.Bounce
    alone = re.sub(r"[^a-z]", "", plain)
    known = _KIND_OF.get(alone) or _KIND_OF.get(_INFLECTED.sub("o", alone))
    if known or not 1 < len(re.split(r"[\s-]+", plain)) <= _LONGEST_PHRASE or re.search(r"\d", plain):
        return known or _kind_in_japanese(word)
    if " " not in word and _NO_MAILBOX.search(plain):
        return OutcomeKind.BOUNCED
    said = next((row for row in _PHRASES if row[0].search(plain)), None)
    if said or len(plain.split()) > _LONGEST_NAME:
        return said[1] if said else None
    words = re.split(r"[\s-]+", plain)
    telling = {word for word in words if word in _KIND_OF}
    if telling <= _ATTEMPTED and not all(word in telling or _SAYS_NO_MORE.fullmatch(word) for word in words):
        return None
    kinds = {_KIND_OF[word] for word in telling}
    is_denied = kinds == {OutcomeKind.DELIVERED} and any(re.fullmatch(_NOT, word) for word in words)
    return kinds.pop() if len(kinds) == 1 and not is_denied else None


_REPLY: Final = re.compile(r"\W*[245](?:\d\d(?!\d)|\.\d{1,3}\.\d{1,3})\b")
"""A server's answer, whose words say why: "554 5.7.1 spam" is no complaint."""
_INFLECTED: Final = re.compile(r"[aeiy]\Z")
"""Of what ends in -o in the lists: "rimbalzata", "otwarty"."""

_JAPANESE: Final = (
    _row(OutcomeKind.COMPLAINED, r"迷惑|スパム|苦情|通報"),
    _row(OutcomeKind.UNSUBSCRIBED, r"(?:配信|購読|受信)(?:を)?(?:停止|解除)|退会|登録解除|オプトアウト"),
    _row(OutcomeKind.DEFERRED, r"一時|遅延|再送|保留|ソフトバウンス"),
    _row(None, r"未(?:開封|クリック|配信|送信)"),
    _row(OutcomeKind.BOUNCED, r"不達|未達|失敗|エラー|バウンス|不能|不可|拒否"),
    _row(OutcomeKind.DELIVERED, r"開封|クリック|到達|(?:配信|送達)成功|送達(?:完了|済)"),
)
"""The same in a script that sets no spaces, the first row that is in a word."""
_LONGEST_JAPANESE: Final = 12


def _kind_in_japanese(word: str) -> OutcomeKind | None:
    plain = normalize("NFKC", word)
    if len(plain) > _LONGEST_JAPANESE or plain.isascii():
        return None
    return next((kind for pattern, kind in _JAPANESE if pattern.search(plain)), None)


def kind_in_name(name: str) -> tuple[OutcomeKind, bool] | None:
    """Return what happened where a column of that name says something: "Has hard bounced", "UNSUB_TIME".

    Returns:
        The kind, and whether the column's cells are words beside yes and no, numbers and times.
    """
    words = _apart(name.replace("-", " ")).split()
    uses = [_NAME_WORD.get(word, "") for word in words]
    rest = "".join(word for word, use in zip(words, uses, strict=True) if not use)
    kind = None if _CELL_ONLY.fullmatch(rest) else _KIND_OF.get(rest)
    textual = "textual" in uses
    if kind and not (textual and (kind is OutcomeKind.DELIVERED or rest == "spam")):
        return kind, textual
    plain = letters(name)
    return next(((kind, True) for pattern, kind in _JOINED if kind and pattern.match(plain)), None)


def is_kind(cell: str) -> bool:
    """Say whether a cell tells what happened."""
    return kind_of(cell) is not None


def is_state(cell: str) -> bool:
    """Say whether a cell tells what happened, or that nothing has happened yet."""
    return is_kind(cell) or _plain(cell if " " in cell else cell.rpartition(".")[2]) in _STATE_OF


def is_of_people(cell: str) -> bool:
    """Say whether a cell tells how a reader stands to a list ("active"), and not what a message came to."""
    return _STATE_OF.get(_plain(cell)) == "of people"


def _says(words: str) -> Callable[[str], bool]:
    """Return what says whether the letters of a cell are one of some words, a pattern."""
    known = re.compile(words)
    return lambda cell: bool(known.fullmatch(_plain(cell[:_LONGEST_WORDS])))


is_subscribed: Final = _says(
    r"active|aktiv|actif|activo|ativo|attivo|actief|aktywny|enabled|subscribed?|confirmed|registered"
)
"""Says whether a cell tells that somebody on a list is written to."""

is_change: Final = _says(r"(?:subscription|subscriber|preferences?)?(?:status)?changed?")
"""Says whether a cell tells that a reader's standing has changed, and another one to what: HubSpot's."""

is_affair: Final = _says(
    r"closed|solved|resolved|reopened|won|lost|shipped|intransit|refunded|paid|unpaid|fulfilled|onhold"
    r"|succeeded|declined"
)
"""Says whether a cell tells how an order, a ticket or a deal stands, of which others are "open"."""

is_handed_over: Final = _says(
    r"(?:message)?sent|send|relayed|versendet|gesendet|envoye|enviado|inviato|verzonden"
)
"""Says whether a cell says that a message went out: arrived it has if a server answered so."""

is_of_anything: Final = _says(
    r"ok|success(?:ful)?|fail(?:ed|ure)?|error(?:ed)?|reject(?:ed)?|invalid|blocked|returned|expired|dropped"
)
"""Says whether a cell tells how something ended, of which it need not be a message: "failed"."""


def is_of_another_channel(cell: str) -> bool:
    """Say whether a cell tells of what was not sent by mail: "sms", "pushBounce", "Clicked SMS"."""
    return bool(_ANOTHER_CHANNEL.search(_apart(cell[:_LONGEST_WORDS])))


def is_answer(cell: str) -> bool:
    """Say whether a cell calls what came back an answer to a message that arrived: "Auto-reply"."""
    return len(cell) <= _LONGEST_ANSWER and bool(_ANSWER.match(_apart(cell)))


def is_forecast(name: str, cells: Iterable[str]) -> bool:
    """Say whether a column has verdicts, ours or another verifier's: what may happen, not what did."""
    plain = letters(name)
    if plain.startswith("mailsift") or _VERIFICATION.search(f"{plain} {name}"):
        return True
    said = {_plain(cell[:_LONGEST_WORDS]): cell for cell in cells if cell}
    others = (cell for plain, cell in said.items() if plain not in _OF_VERDICTS)
    return not _VERDICTS.isdisjoint(said) and not any(map(kind_of, others))


def is_trait(name: str) -> bool:
    """Say whether a column of that name tells what only a verifier says of an address: "Accept all"."""
    return bool(_TRAIT.fullmatch(letters(name)))


def is_of_verdicts(name: str) -> bool:
    """Say whether a column's name is a word of verifiers, though senders have it, too: "Abuse"."""
    return letters(name) in _OF_VERDICTS


def tells_of_messages(cells: Iterable[str]) -> bool:
    """Say whether a column tells what became of messages, in words that are none of a verifier's."""
    known = [cell for cell in cells if is_kind(cell)]
    if not _VERDICTS.isdisjoint(map(_plain, cells)):
        return False
    return any(not _OF_VERDICTS.issuperset(_KIND_OF.keys() & set(_apart(cell).split())) for cell in known)


_VERIFICATION: Final = re.compile(
    r"verifi(?!ed)|verifika|weryfik|validat(?!ed)|validierung|validacion|validacao|convalida|deliverability"
    r"|verdict|pruf|(?:smtp|mx|mailbox)check|check(?:result|status)|検証|有効性"
)
"""In the name of a column of verdicts."""
_TRAIT: Final = re.compile(
    r"[a-z]{0,4}(?:disposable|catchall|acceptall|roleaccount|rolebased|role|freeemail|spamtrap|gibberish|toxic"
    r"|didyoumean|quality|exists)[a-z]{0,10}|[a-z]{0,5}(?:verified|validated|checked)(?:at|on|date)"
)
_VERDICTS: Final = frozenset(
    {"valid", "deliverable", "risky", "catchall", "acceptall", "donotmail", "exists"}
)
_OF_VERDICTS: Final = frozenset(
    {"invalid", "undeliverable", "abuse", "spamtrap", "spam", "rejected", "error", "ok", "success", "failed"}
    | {"fail", "failure", "blocked", "block", "nonexistent", "permanent", "temporary"}
)
"""Words of verifiers, and those that they share with senders."""


def is_dropped(cell: str) -> bool:
    """Say whether a cell says that the sender kept a message back itself."""
    return bool(re.search(r"\b(?:drop(?:ped)?|suppressed|pre-? ?blocked)\b", _apart(cell)))


def is_about_mail(name: str) -> bool:
    """Say whether a column of that name is about messages."""
    return bool(_OF_MAIL.search(letters(name)))


_OF_MAIL: Final = re.compile(
    r"subject|campaign|newsletter|message.|mailing|bounce|smtp|dsn|deliver|recipient|rcpt|sender|^from$|^to$"
    r"|template|spam|complain|unsub|suppress|betreff|absender|empfanger|objet|expediteur|destinat|asunto|remitente"
    r"|oggetto|mittente|onderwerp|afzender|ontvanger|assunto|remetente|temat|nadawca|odbiorca"
)


def letters(name: str) -> str:
    """Return the letters of a column's name alone, small and without accents."""
    return re.sub(r"[^a-z]", "", normalize("NFKD", name).lower())


def _plain(word: str) -> str:
    return letters(_apart(word))


def _apart(word: str) -> str:
    """Return a name's words apart, small and without accents: "emailBounce", "spam_complaint"."""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|[_.:/]", " ", word)
    return "".join(letter for letter in normalize("NFKD", apart) if not combining(letter)).lower()
