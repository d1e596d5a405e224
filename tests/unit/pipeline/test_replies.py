from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from mailsift.pipeline.facts import Answer
from mailsift.pipeline.probe.collector import ReplyReader
from mailsift.pipeline.replies.classifier import ReplyReading, SmtpReply, classify, simplify
from mailsift.pipeline.replies.languages import LANGUAGES, ReplyLanguage, fold
from mailsift.pipeline.replies.lexicon import WORDS
from mailsift.pipeline.replies.redaction import redact
from mailsift.pipeline.replies.table import REASONS, RULES, Stage

_HERE = Path(__file__).parent
_INVALID = {Answer.NOT_FOUND, Answer.DISABLED}
_ABOUT_THE_MAILBOX = {Answer.ACCEPTED, Answer.NOT_FOUND, Answer.DISABLED, Answer.FULL}
_BEFORE_RCPT = [stage for stage in Stage if stage is not Stage.RCPT]


@dataclass(frozen=True, slots=True)
class Case:
    """One line of a table of replies; `expected` has more than one answer where both are honest."""

    expected: frozenset[Answer]
    provider: str
    reply: SmtpReply

    @override
    def __str__(self) -> str:
        return f"{self.provider} {self.reply.stage} {self.reply.code} {self.reply.enhanced} {self.reply.text}"


def _cases(name: str) -> list[Case]:
    header, *lines = (_HERE / f"reply_cases_{name}.tsv").read_text("utf-8").splitlines()
    columns = header.removeprefix("# ").split("\t")
    rows = [dict(zip(columns, line.split("\t"), strict=True)) for line in lines if not line.startswith("#")]
    return [_case(**row) for row in rows]


def _case(*, expected: str, provider: str, stage: str, code: str, enhanced: str, text: str) -> Case:
    answers = frozenset(Answer(name) for name in expected.split("|"))
    return Case(answers, provider, SmtpReply(Stage(stage), int(code), enhanced.strip("-"), text))


_NAMES = """
mailbox refused later heldout blind kinds2 kinds3 kinds4 kinds5 kinds6 kinds7 kinds8 kinds9 kinds10 kinds11
kinds12 kinds13 kinds14 kinds15 kinds16 kinds17 kinds18 kinds19 kinds20 kinds21 kinds22 kinds23 kinds24
kinds25 kinds26 heldout2 heldout3 heldout4 heldout5
"""
TABLES = {name: _cases(name) for name in _NAMES.split()}
WRITTEN_FIRST = TABLES["mailbox"] + TABLES["refused"] + TABLES["later"]
HELD_OUT = TABLES["heldout"]
BLIND = TABLES["blind"]
KINDS = [
    case
    for name, table in TABLES.items()
    if name.startswith("kinds") or name in ("heldout2", "heldout3")
    for case in table
]
CASES = WRITTEN_FIRST + HELD_OUT + BLIND + KINDS
HELD_BACK = TABLES["heldout4"]
"""Written before anybody knew how the rules read them: 94 % of the refusals at the first reading."""

HELD_OUT_STILL = TABLES["heldout5"]
"""A third that no rule was written from, and what the other two left: of the third's 61 refusals 54 were
recognised, before and after the rules for kinds11. None may be invalid that is not; no more is claimed."""

PASSING_HELD_BACK = _cases("heldout6")
"""A third of what was written of mailboxes that are gone, and of others that are closed or missing only for a
while or under a condition; and what the rules written from the other two thirds left. Before those, 48 of the
third's 115 that pass were invalid, and 62 of its 65 that are gone were recognised."""


read = cache(classify)  # each reply of the tables is read once, for all that is asked of them


def rcpt(code: int, text: str = "", enhanced: str = "") -> SmtpReply:
    return SmtpReply(Stage.RCPT, code, enhanced, text)


def test_there_are_enough_replies_of_enough_servers_to_mean_something() -> None:
    assert len(WRITTEN_FIRST) >= 300
    assert len(HELD_OUT) >= 80
    assert len(BLIND) >= 900
    assert len({case.provider for case in CASES}) >= 60
    assert len(HELD_OUT_STILL) >= 80


def test_every_reply_of_the_tables_is_read_as_expected() -> None:
    wrong = {str(case): read(case.reply) for case in CASES if read(case.reply).answer not in case.expected}
    assert wrong == {}


