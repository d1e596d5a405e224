"""The world is deterministic, complete and true to its own rules."""

from __future__ import annotations

import random
import string
from collections import Counter

import pytest
from disposable_email_domains import blocklist
from email_validator import validate_email

from mailsift.sandbox.behaviours import BEHAVIOURS
from mailsift.sandbox.population import FIRST, LAST, ROLES, UNICODE, Mailbox, invent_local
from mailsift.sandbox.world import DISPOSABLE_DOMAINS, TYPOS, SandboxWorld, WorldMix

PLAIN = SandboxWorld(seed=7, domains=5_000)
HOSTILE = SandboxWorld(seed=7, domains=2_000, mix=WorldMix.HOSTILE)


def test_the_same_seed_makes_the_same_world() -> None:
    assert SandboxWorld(seed=7, domains=5_000).domains == PLAIN.domains
    assert SandboxWorld(seed=8, domains=5_000).domains != PLAIN.domains


@pytest.mark.parametrize("count", [1, 10, 300])
def test_a_world_has_as_many_business_domains_as_asked_for(count: int) -> None:
    world = SandboxWorld(domains=count)
    assert len({domain.name for domain in world.ranked}) == count


def test_every_behaviour_has_a_scenario_in_every_world() -> None:
    world = SandboxWorld(domains=1)
    assert all(world.find(behaviour.domain) for behaviour in BEHAVIOURS)


def test_the_hostile_mix_has_every_behaviour_and_the_plain_mix_every_dns_state() -> None:
    hostile = Counter(domain.behaviour for domain in HOSTILE.ranked)
    plain = Counter(domain.behaviour for domain in PLAIN.ranked)
    patterns = {"flood", "victim"}
    assert not [b.name for b in BEHAVIOURS if not hostile[b] and b.name not in patterns]
    assert {b.dns for b in BEHAVIOURS if plain[b]} == {b.dns for b in BEHAVIOURS if b.name != "many-mx"}
    assert hostile.most_common(1)[0][0].name == "ordinary"


def test_the_long_tail_has_about_a_third_as_many_servers_as_domains() -> None:
    assert 0.22 < len(PLAIN.by_address) / 5_000 < 0.4


def test_every_server_has_an_address_and_every_exchanger_a_server() -> None:
    for domain in HOSTILE.domains.values():
        for _, host in domain.exchangers:
            assert HOSTILE.aliases.get(host, host) in HOSTILE.hosts
    assert all(host.label for host in HOSTILE.hosts.values())


def test_every_invented_domain_is_good_syntax_and_not_on_the_disposable_list() -> None:
    for domain in PLAIN.ranked[:2_000]:
        parsed = validate_email(f"someone@{domain.unicode}", check_deliverability=False)
        assert parsed.ascii_domain == domain.name
    assert not {domain.name for domain in PLAIN.ranked} & set(blocklist)
    assert not set(TYPOS) & set(blocklist)
    assert set(DISPOSABLE_DOMAINS) <= set(blocklist)
    assert any(not domain.unicode.isascii() for domain in PLAIN.ranked)


@pytest.mark.parametrize("local", [*ROLES, *UNICODE, *FIRST[:3], *LAST[:3]])
def test_every_local_part_of_the_vocabulary_is_good_syntax_and_canonical(local: str) -> None:
    assert validate_email(f"{local}@example.com", check_deliverability=False).local_part == local.lower()


def test_eight_in_a_hundred_mailboxes_are_gone_and_one_is_full_or_disabled() -> None:
    rng = random.Random(1)
    fates = Counter(PLAIN.mailbox(invent_local(rng)[2], "gmail.com") for _ in range(20_000))
    assert 0.07 < fates[Mailbox.MISSING] / 20_000 < 0.09
    assert 0.003 < fates[Mailbox.FULL] / 20_000 < 0.007
    assert 0.003 < fates[Mailbox.DISABLED] / 20_000 < 0.007


def test_a_random_local_part_never_exists() -> None:
    rng = random.Random(2)
    alphabet = string.ascii_lowercase + string.digits
    for _ in range(20_000):
        local = rng.choice(string.ascii_lowercase) + "".join(rng.choices(alphabet, k=rng.randint(11, 19)))
        assert PLAIN.mailbox(local, "gmail.com") is Mailbox.MISSING


def test_a_tag_leads_to_the_same_mailbox() -> None:
    rng = random.Random(3)
    for _ in range(200):
        local = invent_local(rng)[2]
        assert PLAIN.mailbox(local, "a.com") is PLAIN.mailbox(f"{local}+news", "a.com")


@pytest.mark.parametrize(
    ("address", "medium", "deep"),
    [
        ("known@ordinary.sandbox.test", "valid passed", "valid deliverable"),
        ("known17@ordinary.sandbox.test", "valid passed", "valid deliverable"),
        ("nobody@ordinary.sandbox.test", "valid passed", "invalid mailbox_not_found"),
        ("full@ordinary.sandbox.test", "valid passed", "risky mailbox_full"),
        ("disabled@ordinary.sandbox.test", "valid passed", "invalid mailbox_disabled"),
        ("nobody@catch-all.sandbox.test", "valid passed", "risky catch_all"),
        ("known@greylist.sandbox.test", "valid passed", "valid deliverable"),
        ("known@blocked-banner.sandbox.test", "valid passed", "risky probe_blocked"),
        ("known@nxdomain.sandbox.test", "invalid domain_not_found", "invalid domain_not_found"),
        ("known@servfail.sandbox.test", "risky dns_unavailable", "risky dns_unavailable"),
        ("known@mx-private.sandbox.test", "invalid unroutable", "invalid unroutable"),
        ("known@yahoo.com", "valid passed", "risky unverifiable"),
        ("known@mailinator.com", "risky disposable", "risky disposable"),
        ("known@gmial.example", "invalid domain_not_found", "invalid domain_not_found"),
        ("known@gmai.com", "invalid domain_not_found", "invalid domain_not_found"),
        ("josé@no-smtputf8.sandbox.test", "valid passed", "risky unverifiable"),
        ("a@x9.flood.sandbox.test", "valid passed", "invalid mailbox_not_found"),
    ],
)
def test_the_truth_about_an_address(address: str, medium: str, deep: str) -> None:
    truth = PLAIN.truth(address)
    assert f"{truth.medium.status} {truth.medium.result}" == medium
    assert f"{truth.deep.status} {truth.deep.result}" == deep
