"""One conversation with a scripted server: what is said, in which order, and how it ends."""

from __future__ import annotations

import asyncio

import pytest

from mailsift.pipeline.probe.config import ProbeConfig, parse_source
from mailsift.pipeline.probe.session import DomainRecipients, Ending, Peer, ProbeSession, wants_one_domain
from mailsift.pipeline.replies.classifier import SmtpReply
from mailsift.pipeline.replies.table import Stage
from mailsift.pipeline.throttle import Allowance
from tests.support.connections import talking
from tests.unit.pipeline.smtp_stub import DROP, NOT_FOUND, SILENCE, Mailer, knows, mailing
from tests.unit.pipeline.smtp_talk import codes, refused, talk

ANN, BOB = "ann@a.test", "bob@a.test"
PROBE = "random@a.test"


async def test_with_pipelining_three_flights_hold_the_whole_session() -> None:
    mailer = Mailer(rcpt=knows("ann"))
    async with mailing(mailer) as port:
        log = await talk(port, DomainRecipients("a.test", PROBE, (ANN, BOB)))
    assert log.ending is Ending.DONE
    assert codes(log) == {PROBE: 550, ANN: 250, BOB: 550}
    assert mailer.verbs == [["EHLO", "MAIL", "RCPT", "RCPT", "RCPT", "QUIT"]]
    assert mailer.batches == 2
    assert log.sent == 3


async def test_without_pipelining_every_command_waits_for_its_reply() -> None:
    mailer = Mailer(rcpt=knows("ann"), offers=())
    async with mailing(mailer) as port:
        log = await talk(port, DomainRecipients("a.test", PROBE, (ANN, BOB)))
    assert codes(log) == {PROBE: 550, ANN: 250, BOB: 550}
    assert mailer.batches == len(mailer.seen[0]) == 6


async def test_a_large_group_waits_for_its_random_recipient() -> None:
    mailer = Mailer(rcpt=knows("random"))
    many = tuple(f"user{n}@a.test" for n in range(10))
    async with mailing(mailer) as port:
        log = await talk(port, DomainRecipients("a.test", PROBE, many))
    assert codes(log) == {PROBE: 250}
    assert mailer.recipients == [PROBE]
    assert log.ending is Ending.DONE


@pytest.mark.parametrize(("count", "asked"), [(3, 4), (4, 1)])
async def test_three_go_out_beside_their_random_recipient_and_more_wait(count: int, asked: int) -> None:
    mailer = Mailer(rcpt=knows("random"))
    people = tuple(f"user{n}@a.test" for n in range(count))
    async with mailing(mailer) as port:
        await talk(port, DomainRecipients("a.test", PROBE, people))
    assert len(mailer.recipients) == asked


async def test_a_random_recipient_is_asked_alone_where_there_is_nobody_else() -> None:
    mailer = Mailer()
    async with mailing(mailer) as port:
        log = await talk(port, DomainRecipients("a.test", PROBE, ()))
    assert codes(log) == {PROBE: 550}


def test_the_size_of_a_group_is_what_it_asks_at_most() -> None:
    sizes = {("", ""): 2, (PROBE, ""): 3, ("", PROBE): 3, (PROBE, PROBE): 3}
    for (first, last), size in sizes.items():
        assert DomainRecipients("a.test", first, (ANN, BOB), last).size == size


@pytest.mark.parametrize("offers", [("PIPELINING",), ()])
@pytest.mark.parametrize(
    ("reply", "again"), [("250 ok", True), ("251 will forward", True), ("252 maybe", False)]
)
async def test_where_all_are_accepted_a_random_recipient_is_asked_at_the_end(
    reply: str, again: bool, offers: tuple[str, ...]
) -> None:
    mailer = Mailer(rcpt=lambda address: NOT_FOUND if address == PROBE else reply, offers=offers)
    async with mailing(mailer) as port:
        log = await talk(port, DomainRecipients("a.test", "", (ANN, BOB), PROBE))
    code = int(reply[:3])
    assert codes(log) == {ANN: code, BOB: code} | ({PROBE: 550} if again else {})
    end = ["RSET", "MAIL", "RCPT"] if again else []
    assert mailer.verbs == [["EHLO", "MAIL", "RCPT", "RCPT", *end, "QUIT"]]