@pytest.mark.parametrize(
    "heading",
    [
        "Invalid recipient:",
        "Bad address -",
        "550 Sorry, invalid mailbox (",
        "Ungültiger Empfänger:",
        "<a@x.example>: Recipient address rejected:",
    ],
)
@pytest.mark.parametrize(("enhanced", "most"), [("", 0.02), ("5.1.1", 0.08)])
def test_behind_a_heading_that_calls_the_recipient_invalid_the_reason_decides(
    heading: str, enhanced: str, most: float
) -> None:
    """Every tenth reply; with a code of its own more of those are missing mailboxes, headed or not."""
    cases = [case for case in CASES if case.reply.stage is Stage.RCPT and case.reply.code >= 500][::10]
    headed = {case: read(rcpt(550, f"{heading} {case.reply.text}", enhanced)).answer for case in cases}
    others = [headed[case] for case in cases if not case.expected & _INVALID]
    alone = {case: read(rcpt(550, case.reply.text, enhanced)).answer for case in cases}
    gone = [headed[case] for case in cases if case.expected <= _INVALID and alone[case] in _INVALID]
    assert sum(answer in _INVALID for answer in others) <= most * len(others)
    assert sum(answer in _INVALID for answer in gone) >= 0.97 * len(gone)


@pytest.mark.parametrize(
    "reason", ["", " jane", " <jane@x.example>", " not found", " Please check the address"]
)
def test_a_heading_without_another_reason_is_the_reason(reason: str) -> None:
    assert classify(rcpt(550, f"Invalid recipient:{reason}")).answer is Answer.NOT_FOUND


def test_refusals_that_were_held_back_are_recognised() -> None:
    refusals = [case for case in HELD_BACK if case.expected <= _ABOUT_THE_MAILBOX]
    recognised = [case for case in refusals if read(case.reply).answer in case.expected]
    assert len(refusals) >= 100
    assert len(recognised) >= 0.97 * len(refusals)


def test_refusals_that_were_held_back_and_pass_are_seldom_invalid_and_those_for_good_still_are() -> None:
    passing = [case for case in PASSING_HELD_BACK if not case.expected & _INVALID]
    gone = [case for case in PASSING_HELD_BACK if case.expected <= _INVALID]
    mistaken = [case for case in passing if read(case.reply).answer in _INVALID]
    recognised = [case for case in gone if read(case.reply).answer in _INVALID]
    assert len(mistaken) <= 0.12 * len(passing)
    assert len(recognised) >= 0.88 * len(gone)


@pytest.mark.parametrize(
    "words",
    [
        "Mailbox closed for the regatta",
        "Account suspended: cheque in the post",
        "Account inactive - owner deployed overseas",
        "Postfach geschlossen wegen Hochwasser",
        "Compte désactivé : signature attendue",
        "Ящик закрыт из-за наводнения",
        "因台风邮箱关闭",
        "台風のためメールボックスは閉鎖しました",
        "태풍으로 메일함이 폐쇄되었습니다",
    ],
)
def test_a_closed_mailbox_of_which_more_is_said_than_we_can_read_is_not_invalid(words: str) -> None:
    assert classify(rcpt(550, words, "5.2.1")).rule == "closed-and-more"


@pytest.mark.parametrize(
    "words",
    [
        "Account closed",
        "The mailbox of jane.roe is disabled",
        "Account suspended by the administrator for non-payment",
        "Dieses Postfach wurde wegen Inaktivität dauerhaft geschlossen",
        "Compte résilié à la demande du client",
        "Ящик закрыт по просьбе владельца",
        "Skrzynka odbiorcy jest obecnie nieaktywna i nie przyjmuje poczty",
        "Hesap uzun süre kullanılmadığı için kapatıldı",
        "The account you are emailing is no longer active",
        "该邮箱因长期未登录已被停用",
        "管理者によりアカウントが無効化されています",
        "요금 미납으로 계정이 정지되었습니다",
    ],
)
def test_a_mailbox_that_is_closed_for_reasons_that_last_is_still_closed(words: str) -> None:
    assert classify(rcpt(550, words, "5.2.1")).answer is Answer.DISABLED


@pytest.mark.parametrize("table", TABLES)
def test_every_quota_reply_is_a_full_mailbox(table: str) -> None:
    full = [case for case in TABLES[table] if case.expected == {Answer.FULL}]
    assert [str(case) for case in full if read(case.reply).answer is not Answer.FULL] == []


@pytest.mark.parametrize("table", TABLES)
def test_no_reply_about_us_or_rate_or_greylisting_or_policy_becomes_invalid(table: str) -> None:
    others = [case for case in TABLES[table] if not case.expected & _INVALID]
    assert others
    assert [str(case) for case in others if read(case.reply).answer in _INVALID] == []


