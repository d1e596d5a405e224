"""The prober's pure parts: sources, queues, session limits, blanket refusals, cached facts."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from string import ascii_letters, ascii_lowercase, digits

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailsift.pipeline.dns.rules import MAX_EXCHANGERS
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.facts import Answer, CatchAllFact, Known, MailboxFact
from mailsift.pipeline.probe.cache import (
    RememberedCatchAll,
    mailbox_key,
    pack_catch_all,
    pack_mailbox,
    unpack_catch_all,
    unpack_mailbox,
)
from mailsift.pipeline.probe.collector import ReplyReader, blanket_refusal
from mailsift.pipeline.probe.config import (
    SHARED_IDENTITY,
    Identities,
    Source,
    parse_source,
    pick_source,
    subnet_of,
)
from mailsift.pipeline.probe.queue import (
    CatchAllState,
    LearnedLimits,
    ProbeQueue,
    ProbeTarget,
    peers_of,
    random_local,
)
from mailsift.pipeline.probe.session import is_session_limit
from mailsift.pipeline.providers import Provider
from mailsift.pipeline.replies.classifier import SmtpReply
from mailsift.pipeline.replies.table import Stage
from tests.unit.pipeline.smtp_stub import routed

HERE = parse_source("", helo_name="probe.test")


def rcpt(code: int, enhanced: str, text: str) -> SmtpReply:
    return SmtpReply(Stage.RCPT, code, enhanced, text)


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("", Source("", "", "", "probe.test")),
        ("192.0.2.1", Source("192.0.2.1", "192.0.2.1", "", "probe.test", "192.0.2.1")),
        ("::FFFF:192.0.2.1", Source("192.0.2.1", "192.0.2.1", "", "probe.test", "192.0.2.1")),
        ("2001:DB8::1 as six.test", Source("2001:db8::1", "2001:db8::1", "", "six.test", "2001:db8::1")),
        (
            "socks5://me:secret@10.0.0.1:1080 as out.test",
            Source(
                "socks5://10.0.0.1:1080",
                "",
                "socks5://me:secret@10.0.0.1:1080",
                "out.test",
                "socks5://10.0.0.1:1080",
            ),
        ),
    ],
)
def test_sources_are_read_and_their_labels_hold_no_password(text: str, source: Source) -> None:
    assert parse_source(text, helo_name="probe.test") == source
    assert "secret" not in source.label


def test_an_address_keeps_its_source_and_a_new_source_takes_only_its_share() -> None:
    three = [parse_source(f"192.0.2.{n}", helo_name="p.test") for n in (1, 2, 3)]
    people = [f"user{n}@a.test" for n in range(3000)]
    before = {who: pick_source(three[:2], "a", who) for who in people}
    after = {who: pick_source(three, "a", who) for who in people}
    assert all(after[who] in (before[who], three[2]) for who in people)
    assert min(Counter(source.label for source in after.values()).values()) > 800


IDENTITIES = Identities(
    [
        "10.0.0.5=198.51.100.7",
        "socks5://10.0.0.9:1080=203.0.113.4",
        "socks5://Proxy.example:1080=203.0.113.5",
        "socks5://me:secret@[2001:DB8::9]:1080=203.0.113.6",
        "default=2001:DB8::1",
    ]
)


@pytest.mark.parametrize(
    ("text", "identity"),
    [
        ("10.0.0.5", "198.51.100.7"),
        ("10.0.0.6 as out.test", "10.0.0.6"),
        ("socks5://me:secret@10.0.0.9:1080", "203.0.113.4"),
        ("socks5://proxy.EXAMPLE:1080", "203.0.113.5"),
        ("socks5://[2001:db8::9]:1080", "203.0.113.6"),
        ("", "2001:db8::1"),
    ],
)
def test_an_identity_is_the_address_as_the_world_sees_it(text: str, identity: str) -> None:
    assert parse_source(text, helo_name="probe.test", identities=IDENTITIES).identity == identity


@pytest.mark.parametrize(
    ("identity", "known_as"),
    [
        ("::ffff:198.51.100.7", "198.51.100.7"),
        ("2001:DB8:0::7", "2001:db8::7"),
        ("SOCKS5://me:secret@Proxy.Example.:1080/", "socks5://proxy.example:1080"),
        ("socks5://[2001:DB8:0::9]:1080", "socks5://2001:db8::9:1080"),
        ("egress-one", "egress-one"),
    ],
)
def test_an_identity_is_one_budget_however_it_is_written_and_holds_no_password(
    identity: str, known_as: str
) -> None:
    assert Identities([identity]).of("10.0.0.5") == known_as
    assert Identities([f"default={identity}"]).of("") == known_as
    if "://" in identity:
        assert parse_source(identity, helo_name="probe.test").identity == known_as


def test_a_machine_behind_one_egress_says_it_once_and_unnamed_default_routes_share_a_budget() -> None:
    alone = Identities(["198.51.100.7"])
    assert {alone.of(label) for label in ("", "10.0.0.5", "socks5://10.0.0.9:1080")} == {"198.51.100.7"}
    assert Identities().of("") == SHARED_IDENTITY
    assert Identities(default="198.51.100.7").of("") == "198.51.100.7"
    for broken in ("", "10.0.0.5=", "=198.51.100.7", "10.0.0.5=an address"):
        with pytest.raises(MailsiftError, match="identity"):
            Identities([broken])
    with pytest.raises(MailsiftError, match="bad_source"):
        Identities(["10.0.0.555=198.51.100.7"])


@pytest.mark.parametrize(
    ("identity", "subnet"),
    [
        ("192.0.2.77", "192.0.2.0/24"),
        ("2001:db8:0:1:a::7", "2001:db8:0:1::/64"),
        ("socks5://10.0.0.9:1080", "socks5://10.0.0.9:1080"),
        ("", ""),
    ],
)
def test_greylisting_takes_neighbours_for_one(identity: str, subnet: str) -> None:
    assert subnet_of(identity) == subnet


def test_who_is_known_by_a_source_goes_back_to_it_or_to_a_neighbour() -> None:
    near, far, known = (
        parse_source(text, helo_name="p.test") for text in ("192.0.2.9", "198.51.100.9", "192.0.2.1")
    )
    people = [f"user{n}@a.test" for n in range(50)]
    assert {pick_source([near, far, known], "a", who, known_by="192.0.2.1") for who in people} == {known}
    assert {pick_source([near, far], "a", who, known_by="192.0.2.1") for who in people} == {near}
    assert {pick_source([far, near], "a", who, known_by="203.0.113.1") for who in people} == {near, far}


def test_only_allowed_addresses_of_the_right_family_are_dialled_and_not_too_many() -> None:
    fact = routed("a.test", *((f"mx{n}.test", ("192.0.2.1", "2001:db8::1", "10.0.0.1")) for n in range(20)))
    four = parse_source("192.0.2.9", helo_name="p.test")
    peers = peers_of(fact, four, lambda address: not address.startswith("10."))
    assert [peer.address for peer in peers] == ["192.0.2.1"] * MAX_EXCHANGERS
    assert len(peers_of(fact, HERE, lambda _: True)) == 3 * MAX_EXCHANGERS


@given(st.text())
def test_a_random_local_part_looks_human_whatever_the_token(token: str) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9]{11,19}", random_local(token))
    assert random_local(token) == random_local(token) != random_local(token + "x")


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 30)), max_size=8),
    st.integers(1, 20),
    st.integers(0, 20),
)
def test_everybody_is_planned_once_in_sessions_that_fit(
    domains: list[tuple[int, int]], room: int, granted: int
) -> None:
    catch_alls, row = CatchAllState(lambda: "token"), Provider("p", recipients=room, sessions=3)
    queue = ProbeQueue(catch_alls, LearnedLimits())
    everybody = set()
    for number, (domain, count) in enumerate(domains):
        fact = routed(f"d{domain}.test")
        route = queue.route(ProbeTarget("", fact), HERE, row, lambda _: True)
        people = [f"user{number}.{n}@d{domain}.test" for n in range(count)]
        everybody.update(people)
        queue.put(route, fact.domain, people)
    asked: list[str] = []
    random_recipients: list[str] = []
    first = True
    while plans := queue.next_sessions(10, 0.0):
        assert len(plans) <= 3
        for plan in plans:
            assert plan.ask.recipients <= room
            if first:  # the throttle allows less than was asked for
                for domain_name, left in queue.trim(plan, granted).items():
                    queue.put(plan.route, domain_name, left)
                first = False
            for group in plan.groups:
                asked += group.addresses
                random_recipients += [group.random] if group.random else []
                catch_alls.learn(CatchAllFact(group.domain, Known.NO), plan.peer.preference)
            queue.finish(plan)
    assert sorted(asked) == sorted(everybody)
    assert len(random_recipients) == len(set(random_recipients)) == len({domain for domain, _ in domains})


def test_who_was_granted_too_little_waits_for_the_random_recipient_that_is_being_asked() -> None:
    catch_alls, row = CatchAllState(lambda: "token"), Provider("p", recipients=5, sessions=3)
    queue, fact = ProbeQueue(catch_alls, LearnedLimits()), routed("d.test")
    route = queue.route(ProbeTarget("", fact), HERE, row, lambda _: True)
    queue.put(route, fact.domain, ["a@d.test", "b@d.test", "c@d.test"])
    (plan,) = queue.next_sessions(10, 0.0)
    for domain, left in queue.trim(plan, 2).items():
        queue.put(route, domain, left)
    assert queue.next_sessions(10, 0.0) == []
    queue.finish(plan)
    (later,) = queue.next_sessions(10, 0.0)
    assert [group.addresses for group in later.groups] == [("b@d.test", "c@d.test")]


def test_a_server_that_refused_everybody_at_many_domains_has_turned_if_it_accepted_nobody() -> None:
    queue = ProbeQueue(CatchAllState(lambda: "token"), LearnedLimits())
    fact = routed("a.test", ("mx.a.test", ("192.0.2.1",)))
    route = queue.route(ProbeTarget("", fact), HERE, Provider("a"), lambda _: True)
    server = HERE.label, "192.0.2.1"
    queue.silent_domains[server] = {f"{n}.test" for n in range(10)}
    assert queue.has_turned(route)
    queue.accepted_at[server] = "ann@a.test"
    assert not queue.has_turned(route)


def test_who_waits_for_a_session_of_another_call_asks_again_when_it_ends_who_waits_for_a_rate_does_not() -> (
    None
):
    queue = ProbeQueue(CatchAllState(lambda: "token"), LearnedLimits())
    for key in ("busy", "slow"):
        fact = routed(f"{key}.test", (f"mx.{key}.test", ("192.0.2.1",)))
        route = queue.route(ProbeTarget("", fact), HERE, Provider(key), lambda _: True)
        queue.put(route, fact.domain, [f"ann@{key}.test"])
        route.provider.busy, route.provider.resting_until = key == "busy", 60.0
    assert queue.next_sessions(10, 0.0) == []
    assert not queue.reopen([("elsewhere", HERE.identity), ("slow", HERE.identity), ("busy", "another")])
    assert queue.next_sessions(10, 0.0) == []
    assert queue.reopen([("busy", HERE.identity), ("slow", HERE.identity)])
    assert [plan.throttle_key for plan in queue.next_sessions(10, 0.0)] == ["busy"]


@pytest.mark.parametrize(
    ("reply", "limit"),
    [
        (rcpt(452, "4.5.3", "anything"), True),
        (rcpt(452, "", "Too many recipients received this hour"), True),
        (rcpt(421, "4.7.0", "mx.test Error: too many errors"), True),
        (rcpt(421, "", "Too many messages in this session"), True),
        (rcpt(451, "4.3.0", "Multiple destination domains per transaction is unsupported."), True),
        (rcpt(450, "", "Maximum number of recipients reached"), True),
        (rcpt(552, "5.5.3", "anything"), True),
        (rcpt(552, "", "Too many recipients"), True),
        (rcpt(552, "5.2.2", "Mailbox full, too many messages"), False),
        (rcpt(452, "4.2.2", "Mailbox full"), False),
        (rcpt(452, "4.2.2", "User has too many messages on the server"), False),
        (rcpt(452, "", "<ann@a.test>: mailbox has too many messages"), False),
        (rcpt(421, "4.7.0", "Try again later"), False),
        (rcpt(421, "4.7.0", "Too many connections from your address"), False),
        (rcpt(550, "5.5.3", "Too many recipients"), False),
        (rcpt(550, "", "Legitimate bounces are never sent to more than one recipient."), True),
        (rcpt(550, "5.7.1", "Only one recipient is allowed for the null sender"), True),
        (rcpt(550, "5.5.3", "this bounce message has too many recipients"), True),
        (rcpt(452, "4.3.4", "Please send to one recipient at a time"), True),
        (rcpt(550, "5.1.1", "At least one recipient is unknown"), False),
        (rcpt(550, "5.1.1", "permanent failure for one or more recipients"), False),
        (rcpt(250, "2.1.5", "Ok"), False),
    ],
)
def test_replies_about_the_size_of_a_session_are_told_from_others(reply: SmtpReply, limit: bool) -> None:
    assert is_session_limit(reply) is limit


@pytest.mark.parametrize(
    ("reply", "blanket"),
    [
        (rcpt(550, "5.4.1", "Recipient address rejected: Access denied. AS(201806281)"), True),
        (rcpt(550, "5.1.1", "<{address}>: Recipient address rejected: User unknown"), False),
        (rcpt(550, "5.7.1", "No such user!"), False),
        (rcpt(550, "5.7.1", "Пользователь не найден"), False),
        (rcpt(550, "5.7.1", "Mailbox unavailable"), True),
        (rcpt(550, "5.7.1", "User unknown, or refused by policy"), True),
        (rcpt(550, "", "Rejected"), True),
        (rcpt(550, "", "Requested action not taken: mailbox unavailable"), True),
        (rcpt(550, "5.5.0", "Requested action not taken: mailbox unavailable"), False),
        (rcpt(550, "", "Mailbox unavailable, see https://help.example/r0301"), False),
        (rcpt(550, "", "Cannot deliver mail for <{address}>"), True),
        (rcpt(450, "4.4.1", "Access denied for now"), False),
        (rcpt(250, "", "ok"), False),
    ],
)
def test_a_blanket_refusal_reads_the_same_for_everybody(reply: SmtpReply, blanket: bool) -> None:
    reader = ReplyReader(["192.0.2.1"])
    texts = {
        blanket_refusal(reader.read(rcpt(reply.code, reply.enhanced, text), who), who)
        for who in ("Ann@a.test", "random4711@a.test")
        for text in [f"{reply.text} [id{len(who)}]".replace("{address}", who.upper())]
    }
    assert len(texts) == 1
    assert bool(texts.pop()) is blanket


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: f"{rng.getrandbits(56):014X}",
        lambda rng: f"{rng.getrandbits(64):016x}",
        lambda rng: "".join(rng.choices(ascii_letters + digits, k=14)),
        lambda rng: "".join(rng.choices("BCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz", k=12)),
        lambda rng: f"x{rng.randrange(10**6)}-{rng.getrandbits(40):x}.{rng.randrange(99)}",
        lambda rng: f"{rng.choice(('alpha', 'beta', 'gamma'))}.mx.example.net",
        lambda rng: f"id={''.join(rng.choices(ascii_lowercase, k=9))}",
    ],
)
@pytest.mark.parametrize("frame", ["[{}]", "[{} sea.example.net]", "{}", "({});"])
def test_what_numbers_a_reply_makes_it_no_other_refusal(
    draw: Callable[[random.Random], str], frame: str
) -> None:
    """Of 300 ids, those with the fewest digits and those with the most: they may be read differently."""
    rng = random.Random(frame)
    reader = ReplyReader([])
    ids = sorted((draw(rng) for _ in range(300)), key=lambda drawn: sum(map(str.isdigit, drawn)))
    texts = {
        blanket_refusal(reader.read(rcpt(550, "5.4.1", f"Access denied {frame.format(drawn)}"), who), who)
        for number, drawn in enumerate([*ids[:12], *ids[-12:]])
        for who in [f"u{number}@a.test"]
    }
    assert len(texts) == 1


def test_the_asked_address_does_not_sway_what_a_reply_means() -> None:
    text = "<spamhaus.blocked.greylisted@a.test>: Recipient address rejected: User unknown"
    reading = ReplyReader([]).read(rcpt(550, "5.1.1", text), "spamhaus.blocked.greylisted@a.test")
    assert reading.reading.answer is Answer.NOT_FOUND
    assert "spamhaus" not in reading.text


def test_facts_survive_the_cache_and_rubbish_does_not() -> None:
    fact = MailboxFact(
        Answer.FULL, 452, "4.2.2", "voll", "rcpt", "r", "mx", "192.0.2.1", took_ms=3, asked_at=1.5
    )
    again = unpack_mailbox(pack_mailbox(fact))
    assert again is not None
    assert again.cached
    assert pack_mailbox(again).replace(b"true", b"false") == pack_mailbox(fact)
    unknown, known = CatchAllFact("a.test", Known.UNKNOWN, 451), CatchAllFact("a.test", Known.NO, 550)
    for catch_all in (unknown, known):
        remembered = RememberedCatchAll(catch_all, "x@a.test", "stub", [10])
        assert unpack_catch_all(pack_catch_all(remembered)) == remembered
    for rubbish in (b"", b"\xff", b"[]", b"{}", b"null", pack_mailbox(fact).replace(b"full", b"fool")):
        assert unpack_mailbox(rubbish) is None
        assert unpack_catch_all(rubbish) is None
    assert "ann" not in mailbox_key("ann@a.test", "")
    keys = {mailbox_key(address, owner) for address in ("a@a.test", "b@a.test") for owner in ("", "1", "2")}
    assert len(keys) == 6