@pytest.mark.parametrize(
    ("refused", "accepted", "asked"), [(4, 4, 2), (3, 5, 1), (4, 3, 1), (9, 4, 2), (0, 8, 1), (8, 0, 1)]
)
async def test_who_accepts_the_last_four_after_refusing_four_is_asked_for_the_random_one_again(
    refused: int, accepted: int, asked: int
) -> None:
    ghosts = [f"ghost{n}@a.test" for n in range(refused)]
    people = [f"user{n}@a.test" for n in range(accepted)]
    mailer = Mailer(rcpt=knows(*(address.partition("@")[0] for address in people)))
    async with mailing(mailer) as port:
        group = DomainRecipients("a.test", PROBE, (*ghosts, *people))
        log = await talk(port, group, pick_witness=lambda _: "")  # so that it goes on at the end
    assert mailer.recipients.count(PROBE) == asked
    assert mailer.verbs[0][-4:-1] == (["RSET", "MAIL", "RCPT"] if asked == 2 else ["RCPT"] * 3)
    assert codes(log) == dict.fromkeys([PROBE, *ghosts], 550) | dict.fromkeys(people, 250)


@pytest.mark.parametrize("offers", [("PIPELINING",), ()])
@pytest.mark.parametrize(
    ("allowance", "people", "sent"),
    [
        (Allowance(4, -1), "nnnnnnnn", 4),  # the random one, and three that nobody knows
        (Allowance(4, -1), "aaaaaaaa", 9),  # each that is known makes room for one more
        (Allowance(4, -1), "annnnnnn", 5),
        (Allowance(4, -1), "aaannnnn", 7),  # then four are unknown
        (Allowance(1, -9), "aaaaaaaa", 1),
        (Allowance(0, 20), "nnnnnnnn", 9),
        (None, "nnnnnnnn", 9),
    ],
)
async def test_where_unknown_ones_count_a_session_ends_before_they_are_too_many(
    offers: tuple[str, ...], allowance: Allowance | None, people: str, sent: int
) -> None:
    mailer = Mailer(rcpt=lambda address: "250 ok" if address.startswith("a") else NOT_FOUND, offers=offers)
    asked = tuple(f"{letter}{n}@a.test" for n, letter in enumerate(people))
    async with mailing(mailer) as port:
        log = await talk(port, DomainRecipients("a.test", PROBE, asked), allowance=allowance)
    assert (log.ending, log.sent, len(log.answers)) == (Ending.DONE, sent, sent)
    assert mailer.recipients == [PROBE, *asked][:sent]


async def test_a_recipient_is_kept_back_for_the_witness_and_domains_beyond_the_allowance_are_left() -> None:
    mailer = Mailer(rcpt=knows("ann"))
    groups = [DomainRecipients(f"{n}.test", f"random@{n}.test", (f"ann@{n}.test",)) for n in range(4)]
    async with mailing(mailer) as port:
        log = await talk(
            port, *groups, allowance=Allowance(4, -1), pick_witness=lambda _: "ann@0.test", separate=True
        )
    assert log.ending is Ending.DONE
    assert list(log.answers) == [
        "random@0.test",
        "ann@0.test",
        "random@1.test",
        "ann@1.test",
        "random@2.test",
    ]
    assert log.witness_reply is not None


async def test_a_witness_is_asked_once_more_at_the_end_and_its_first_answer_stands() -> None:
    recipients: list[str] = []

    def say(address: str) -> str:
        recipients.append(address)
        return "250 ok" if recipients.count(address) == 1 else NOT_FOUND

    mailer = Mailer(rcpt=say)
    async with mailing(mailer) as port:
        log = await talk(port, DomainRecipients("a.test", "", (ANN, BOB)), pick_witness=lambda _: ANN)
    assert codes(log) == {ANN: 250, BOB: 250}
    assert log.witness_reply is not None
    assert (log.witness, log.witness_reply.code) == (ANN, 550)
    assert mailer.verbs == [["EHLO", "MAIL", "RCPT", "RCPT", "RSET", "MAIL", "RCPT", "QUIT"]]