@pytest.mark.parametrize("table", ["mailbox", "heldout", "blind"])
def test_a_missing_mailbox_is_recognised_in_at_least_97_percent(table: str) -> None:
    missing = [case for case in TABLES[table] if case.expected == {Answer.NOT_FOUND}]
    recognised = [case for case in missing if read(case.reply).answer is Answer.NOT_FOUND]
    assert len(missing) >= 100
    assert len(recognised) >= 0.97 * len(missing)


def test_an_unknown_user_that_is_our_own_sender_is_no_missing_mailbox() -> None:
    reply = rcpt(550, "Verification failed for <probe@ours.example>: unknown user")
    assert classify(reply).answer is Answer.NOT_FOUND
    assert classify(reply, own=("203.0.113.9", "probe@ours.example")).answer is Answer.REFUSED_US


_TEMPORARY = (421, 450, 451, 452, 454)
_MISSING = [case.reply.text for case in CASES if case.expected & _INVALID]


@pytest.mark.parametrize("code", _TEMPORARY)
def test_words_of_a_missing_mailbox_with_a_temporary_code_are_never_invalid(code: int) -> None:
    """Every fifth text, shared out among the codes; the next tests ask for any rule, and any text."""
    texts = _MISSING[_TEMPORARY.index(code) :: 5 * len(_TEMPORARY)]
    assert [text for text in texts if classify(rcpt(code, text)).answer in _INVALID] == []


def test_no_rule_that_makes_a_mailbox_invalid_is_tried_for_a_temporary_code() -> None:
    rules = [rule for rule in RULES if rule.answer in _INVALID]
    assert len(rules) > 20
    assert [
        rule.id for rule in rules if not all(code.startswith("5") for code in rule.codes.split() or [""])
    ] == []


@given(code=st.integers(400, 499), text=st.sampled_from(_MISSING))
def test_no_words_of_a_missing_mailbox_make_a_4xx_invalid(code: int, text: str) -> None:
    assert classify(rcpt(code, text)).answer not in _INVALID


@pytest.mark.parametrize(("turn", "stage"), list(enumerate(_BEFORE_RCPT)))
def test_before_rcpt_no_reply_of_the_tables_is_about_the_mailbox(turn: int, stage: Stage) -> None:
    """All replies, shared out among the stages; a test below asks for any words at any stage."""
    replies = [case.reply for case in CASES[turn :: len(_BEFORE_RCPT)]]
    read = [classify(SmtpReply(stage, reply.code, reply.enhanced, reply.text)) for reply in replies]
    assert not {reading.answer for reading in read} & _ABOUT_THE_MAILBOX


_TELLING = ["user", "unknown", "mailbox", "does not exist", "disabled", "full", "quota", "no such", "5.1.1"]
_WORDS = st.lists(
    st.one_of(
        st.sampled_from(_TELLING),
        st.text(max_size=12),
    ),
    max_size=20,
).map(" ".join)
_ENHANCED = st.sampled_from(["", "5.1.1", "4.1.1", "5.2.1", "5.2.2", "5.7.1", "2.1.5", "5.1.10", "rubbish"])


@given(code=st.integers(400, 499), enhanced=_ENHANCED, text=_WORDS)
def test_no_4xx_whatever_its_words_is_invalid(code: int, enhanced: str, text: str) -> None:
    assert classify(rcpt(code, text, enhanced)).answer not in _INVALID


@given(stage=st.sampled_from(_BEFORE_RCPT), code=st.integers(0, 999), enhanced=_ENHANCED, text=_WORDS)
def test_nothing_before_rcpt_is_about_the_mailbox(stage: Stage, code: int, enhanced: str, text: str) -> None:
    assert classify(SmtpReply(stage, code, enhanced, text)).answer not in _ABOUT_THE_MAILBOX


@given(code=st.integers(0, 999), enhanced=_ENHANCED, text=_WORDS)
def test_every_reply_is_read_by_a_row_of_the_table(code: int, enhanced: str, text: str) -> None:
    assert classify(rcpt(code, text, enhanced)).rule in REASONS


@given(code=st.integers(500, 599), enhanced=_ENHANCED, text=_WORDS)
def test_a_refusal_that_names_our_address_is_never_invalid(code: int, enhanced: str, text: str) -> None:
    reply = rcpt(code, f"{text} [192.0.2.25]", enhanced)
    assert classify(reply, own=["192.0.2.25"]).answer not in _INVALID


