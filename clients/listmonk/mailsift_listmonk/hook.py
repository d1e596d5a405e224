"""Checks listmonk's new subscribers, and tells Mailsift what bounced: once, or again and again."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path
from typing import Any, Final

import httpx

from mailsift_client import Mailsift
from mailsift_client.errors import MailsiftError
from mailsift_client.generated.api.outcomes import create_outcomes
from mailsift_client.generated.models import Status
from mailsift_client.generated.types import File

_BATCH: Final = 100
"""Addresses of one request to Mailsift."""
_PAGE: Final = 500
_IMPORT: Final = timedelta(minutes=10)
"""An import shows nobody its subscribers for at most so long."""
_STATUSES: Final[tuple[Status, ...]] = ("valid", "risky", "invalid")
_WORDS: Final = ("diagnostic", "Diagnostic-Code", "diagnostic_code", "message", "reason", "error")
"""Where a bounce's `meta` may hold the server's words."""


@dataclass(frozen=True, slots=True)
class Seen:
    """How far we are.

    Attributes:
        subscriber: the largest id that was checked.
        looked_at: when subscribers were looked at last.
        lately: the ids that were checked of those from the time before that in which others may have come.
        bounce: the largest id that was told.
        bounces: how many there were then.
    """

    subscriber: int = 0
    looked_at: str = ""
    lately: Sequence[int] = ()
    bounce: int = 0
    bounces: int = 0


@dataclass(frozen=True, slots=True)
class Policy:
    """What becomes of subscribers.

    Attributes:
        mode: how far addresses are looked at.
        blocklist: statuses whose subscribers get no mail any more.
        lists: which list a status's subscribers are put on as well.
    """

    mode: Any
    blocklist: frozenset[Status]
    lists: dict[Status, int]


class Listmonk:
    """As much of listmonk's API as this needs (https://listmonk.app/docs/apis/apis/).

    Args:
        url: of the installation.
        user: name of an API user.
        token: its token.
    """

    def __init__(self, url: str, user: str, token: str) -> None:
        headers = {"Authorization": f"token {user}:{token}"}
        self._client = httpx.Client(base_url=f"{url.rstrip('/')}/api", headers=headers, timeout=60)

    def newer(
        self, path: str, is_settled: Callable[[dict[str, Any]], bool], before: float = inf
    ) -> tuple[list[dict[str, Any]], int]:
        """Return what is not settled, the smallest id first, and how many there are in all.

        listmonk gives the latest first, and the time of a bounce is its mail's: one may stand behind many old
        ones. So pages are read until as many are new as there are more now than there were `before`.
        """
        found: dict[int, dict[str, Any]] = {}
        total = 0
        for rows, count in self._pages(path):
            total = total or count
            new = {row["id"]: row for row in rows if not is_settled(row)}
            found |= new
            if len(new) < len(rows) and len(found) >= total - before:
                break
        return [found[number] for number in sorted(found)], total

    def _pages(self, path: str) -> Iterator[tuple[list[dict[str, Any]], int]]:
        page = 1
        while True:
            wanted: dict[str, str | int] = {
                "page": page,
                "per_page": _PAGE,
                "order_by": "created_at",
                "order": "desc",
            }
            answer = self._client.get(path, params=wanted).raise_for_status()
            try:
                data = answer.json()["data"]
                rows, total = data["results"], data["total"]
            except (ValueError, KeyError, TypeError):
                raise httpx.DecodingError("The answer is none of listmonk's.") from None
            if not rows:
                return
            yield rows, total
            page += 1

    def blocklist(self, ids: Sequence[int]) -> None:
        """Let these subscribers get no mail any more."""
        self._client.put("/subscribers/blocklist", json={"ids": list(ids)}).raise_for_status()

    def add_to_list(self, ids: Sequence[int], list_id: int) -> None:
        """Put subscribers on a list, whatever others they are on."""
        body = {"ids": list(ids), "action": "add", "target_list_ids": [list_id], "status": "confirmed"}
        self._client.put("/subscribers/lists", json=body).raise_for_status()


def check_subscribers(listmonk: Listmonk, mailsift: Mailsift, policy: Policy, seen: Seen) -> Iterator[Seen]:
    """Check the subscribers that were not checked; yields how far we are, again and again.

    An import shows its subscribers when it has some thousands of them, with the ids and the time they got
    before: there may be larger ones that were checked.
    """
    now = datetime.now(UTC)
    late = datetime.fromisoformat(seen.looked_at) - _IMPORT if seen.looked_at else now
    found, _ = listmonk.newer(
        "/subscribers", lambda row: row["id"] <= seen.subscriber and _created(row) <= late
    )
    known = {*seen.lately}
    new = [one for one in found if one["status"] != "blocklisted" and one["id"] not in known]
    for start in range(0, len(new), _BATCH):
        some = new[start : start + _BATCH]
        verdicts = mailsift.check_many([one["email"] for one in some], mode=policy.mode, deadline_ms=60_000)
        by_status: dict[Status, list[int]] = {}
        for one, verdict in zip(some, verdicts, strict=True):
            by_status.setdefault(verdict.status, []).append(one["id"])
        for status, ids in by_status.items():
            if status in policy.lists:
                listmonk.add_to_list(ids, policy.lists[status])
            if status in policy.blocklist:
                listmonk.blocklist(ids)
        known |= {one["id"] for one in some}
        largest = max(seen.subscriber, some[-1]["id"])
        yield (seen := replace(seen, subscriber=largest, lately=sorted(known)))
    lately = [one["id"] for one in found if one["id"] in known and _created(one) > now - _IMPORT]
    yield replace(seen, looked_at=now.isoformat(), lately=lately)


def _created(row: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(row["created_at"])


def tell_bounces(listmonk: Listmonk, mailsift: Mailsift, seen: Seen) -> Seen:
    """Tell Mailsift of the bounces it was not told; returns how far we are then."""
    new, total = listmonk.newer("/bounces", lambda row: row["id"] <= seen.bounce, seen.bounces)
    if not new:
        return replace(seen, bounces=total)
    lines = "".join(json.dumps(_outcome(one)) + "\n" for one in new)
    answer = create_outcomes.sync_detailed(client=mailsift.api, body=File(payload=lines.encode()))  # type: ignore[arg-type]  # bytes go as well as a file
    if answer.status_code >= 300:
        raise MailsiftError("The outcomes were refused.", status=int(answer.status_code))
    return replace(seen, bounce=int(new[-1]["id"]), bounces=total)


def _outcome(bounce: dict[str, Any]) -> dict[str, str]:
    meta = bounce.get("meta")
    why = next((str(meta[word]) for word in _WORDS if meta.get(word)), "") if isinstance(meta, dict) else ""
    return {
        "email": bounce["email"],
        "event": bounce["type"],
        "timestamp": bounce["created_at"],
        "diagnostic": why,
        "message_id": f"listmonk-bounce-{bounce['id']}",
    }


def work(listmonk: Listmonk, mailsift: Mailsift, policy: Policy, state: Path) -> None:
    """Do what is new, and remember every step, so that after a crash little is done twice."""
    seen = Seen(**json.loads(state.read_text())) if state.exists() else Seen()
    for seen in check_subscribers(listmonk, mailsift, policy, seen):  # noqa: B020 - it begins with this one
        _remember(seen, state)
    _remember(tell_bounces(listmonk, mailsift, seen), state)


def _remember(seen: Seen, state: Path) -> None:
    fresh = state.with_name(f"{state.name}.new")
    fresh.write_text(json.dumps(asdict(seen)))
    fresh.replace(state)


def main() -> None:
    """Run the command line."""
    given = _arguments()
    os.umask(0o077)
    lists = {status: n for status in _STATUSES if (n := getattr(given, f"{status}_list"))}
    policy = Policy(given.mode, frozenset(given.blocklist), lists)
    listmonk = Listmonk(*(os.environ[f"LISTMONK_{name}"] for name in ("URL", "USER", "TOKEN")))
    with Mailsift(os.environ["MAILSIFT_URL"], os.environ["MAILSIFT_KEY"]) as mailsift:
        while True:
            try:
                work(listmonk, mailsift, policy, given.state)
            except (
                httpx.HTTPError,
                MailsiftError,
            ) as error:  # away, perhaps: what was not done is done next time
                print(f"mailsift-listmonk: {type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201 - the command line speaks
                if given.once:
                    sys.exit(1)
            if given.once:
                return
            time.sleep(given.every)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="mailsift-listmonk",
        description="Check listmonk's new subscribers with Mailsift, and tell Mailsift what bounced.",
        epilog="Reads MAILSIFT_URL, MAILSIFT_KEY, LISTMONK_URL, LISTMONK_USER and LISTMONK_TOKEN.",
    )
    parser.add_argument("--state", type=Path, required=True, help="file that remembers what was done")
    parser.add_argument("--once", action="store_true", help="do what is new and end")
    parser.add_argument(
        "--every", type=float, default=60, metavar="SECONDS", help="otherwise look so often [60]"
    )
    parser.add_argument("--mode", default="deep", choices=("fast", "medium", "deep"), help="[deep]")
    parser.add_argument(
        "--blocklist", nargs="*", default=["invalid"], choices=_STATUSES, help="who gets no mail [invalid]"
    )
    for status in _STATUSES:
        text = f"put {status} subscribers on this list, too"
        parser.add_argument(f"--{status}-list", type=int, default=0, metavar="ID", help=text)
    return parser.parse_args()


if __name__ == "__main__":
    main()