async def test_without_pipelining_nobody_is_asked_before_the_random_recipient_is_answered() -> None:
    mailer = Mailer(rcpt=knows("random", "ann", "bob"), offers=())
    async with mailing(mailer) as port:
        log = await talk(port, DomainRecipients("a.test", PROBE, (ANN, BOB)))
    assert codes(log) == {PROBE: 250}
    assert mailer.recipients == [PROBE]


async def test_without_ehlo_helo_will_do() -> None:
    mailer = Mailer(rcpt=knows("ann"), offers=None)
    async with mailing(mailer) as port:
        log = await talk(port, DomainRecipients("a.test", "", (ANN,)))
    assert codes(log) == {ANN: 250}
    assert mailer.verbs == [["EHLO", "HELO", "MAIL", "RCPT", "QUIT"]]


async def test_domains_that_need_it_get_transactions_of_their_own() -> None:
    mailer = Mailer(rcpt=knows("ann"))
    async with mailing(mailer) as port:
        log = await talk(
            port,
            DomainRecipients("a.test", "", (ANN,)),
            DomainRecipients("b.test", "", ("ann@b.test",)),
            separate=True,
        )
    assert codes(log) == {ANN: 250, "ann@b.test": 250}
    assert mailer.verbs == [["EHLO", "MAIL", "RCPT", "RSET", "MAIL", "RCPT", "QUIT"]]


async def test_any_number_of_such_domains_takes_two_flights() -> None:
    mailer = Mailer(rcpt=knows("user0"))
    names = ("a.test", "b.test", "c.test")
    groups = [
        DomainRecipients(name, f"random@{name}", tuple(f"user{n}@{name}" for n in range(5))) for name in names
    ]
    async with mailing(mailer) as port:
        log = await talk(port, *groups, separate=True)
    asked = {address: 550 for group in groups for address in (group.random, *group.addresses)}
    assert codes(log) == asked | {f"user0@{name}": 250 for name in names}
    assert mailer.batches == 3
    scouts = ["MAIL", "RCPT", "RSET", "MAIL", "RCPT", "RSET", "MAIL", "RCPT"]
    five = ["RCPT"] * 5
    real = [*five, "RSET", "MAIL", *five, "RSET", "MAIL", *five]
    assert mailer.verbs == [["EHLO", *scouts, *real, "QUIT"]]


@pytest.mark.parametrize(
    ("mailer", "stage", "code"),
    [
        (Mailer(banner="554 no, go away"), Stage.BANNER, 554),
        (Mailer(banner="421 busy"), Stage.BANNER, 421),
        (Mailer(mail="550 5.7.1 not you"), Stage.MAIL, 550),
    ],
)
async def test_a_refusal_before_rcpt_ends_the_session(mailer: Mailer, stage: Stage, code: int) -> None:
    async with mailing(mailer) as port:
        log = await talk(port, DomainRecipients("a.test", "", (ANN,)))
    assert log.ending is Ending.REFUSED
    assert log.refusal is not None
    assert (log.refusal.stage, log.refusal.code) == (stage, code)
    assert not log.answers