def test_rule_ids_are_unique_and_every_rule_says_why() -> None:
    assert len(REASONS) == len(RULES)
    assert all(reason.endswith(".") for reason in REASONS.values())


@pytest.mark.parametrize(
    ("own", "answer"),
    [
        (["192.0.2.25"], Answer.REFUSED_US),
        (["probe.example.net"], Answer.REFUSED_US),
        (["PROBE.example.NET"], Answer.REFUSED_US),
        (["92.0.2.25"], Answer.NOT_FOUND),
        (["192.0.2.2"], Answer.NOT_FOUND),
        (["example.net"], Answer.NOT_FOUND),
        ([""], Answer.NOT_FOUND),
        ([], Answer.NOT_FOUND),
    ],
)
def test_only_a_reply_that_names_us_exactly_is_about_us(own: list[str], answer: Answer) -> None:
    reply = rcpt(550, "no such user (probe.example.net 192.0.2.25)", "5.1.1")
    assert classify(reply, own=own).answer is answer


def test_our_name_inside_an_email_address_does_not_make_the_reply_about_us() -> None:
    reply = rcpt(550, "<nobody@example.net>: user unknown", "5.1.1")
    assert classify(reply, own=["example.net"]).answer is Answer.NOT_FOUND


@pytest.mark.parametrize(
    "text",
    [
        "postmaster@ours.example: no such mailbox, RFC 5321 wants one",
        "Reverse check: mailbox <bounce@ours.example> does not exist",
        "<abuse@OURS.example>: user unknown",
    ],
)
def test_an_address_at_our_senders_domain_that_is_missing_is_ours(text: str) -> None:
    assert classify(rcpt(550, text, "5.1.1"), own=["probe@ours.example"]).answer is Answer.REFUSED_US
    assert classify(rcpt(550, text, "5.1.1"), own=["probe@s.example"]).answer is Answer.NOT_FOUND


def test_whose_session_it_was_is_no_reason_where_openwave_puts_it_behind_every_unknown_user() -> None:
    reply = rcpt(550, "<jane@example.com> Addressee unknown, relay=[192.0.2.25]", "5.1.1")
    assert classify(reply, own=["192.0.2.25"]).answer is Answer.NOT_FOUND
    for words in ("relay=[192.0.2.25] rejected", "user unknown to relay=[192.0.2.25]"):
        assert classify(rcpt(550, words, "5.1.1"), own=["192.0.2.25"]).answer is Answer.REFUSED_US


def test_a_table_of_relayed_mailboxes_is_no_relaying_wherever_the_gateway_cuts_its_name_off() -> None:
    reply = "<jane@example.com>: Recipient address rejected: User unknown in relay recipient table"
    for length in range(reply.index("relay"), len(reply)):
        text = (
            f"permanent failure for one or more recipients (jane@example.com:550 5.1.1 {reply[:length]}...)"
        )
        assert classify(rcpt(550, text)).answer is Answer.NOT_FOUND, text
    for words in ("Relay acc...", "User unknown, relay access denied", "Host unknown in relay list"):
        text = f"permanent failure for one or more recipients (jane@example.com:550 5.7.1 {words})"
        assert classify(rcpt(550, text)).answer is Answer.REFUSED_US, text


