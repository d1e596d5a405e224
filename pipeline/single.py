"""One address in mode fast without a frame: the same rules as pipeline.sift, in microseconds.

A frame of one row costs some ten milliseconds whatever is in it; this is for callers who wait. A property
test holds both ways together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from pipeline.facts import Mode
from pipeline.judge.decision import judge
from pipeline.judge.row import Policy
from pipeline.lists import Lists
from pipeline.syntax_exact import PLAIN, REFUSED_TLD, UNSEEN, Parsed, parse_exact
from pipeline.verdict import Evidence, Verdict


@dataclass(frozen=True, slots=True)
class Wish:
    """How to look at one address.

    Attributes:
        mode: how far to look.
        deadline: seconds; what is not known by then makes the verdict risky.
        owner: who asks; answers about mailboxes are used again for the same owner only.
        evidence: tell the facts behind the verdict too.
    """

    mode: Mode
    deadline: float
    owner: str
    evidence: bool = False


_PLAIN = re.compile(PLAIN)
_REFUSED = re.compile(REFUSED_TLD)
_SCHEME = re.compile(r"\A(?i:mailto):")
_BRACKETS = re.compile(r"\A<([^<>]*)>\Z")


def judge_fast(text: str, lists: Lists, policy: Policy) -> tuple[Verdict, str]:
    """Judge one address by syntax and lists.

    Args:
        text: as it came, without lone surrogates.
        lists: what is known of domains.
        policy: what the operator decides.

    Returns:
        The verdict, and the suggestion that belongs to it: it names the whole address.
    """
    parsed = _plain(text) or parse_exact(_tidy(text))
    said = lists.describe_one(parsed)
    verdict, suggested = _judged(parsed.rule, said, policy), said[3]
    return verdict, f"Did you mean {_local(parsed)}@{suggested}?" if suggested else verdict.suggestion


@lru_cache(maxsize=4_096)
def _judged(rule: str, said: tuple[bool, bool, bool, str], policy: Policy) -> Verdict:
    """Judge by syntax and lists; what they say is nearly always the same."""
    role, free, disposable, suggested = said
    evidence = Evidence(
        mode=Mode.FAST,
        syntax_rule=rule,
        role=role,
        free=free,
        disposable=disposable,
        suggested_domain=suggested,
    )
    return judge(evidence, policy)


def _plain(text: str) -> Parsed | None:
    """Parse what is a plain ASCII address beyond doubt, as pipeline.syntax.fast_path does."""
    if not _PLAIN.fullmatch(text) or _REFUSED.search(text):
        return None
    address = text.lower()
    local, _, domain = address.partition("@")
    return Parsed(address, local, domain, "") if len(local) <= 64 and len(domain) <= 63 else None


def _tidy(text: str) -> str:
    """Do what pipeline.syntax.tidy does."""
    text = _SCHEME.sub("", text.strip(UNSEEN)).strip(UNSEEN)
    text = _BRACKETS.sub(r"\1", text).strip(UNSEEN)
    return _SCHEME.sub("", text).strip(UNSEEN)


def _local(parsed: Parsed) -> str:
    return parsed.local or parsed.address.rpartition("@")[0]