@pytest.mark.parametrize("first", [b"550 5.7.1 you are listed\r\n", b"500 what?\r\n", b"502 what?\r\n"])
async def test_a_refusal_of_our_greeting_is_one_of_the_greeting(first: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 stub\r\n")
        while line := await reader.readline():
            replies = {b"EHLO": first, b"HELO": b"550 5.7.1 you are listed\r\n"}
            writer.write(replies.get(line[:4], b"221 Bye\r\n"))

    async with talking(serve) as port:
        log = await talk(port, DomainRecipients("a.test", "", (ANN,)))
    assert log.ending is Ending.REFUSED
    assert log.refusal is not None
    assert (log.refusal.stage, log.refusal.code) == (Stage.EHLO, 550)


async def test_smtputf8_is_used_only_where_it_is_offered() -> None:
    group = DomainRecipients("a.test", PROBE, (ANN, "jürgen@a.test"))
    with_it, without = Mailer(rcpt=knows("jürgen")), Mailer(rcpt=knows("jürgen"), offers=("PIPELINING",))
    async with mailing(with_it) as port:
        log = await talk(port, group)
    assert codes(log) == {PROBE: 550, ANN: 550, "jürgen@a.test": 250}
    assert "MAIL FROM:<> SMTPUTF8" in with_it.seen[0]
    async with mailing(without) as port:
        log = await talk(port, group)
    assert codes(log) == {PROBE: 550, ANN: 550}
    assert log.not_askable == ["jürgen@a.test"]
    assert without.recipients == [PROBE, ANN]
    assert "MAIL FROM:<>" in without.seen[0]


@pytest.mark.parametrize("offers", [("PIPELINING", "SMTPUTF8"), ("SMTPUTF8",)])
@pytest.mark.parametrize("refusal", ["555 5.5.4 Unsupported option: SMTPUTF8", "550 5.7.1 not for you"])
async def test_a_server_that_refuses_the_smtputf8_it_offers_refuses_nobody_else(
    offers: tuple[str, ...], refusal: str
) -> None:
    mailer = Mailer(rcpt=knows("ann", "jürgen"), offers=offers, mail_utf8=refusal)
    group = DomainRecipients("a.test", PROBE, ("jürgen@a.test", ANN))
    async with mailing(mailer) as port:
        log = await talk(port, group)
    assert log.ending is Ending.DONE
    assert codes(log) == {PROBE: 550, ANN: 250}
    assert log.not_askable == ["jürgen@a.test"]


async def test_a_reply_that_names_another_one_unties_a_session_whose_smtputf8_is_refused() -> None:
    late = f"550 5.1.1 <{BOB}>: user unknown"  # so BOB got the reply of somebody else
    mailer = Mailer(
        rcpt=lambda address: late if not address.isascii() else knows("ann", "bob")(address),
        mail_utf8="555 5.5.4 Unsupported option: SMTPUTF8",
    )
    async with mailing(mailer) as port:
        log = await talk(port, DomainRecipients("a.test", PROBE, ("jürgen@a.test", ANN, BOB)))
    assert log.ending is Ending.UNTIED
    assert codes(log) == {}


async def test_who_is_refused_before_a_plain_sender_was_taken_is_refused_as_everybody() -> None:
    mailer = Mailer(rcpt=knows("jürgen"), mail_utf8="550 5.7.1 not for you")
    async with mailing(mailer) as port:
        log = await talk(port, DomainRecipients("a.test", "", ("jürgen@a.test",)))
    assert log.ending is Ending.REFUSED
    assert not log.not_askable


async def test_ascii_addresses_do_not_ask_for_smtputf8() -> None:
    mailer = Mailer()
    async with mailing(mailer) as port:
        await talk(port, DomainRecipients("a.test", "", (ANN,)))
    assert "MAIL FROM:<>" in mailer.seen[0]


async def test_where_only_unaskable_addresses_stand_nobody_is_asked() -> None:
    mailer = Mailer(offers=("PIPELINING",))
    async with mailing(mailer) as port:
        log = await talk(port, DomainRecipients("a.test", PROBE, ("jürgen@a.test",)))
    assert log.ending is Ending.DONE
    assert mailer.recipients == []


async def test_after_a_drop_nothing_counts_that_was_said_before() -> None:
    replies = {ANN: "250 Ok", BOB: DROP}
    mailer = Mailer(rcpt=lambda address: replies.get(address, NOT_FOUND))
    async with mailing(mailer) as port:
        log = await talk(port, DomainRecipients("a.test", PROBE, (ANN, BOB, "eve@a.test")))
    assert not log.answers
    assert log.answered == 2
    assert log.ending is Ending.DROPPED
    assert log.stage is Stage.RCPT


async def test_a_421_about_the_session_is_no_answer_about_the_recipient() -> None:
    mailer = Mailer(rcpt=knows("ann"), most_recipients=2, too_many="421 4.7.0 too many recipients")
    async with mailing(mailer) as port:
        log = await talk(port, DomainRecipients("a.test", PROBE, (ANN, BOB)))
    assert not log.answers
    assert log.answered == 2
    assert log.ending is Ending.LIMIT


@pytest.mark.parametrize(
    ("offers", "ending", "last"), [(("PIPELINING",), Ending.DONE, [452, 452]), ((), Ending.LIMIT, [452])]
)
async def test_a_limit_ends_the_session_where_more_could_still_be_asked(
    offers: tuple[str, ...], ending: Ending, last: list[int]
) -> None:
    mailer = Mailer(rcpt=knows("ann"), most_recipients=1, offers=offers)
    async with mailing(mailer) as port:
        log = await talk(port, DomainRecipients("a.test", "", (ANN, BOB, "eve@a.test")))
    assert log.ending is ending
    assert list(codes(log).values()) == [250, *last]


async def test_what_was_answered_before_a_refusal_counts_though_more_was_on_the_way() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 stub\r\n")
        scripted = {b"MAIL": [b"250 ok", b"550 5.7.1 enough"], b"EHLO": [b"250-stub\r\n250 PIPELINING"]}
        scripted[b"RCPT"] = [b"250 ok", b"503 5.5.1 no sender"]
        while line := await reader.readline():
            replies = scripted.get(line[:4], [b"221 bye" if line.startswith(b"QUIT") else b"250 ok"])
            writer.write((replies.pop(0) if len(replies) > 1 else replies[0]) + b"\r\n")

    async with talking(serve) as port:
        first, second = (DomainRecipients(f"{name}.test", "", (f"x@{name}.test",)) for name in "ab")
        log = await talk(port, first, second, separate=True)
    assert (log.ending, codes(log)) == (Ending.REFUSED, {"x@a.test": 250})
    assert log.refusal is not None
    assert log.refusal.stage is Stage.MAIL


@pytest.mark.parametrize("domains", [2, 5])
async def test_what_was_answered_before_a_refused_reset_counts_however_much_was_on_the_way(
    domains: int,
) -> None:
    mailer = Mailer(rcpt=knows("x"), rset="502 5.5.1 not implemented")
    async with mailing(mailer) as port:
        groups = (DomainRecipients(f"d{n}.test", "", (f"x@d{n}.test",)) for n in range(domains))
        log = await talk(port, *groups, separate=True, pick_witness=lambda _: "")  # so that QUIT waits
    assert (log.ending, codes(log)) == (Ending.REFUSED, {"x@d0.test": 250})


@pytest.mark.parametrize(
    ("text", "is_tied"),
    [
        (f"<{ANN}> ok", True),
        (f"<{ANN.upper()}> ok", True),
        ("ok, says postmaster@a.test", True),
        ("ok", True),
        (f"<{BOB}> ok", False),
        (f"recipient {BOB.upper()} ok", False),
        (f"<{PROBE}> ok", False),
    ],
)
async def test_a_reply_that_names_another_one_of_the_session_unties_it(text: str, is_tied: bool) -> None:
    mailer = Mailer(rcpt=lambda address: f"250 {text}" if address == ANN else NOT_FOUND)
    async with mailing(mailer) as port:
        log = await talk(port, DomainRecipients("a.test", PROBE, (ANN, BOB)))
    assert log.ending is (Ending.DONE if is_tied else Ending.UNTIED)
    assert codes(log) == ({PROBE: 550, ANN: 250, BOB: 550} if is_tied else {})


@pytest.mark.parametrize(
    ("own", "text", "is_tied"),
    [
        ("ann", "<joann@a.test>: no such user", False),
        ("ann", "joann@a.test is no mailbox of ours, nor is ann@a.test", True),
        ("ann", "'ann@a.test' is unknown", True),
        ("ann", "<ann@a.test.>: unknown", True),
        ("brien", "<o'brien@a.test>: unknown", False),
        ("o'brien", "<o'brien@a.test>: unknown", True),
        ("o'brien", "<brien@a.test>: unknown", False),
        ('"ann b"', '<"ann b"@a.test>: unknown', True),
        ('"ann b"', "<ann@a.test>: unknown", False),
    ],
)
async def test_an_address_that_another_one_ends_with_is_not_its_own(
    own: str, text: str, is_tied: bool
) -> None:
    asked = tuple(f"{local}@a.test" for local in ("joann", "ann", "brien", "o'brien", '"ann b"'))
    mailer = Mailer(rcpt=lambda who: f"550 5.1.1 {text}" if who == f"{own}@a.test" else "250 ok")
    async with mailing(mailer) as port:
        log = await talk(port, DomainRecipients("a.test", "", asked))
    assert log.ending is (Ending.DONE if is_tied else Ending.UNTIED)


async def test_a_reply_took_the_time_since_its_command() -> None:
    mailer = Mailer(latency=0.02, offers=())
    clock = asyncio.get_running_loop()
    async with mailing(mailer) as port:
        began = clock.time()
        log = await talk(port, DomainRecipients("a.test", "", tuple(f"u{n}@a.test" for n in range(20))))
        whole = 1000 * (clock.time() - began)
    took = [answer.took_ms for answer in log.answers.values()]
    assert min(took) >= 18  # clocks tick
    assert sum(took) <= whole


@pytest.mark.parametrize(
    ("code", "text", "is_wanted"),
    [
        (451, "Multiple destination domains per transaction is unsupported", True),
        (451, "Temporary failure", False),
        (551, "Multiple destination domains per transaction is unsupported", False),
        (250, "Multiple destination domains", False),
    ],
)
def test_a_server_may_want_a_transaction_for_every_domain(code: int, text: str, is_wanted: bool) -> None:
    assert wants_one_domain(SmtpReply(Stage.RCPT, code, "", text)) is is_wanted


async def test_another_421_ends_the_session_and_answers_its_recipient_where_it_was_asked_singly() -> None:
    mailer = Mailer(rcpt=lambda address: "421 4.3.2 shutting down" if address == ANN else NOT_FOUND)
    async with mailing(mailer) as port:
        log = await talk(port, DomainRecipients("a.test", PROBE, (ANN, BOB)))
        alone = await talk(port, DomainRecipients("a.test", "", (ANN,)), singly=True)
    assert not log.answers
    assert log.refusal is not None
    assert log.refusal.code == 421
    assert codes(alone) == {ANN: 421}
    assert {log.ending, alone.ending} == {Ending.DROPPED}


async def test_a_silent_server_ends_with_the_reply_deadline() -> None:
    mailer = Mailer(rcpt=lambda _: SILENCE, offers=())
    async with mailing(mailer) as port:
        log = await talk(port, DomainRecipients("a.test", "", (ANN,)), within=60, reply_timeout=0.2)
    assert log.ending is Ending.SLOW


async def test_when_a_reply_is_missing_nobody_gets_the_answer_of_somebody_else() -> None:
    mailer = Mailer(rcpt=lambda address: SILENCE if address == ANN else "250 Ok")
    async with mailing(mailer) as port:
        log = await talk(port, DomainRecipients("a.test", "", (BOB, ANN, "eve@a.test")))
    assert log.ending is Ending.UNTIED
    assert not log.answers


async def test_one_byte_at_a_time_does_not_hold_a_session_beyond_its_deadline() -> None:
    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 ")
        while True:
            writer.write(b"a")
            await writer.drain()
            await asyncio.sleep(0.02)

    async with talking(drip) as port:
        log = await talk(port, DomainRecipients("a.test", "", (ANN,)), within=0.3)
    assert log.ending is Ending.SLOW
    assert log.stage is Stage.BANNER


@pytest.mark.parametrize("line", [b"220-and another thing\r\n" * 64, b"A" * 4096, b"250 unasked\r\n" * 200])
async def test_an_endless_reply_ends_the_session(line: bytes) -> None:
    sent = 0

    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"220-hello\r\n")
        while True:
            writer.write(line)
            sent += len(line)
            await writer.drain()

    async with talking(flood) as port:
        log = await talk(port, DomainRecipients("a.test", "", (ANN,)), within=60)
    assert log.ending not in {Ending.DONE, Ending.SLOW}
    assert not log.answers
    assert sent < 50_000_000