@pytest.mark.parametrize(
    "text",
    [
        "Recipient not found, directory does not respond",
        "Empfänger nicht gefunden, das Verzeichnis antwortet nicht",
        "Utilisateur introuvable, l'annuaire ne répond pas",
        "Usuario no encontrado, el directorio no responde",
        "Utente non trovato, il server LDAP non risponde",
        "Gebruiker niet gevonden, adreslijst reageert niet",
        "Användaren hittades inte, katalogen svarar inte",
        "Odbiorca nie znaleziony, katalog nie odpowiada",
        "Получатель не найден: служба каталогов не отвечает",
        "Empfänger im Moment nicht gefunden",
        "Destinataire introuvable en ce moment",
        "Usuario no encontrado en este momento",
        "Utente non trovato in questo momento",
        "Gebruiker op dit moment niet gevonden",
        "Användaren hittades inte just nu",
        "Brukeren finnes ikke for øyeblikket",
        "Käyttäjää ei löydy tällä hetkellä",
        "Nie znaleziono użytkownika w tej chwili",
        "Пользователь в данный момент не найден",
        "Kullanıcı şu anda bulunamadı",
    ],
)
def test_who_cannot_be_looked_up_now_is_not_missing(text: str) -> None:
    assert classify(rcpt(550, text)).answer in {Answer.UNCLEAR, Answer.TEMPORARY}


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("<jane@example.com>: user lookup success but no user record found in directory", Answer.NOT_FOUND),
        ("user lookup success but no user record found.", Answer.NOT_FOUND),
        ("Account look-up succeeded, but no account record exists", Answer.NOT_FOUND),
        ("user lookup failed, no user record found", Answer.UNCLEAR),
        ("user lookup success but no route found", Answer.UNCLEAR),
        ("user lookup success but no user database server found", Answer.UNCLEAR),
        ("user lookup success but no sender record found", Answer.REFUSED_US),
        ("user lookup success but no user record found for your domain", Answer.REFUSED_US),
    ],
)
def test_what_a_look_up_found_counts_only_where_it_succeeded(words: str, answer: Answer) -> None:
    assert classify(rcpt(550, words, "5.1.1")).answer is answer


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ("550 5.7.1 Blocked", {Answer.REFUSED_US}),
        ("550 Blocked", {Answer.REFUSED_US, Answer.UNCLEAR}),
        ("550 Message rejected due to content", {Answer.REFUSED_US}),
        ("554 5.7.1 Client host [192.0.2.7] is listed", {Answer.REFUSED_US}),
        ("550 rejected", {Answer.UNCLEAR}),
        ("550 5.2.1 Account closed", {Answer.DISABLED}),
        ("550 5.1.1 User unknown", {Answer.NOT_FOUND}),
        ("550-5.1.1 The email account that you tried to reach does not exist.", {Answer.NOT_FOUND}),
        ("550 #5.1.0 Address rejected.", {Answer.NOT_FOUND}),
    ],
)
def test_of_what_exchange_online_passes_on_only_the_remote_servers_own_words_count(
    text: str, answers: set[Answer]
) -> None:
    wrapped = f"Remote server returned unknown recipient or mailbox unavailable -> {text}"
    assert classify(rcpt(550, wrapped, "5.1.351")).answer in answers
    assert classify(rcpt(550, f"550 5.1.351 {wrapped}")).answer in answers


@pytest.mark.parametrize("enhanced", ["5.2.1", "5.2.0", ""])
@pytest.mark.parametrize(
    "words",
    [
        "<jane@example.com>: Mailbox disabled: over quota",
        "Account disabled because it is over its quota",
        "Mailbox inactive (quota)",
        "Account on hold: quota exceeded",
        "The mailbox was locked because it is full: storage limit exceeded",
        "This account has been suspended for exceeding its storage allocation",
        "Das Postfach wurde wegen Überfüllung geschlossen",
        "Postfach wegen Überfüllung gesperrt",
        "Das Konto wurde gesperrt, weil der Speicherplatz aufgebraucht ist",
        "Ce compte a été suspendu : quota dépassé",
        "Esta cuenta ha sido suspendida por cuota excedida",
        "Skrzynka zablokowana z powodu przepełnienia",
        "Konto wegen Überschreitung des Speicherlimits gesperrt",
        "Cuenta suspendida por exceder el espacio",
        "Conta suspensa por excesso de armazenamento",
        "Account sospeso per superamento dello spazio",
    ],
)
def test_a_mailbox_that_is_closed_because_it_is_full_is_full(words: str, enhanced: str) -> None:
    assert classify(rcpt(550, words, enhanced)).answer is Answer.FULL


def test_a_mailbox_that_is_closed_because_of_what_it_sent_is_not_full() -> None:
    reply = rcpt(550, "Account suspended: outgoing mail quota exceeded", "5.2.1")
    assert classify(reply).answer is not Answer.FULL


def test_a_rate_reply_that_names_us_is_still_a_rate_reply() -> None:
    reply = rcpt(421, "[192.0.2.25] too many connections", "4.7.28")
    assert classify(reply, own=["192.0.2.25"]).answer is Answer.RATE_LIMITED


def test_a_temporary_refusal_that_names_us_is_about_us() -> None:
    assert classify(rcpt(450, "not you, 192.0.2.25"), own=["192.0.2.25"]).answer is Answer.REFUSED_US


@pytest.mark.parametrize(
    "text",
    [
        "Your account does not exist",
        "Account you use to send mail not found",
        "Only known users may write to this address; user unknown",
        "User unknown: mail is not allowed from here",
        "Ihre Adresse existiert nicht",
        "Votre compte est inconnu",
        "Su cuenta no existe",
        "Seu endereco nao existe",
        "Il suo indirizzo non esiste",
        "Uw adres bestaat niet",
    ],
)
def test_words_of_a_missing_mailbox_beside_words_about_us_are_not_invalid(text: str) -> None:
    assert classify(rcpt(550, text)).answer not in _INVALID


