"""Domain facts as bytes for the cache, and back."""

from __future__ import annotations

from pydantic_core import from_json, to_json

from mailsift.pipeline.facts import DomainFact, DomainState, MxHost

_VERSION = 1
"""Raised when the layout changes: facts of another version are asked for again."""


def encode_domain(fact: DomainFact) -> bytes:
    """Return the fact as bytes; the domain itself is the key and stays out."""
    hosts = [(host.name, host.preference, host.addresses) for host in fact.hosts]
    times = (fact.learned_at, fact.expires_at)
    packed = (_VERSION, fact.state, hosts, fact.provider, fact.implicit, fact.detail, *times)
    return to_json(packed)


def decode_domain(domain: str, data: bytes) -> DomainFact | None:
    """Return the fact that `encode_domain` packed; None for anything else, which is then asked for again."""
    try:
        version, state, packed, provider, implicit, detail, learned_at, expires_at = from_json(data)
        if version != _VERSION:
            return None
        hosts = tuple([MxHost(name, preference, tuple(addresses)) for name, preference, addresses in packed])
        return DomainFact(
            domain, DomainState(state), hosts, provider, implicit, detail, learned_at, expires_at
        )
    except (ValueError, TypeError):
        return None