async def test_goodbye_takes_no_long_time_and_who_was_asked_singly_is_believed_without() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 stub\r\n")
        while line := await reader.readline():
            if not line.startswith(b"QUIT"):
                writer.write(b"250 Ok\r\n")

    async with talking(serve) as port:
        ann, patience = DomainRecipients("a.test", "", (ANN,)), 50.0
        async with asyncio.timeout(30):  # goodbye gets less than a reply
            log, alone = await asyncio.gather(
                talk(port, ann, within=60, reply_timeout=patience),
                talk(port, ann, within=60, reply_timeout=patience, singly=True),
            )
    assert (log.ending, codes(log)) == (Ending.UNTIED, {})
    assert (alone.ending, codes(alone)) == (Ending.DONE, {ANN: 250})


@pytest.mark.parametrize(
    ("goodbye", "together", "alone"),
    [
        (b"221 bye\r\n", True, True),
        (b"421 4.3.2 closing\r\n", False, True),
        (b"", False, True),
        (b"250 ok\r\n", False, False),
    ],
)
async def test_whose_goodbye_is_believed(goodbye: bytes, together: bool, alone: bool) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 stub\r\n")
        while not (line := await reader.readline()).startswith(b"QUIT") and line:
            writer.write(b"250 ok\r\n")
        writer.write(goodbye)
        await writer.drain()

    async with talking(serve) as port:
        for singly, is_believed in ((False, together), (True, alone)):
            log = await talk(port, DomainRecipients("a.test", "", (ANN,)), singly=singly)
            assert codes(log) == ({ANN: 250} if is_believed else {})