@pytest.mark.parametrize(
    "text",
    [
        "Your message could not be delivered: no such user",
        "Ihre Nachricht konnte nicht zugestellt werden, Empfänger unbekannt",
        "Votre message n'a pu être remis, utilisateur inconnu",
        "Su mensaje no se puede entregar, usuario desconocido",
        "Utente non trovato su questo server",
        "Uw bericht is niet bezorgd, gebruiker onbekend",
    ],
)
def test_words_about_our_message_do_not_hide_a_missing_mailbox(text: str) -> None:
    assert classify(rcpt(550, text)).answer is Answer.NOT_FOUND


@pytest.mark.parametrize("word", ["spam", "full", "disabled", "blocked", "greylist", "unknown", "sender"])
def test_the_words_of_an_address_do_not_count(word: str) -> None:
    assert classify(rcpt(550, f"<{word}@{word}.example>: Rejected")).answer is Answer.UNCLEAR


@pytest.mark.parametrize(
    "name",
    ["mx.user-unknown.example", "nosuchuser.example.com", "mailbox-full.example", "mailbox.unknown.mx.test"],
)
def test_nor_do_those_of_a_host(name: str) -> None:
    for text in (f"Rejected by {name}", f"{name}: rejected", f"Not today. ({name})"):
        assert classify(rcpt(550, text)).answer in {Answer.UNCLEAR, Answer.REFUSED_US}
    assert classify(rcpt(550, f"{name}: no such user")).answer is Answer.NOT_FOUND


@pytest.mark.parametrize("text", ["User unknown.Please check", "No such user.So sorry", "RCPT.User.Unknown"])
def test_words_with_a_full_stop_between_them_are_no_host(text: str) -> None:
    assert classify(rcpt(550, text)).answer is Answer.NOT_FOUND


@pytest.mark.parametrize("name", ["no-such-user", "user_unknown", "accountDisabled", "not-found"])
def test_nor_do_those_that_are_joined_in_one(name: str) -> None:
    for text in (f"<{name}@example.com>: rejected", f"mail for {name}@example.com was not taken"):
        assert classify(SmtpReply(Stage.RCPT, 550, "", text)).answer not in {
            Answer.NOT_FOUND,
            Answer.DISABLED,
        }


def test_the_enhanced_code_is_found_in_the_text_when_it_is_not_given() -> None:
    assert classify(rcpt(550, "#5.1.1 Rejected")) == ReplyReading(Answer.NOT_FOUND, "bad-mailbox-code")
    assert classify(rcpt(550, "Rejected (#5.1.1)")).answer is Answer.NOT_FOUND
    assert classify(rcpt(550, "Rejected 5.1.1.4")).answer is not Answer.NOT_FOUND


@pytest.mark.parametrize("enhanced", ["4.1.1", "4.1.6", "4.1.10", "2.1.1"])
def test_an_enhanced_code_that_contradicts_the_code_decides_nothing_alone(enhanced: str) -> None:
    assert classify(rcpt(550, "Rejected", enhanced)).answer is Answer.UNCLEAR
    assert classify(rcpt(550, f"{enhanced} Rejected")).answer is Answer.UNCLEAR
    assert classify(rcpt(550, "User unknown", enhanced)).answer is Answer.NOT_FOUND
    assert classify(rcpt(550, "Client host rejected", enhanced[:2] + "7.1")).answer is Answer.REFUSED_US


def test_a_sentence_broken_over_lines_with_repeated_codes_is_read_whole() -> None:
    text = "The email account that you tried to reach does\n5.1.1 not\n5.1.1 exist. Please try"
    assert classify(rcpt(550, text, "5.1.1")).rule == "no-such-mailbox"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Greylisted, please try again in 300 seconds", 300),
        ("Greylisted, try again in 5 minutes", 300),
        ("grey listed, retry 15 min", 900),
        ("Greylisting in action, please come back in 00:05:00", 300),
        ("Greylisted for 1 minutes", 60),
        ("Greylisting aktiv, bitte in 5 Minuten erneut versuchen", 300),
        ("Greylisted, please retry after 120s", 120),
        ("Too many connections. Please try again in an hour", 3600),
        ("Greylisted, try again in 2 hours", 7200),
        ("Greylisted, try again in 99999 hours", 86400),
        ("Greylisted, come back in 99:59:59", 86400),
        ("Greylisted, please try again later", 0),
        ("Greylisted, see rfc 2821 section 4 in 3 steps", 0),
        ("Liste grise, veuillez reessayer dans 300 secondes", 300),
        ("Lista gris, intente de nuevo en 10 minutos", 600),
        ("Greylisting aktiv, bitte in 2 Stunden erneut versuchen", 7200),
        ("Lista grigia, riprovare tra 1 ora", 3600),
    ],
)
def test_the_delay_a_server_names_is_read(text: str, seconds: int) -> None:
    assert classify(rcpt(451, text)).retry_after == seconds