async def test_a_session_that_is_given_up_hangs_up() -> None:
    gone = asyncio.Event()

    async def mute(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        try:
            await reader.read()
        finally:
            gone.set()

    async with talking(mute) as port:
        await talk(port, DomainRecipients("a.test", "", (ANN,)), reply_timeout=0.1)
        async with asyncio.timeout(30):
            await gone.wait()


async def test_nobody_is_asked_for_once_the_room_is_given_away_that_was_booked() -> None:
    seen = Mailer()
    async with mailing(seen) as port:
        now = asyncio.get_running_loop().time()
        log = await talk(port, DomainRecipients("a.test", "", (ANN,)), until=now)
    assert (log.ending, log.sent, log.answers) == (Ending.SLOW, 0, {})
    assert seen.seen
    assert not [lines for lines in seen.seen if any("RCPT" in line for line in lines)]


async def test_nobody_listens() -> None:
    async with mailing(Mailer()) as port:
        pass
    log = await talk(port, DomainRecipients("a.test", "", (ANN,)))
    assert log.ending is Ending.UNREACHED
    assert log.stage is Stage.CONNECT


async def test_a_source_address_is_bound_and_a_wrong_one_fails_cleanly() -> None:
    peers = []

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peers.append(writer.get_extra_info("peername")[0])
        writer.write(b"554 no\r\n")

    async with talking(serve) as port:
        for own in ("127.0.0.9", "192.0.2.77"):
            config = ProbeConfig(helo_name="probe.test", port=port)
            source = parse_source(own, helo_name="probe.test")
            session = ProbeSession(
                config, Peer("mx", "127.0.0.1"), source, tls=None, is_worth_asking=refused, singly=False
            )
            log = await session.run([[DomainRecipients("a.test", "", (ANN,))]], within=5)
            assert log.ending is (Ending.REFUSED if own == "127.0.0.9" else Ending.UNREACHED)
    assert peers == ["127.0.0.9"]


@pytest.mark.parametrize(("within", "is_half_answered"), [(5.0, True), (0.2, False)])
async def test_a_reply_that_stays_away_is_told_from_the_end_of_a_sessions_time(
    within: float, is_half_answered: bool
) -> None:
    async with mailing(Mailer(loses=True)) as port:
        group = DomainRecipients("a.test", PROBE, (ANN, BOB))
        log = await talk(port, group, within=within, reply_timeout=0.4)
    assert (log.ending, log.is_half_answered) == (Ending.SLOW, is_half_answered)