def test_a_final_answer_carries_no_delay() -> None:
    assert classify(rcpt(550, "user unknown, looked for within 5 minutes", "5.1.1")).retry_after == 0


@pytest.mark.parametrize(
    "text",
    [
        "a" * 100_000,
        "<" * 100_000,
        "user " * 20_000,
        "recipient address not " * 5_000,
        "no " * 33_000,
        "a@" * 50_000,
        "1.1." * 25_000,
        "exceeded a b " * 8_000,
        "sorry, " * 14_000,
        "\x1b[" * 50_000,
        "ﷺ" * 33_000,
        '"a" ' * 25_000,
        "::" * 50_000,
        "x" * 1_999 + "@",
        "http://" * 14_000,
        "\x00\r\n" * 30_000,
        "adresse existiert " * 5_000,
        "usuario no a a " * 6_000,
        "mailbox the-address is was " * 3_000,
    ],
)
@pytest.mark.timeout(30)  # a pattern that tries every way through such a text never ends
def test_hostile_text_comes_to_an_end_as_one_printable_line(text: str) -> None:
    classify(rcpt(550, text), own=["192.0.2.25"])
    redacted = redact(text)
    assert len(redacted) <= 300
    assert redacted.isprintable()


@pytest.mark.parametrize(
    "text",
    [
        "a@b.c " * 400,
        "[the] " * 400,
        "the-address " * 200,
        "mailbox unavailable " + "the " * 500,
        "host a said: 550 " * 120,
        "error from remote mail server after " * 60,
        "550-a 550-b " * 200,
    ],
)
@pytest.mark.timeout(5)  # half a minute a reply, where words can be taken in two ways
def test_hostile_text_beside_a_code_about_the_mailbox_comes_to_an_end(text: str) -> None:
    assert classify(rcpt(550, text, "5.1.1")).answer in Answer


def test_a_blocked_mailbox_is_closed_unless_the_reply_says_that_we_are_blocked() -> None:
    assert classify(rcpt(550, "mailbox blocked", "5.2.1")).rule == "mailbox-blocked"
    for words in ("your ip is listed at bl.example.org", "sender rejected", "client host [203.0.113.9]"):
        assert classify(rcpt(550, f"mailbox blocked: {words}", "5.2.1")).answer not in _INVALID


@pytest.mark.parametrize(
    "link", ["https://errors.example/?ip=192.0.2.25", "help.example.org/codes?c=192.0.2.25"]
)
def test_our_address_in_a_link_does_not_make_a_reply_about_us(link: str) -> None:
    reply = rcpt(550, f"mailbox unavailable, see {link}")
    assert classify(reply, own=["192.0.2.25"]).answer is Answer.NOT_FOUND
    assert classify(rcpt(550, f"Refused, see {link}"), own=["192.0.2.25"]).answer not in _INVALID


@pytest.mark.parametrize(
    ("code", "reason", "answer"),
    [
        (550, "mail for example.com loops back to myself", Answer.UNCLEAR),
        (550, "Host or domain name not found. Name service error for name=mx.example type=A", Answer.UNCLEAR),
        (550, 'unknown user: "jane"', Answer.NOT_FOUND),
        (
            550,
            "host mx[10.0.0.1] said: 550 5.1.1 no such user (in reply to RCPT TO)",
            Answer.NOT_FOUND,
        ),
        (
            450,
            "host mx[10.0.0.1] said: 550 5.1.1 no such user (in reply to RCPT TO)",
            Answer.TEMPORARY,
        ),
        (
            550,
            "host mx[10.0.0.1] said: 450 4.1.1 no such user (in reply to RCPT TO)",
            Answer.TEMPORARY,
        ),
        (550, "host mx[10.0.0.1] said: 550 no such user (in reply to MAIL FROM)", Answer.REFUSED_US),
    ],
)
def test_of_an_address_verification_only_the_inner_reason_speaks(
    code: int, reason: str, answer: Answer
) -> None:
    text = f"<jane@example.com>: Recipient address rejected: undeliverable address: {reason}"
    assert classify(rcpt(code, text, f"{code // 100}.1.1")).answer is answer


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.id)
def test_the_words_of_a_language_are_alternatives_in_a_group(language: ReplyLanguage) -> None:
    """They are put between other words: a bare alternative would speak for itself."""
    for name in ("box", "absent", "no", "closed", "blocked", "full", "unknown", "fault"):
        pattern = re.sub(r"\[[^\]]*\]", "", getattr(language, name))
        innermost = re.compile(r"\((?:\?[:!=<]*)?[^()]*\)")
        while (shorter := innermost.sub("", pattern)) != pattern:
            pattern = shorter
        assert "|" not in pattern, name


def test_the_words_of_the_lexicon_are_written_as_replies_are_read() -> None:
    words = {word.rstrip("*") for line in WORDS.values() for word in line.split()}
    assert {word for word in words if simplify(word) != fold(word)} == set()


@pytest.mark.parametrize(
    ("code", "text", "answer"),
    [
        (550, "उपयोगकर्ता मौजूद नहीं है", Answer.NOT_FOUND),
        (550, "प्राप्तकर्ता नहीं मिला", Answer.NOT_FOUND),
        (452, "Posta kutusu kotasını aştı", Answer.FULL),
        (421, "Зʼєднань занадто багато", Answer.RATE_LIMITED),
    ],
)
def test_vowel_signs_dotless_letters_and_apostrophes_do_not_hide_a_word(
    code: int, text: str, answer: Answer
) -> None:
    assert classify(SmtpReply(Stage.RCPT, code, "", text)).answer is answer


def test_escapes_and_controls_do_not_hide_the_words() -> None:
    assert classify(rcpt(550, "user\x00\tunknown\r\n\x1b")).answer is Answer.NOT_FOUND
    assert simplify("doesn’t, can't, cannot, isnt") == "does not, can not, can not, is not"
    assert simplify("L’utilisateur n'existe pas à l'adresse") == "l utilisateur n existe pas a l adresse"
    assert simplify("Sender’s  Adresse\tÜBER\n5.1.8 <a@b.example>") == "senders adresse uber the-address"


_LONG_WITH_DIGITS = re.compile(r"(?=(?:\S*?\d){4})\S{12}")


def test_a_reply_means_without_its_ids_what_it_means_with_them() -> None:
    replies = [case.reply for table in TABLES.values() for case in table]
    may_have_ids = [reply for reply in replies if _LONG_WITH_DIGITS.search(reply.text)]
    assert len(may_have_ids) >= 100
    reader = ReplyReader(())
    assert [reply for reply in may_have_ids if reader.read(reply).reading != read(reply)] == []


@pytest.mark.parametrize(
    "text",
    [
        "OK {} - gsmtp",
        "https://support.google.com/mail/?p=NoSuchUser {} - gsmtp",
        "Requested action not taken: mailbox unavailable (S2017062302). [{}]",
    ],
)
def test_replies_that_differ_in_the_id_of_a_session_are_one(text: str) -> None:
    reader = ReplyReader(())
    ids = ("41be03b00d2f7-af5c0f5si13579246a12.345", "5614622812f47-3f1a9c77b2dsi9876543b6e.21")
    one, other = (reader.read(SmtpReply(Stage.RCPT, 550, "5.1.1", text.format(name))) for name in ids)
    assert one == other
    assert one.text == redact(text.format(ids[0]))


@pytest.mark.parametrize(
    "text",
    [
        "Client host blocked, see https://www.spamhaus.org/query/ip/203.0.113.77",
        "mx12345678.mail.example.com says no",
        "203.0.113.177 is listed",
        "call 08001234567890",
        "too_long_and_no_id_at_all",
    ],
)
def test_what_is_no_id_stays_for_who_reads_a_reply(text: str) -> None:
    assert ReplyReader(()).read(SmtpReply(Stage.RCPT, 550, "", text)).reply.text == text


@pytest.mark.parametrize(
    "text",
    ["The box has been locked overnight", "Ящик заморожен на неделю", "We closed the mailbox for a breather"],
)
def test_a_code_about_the_mailbox_makes_nobody_missing_who_is_closed_for_a_while(text: str) -> None:
    assert classify(rcpt(550, text, "5.1.1")).answer not in _INVALID
