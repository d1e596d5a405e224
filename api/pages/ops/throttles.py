"""Below /ops: throttles, facts, ledger, opt-outs: how providers and domains are asked, how they take it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Final, TypeVar
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response
from markupsafe import Markup
from starlette.datastructures import FormData

from mailsift.api.pages.charts import stack
from mailsift.api.pages.forms import Form, choice, text
from mailsift.api.pages.ops.listing import ListFilter, Listing
from mailsift.api.pages.page import render, render_live, see
from mailsift.api.pages.visitor import Operator
from mailsift.api.parts import parts_of
from mailsift.jobs.admin.actions import ProviderLimits
from mailsift.jobs.admin.console import ThrottleRow
from mailsift.pipeline.clock import utc_datetime
from mailsift.pipeline.errors import MailsiftError
from mailsift.pipeline.throttle import LedgerKind, SessionOutcome
from mailsift.storage.sql.throttles import ANY_SOURCE

N = TypeVar("N", int, float)

router = APIRouter(prefix="/ops", include_in_schema=False)

HOLDS: Final = {
    "900": "15 minutes",
    "3600": "1 hour",
    "14400": "4 hours",
    "86400": "1 day",
    "0": "Until someone lets go",
}
_COLOURS: Final = {
    SessionOutcome.CLEAN: "c-valid",
    SessionOutcome.RATE: "c-risky",
    SessionOutcome.BLOCKED: "c-invalid",
    SessionOutcome.FAILED: "c-idle",
}
MEANING: Final = {
    SessionOutcome.CLEAN: "went well",
    SessionOutcome.RATE: "told we are too fast",
    SessionOutcome.BLOCKED: "refused us",
    SessionOutcome.FAILED: "failed to connect",
}


_THROTTLES: Final[Listing[ThrottleRow]] = Listing(
    "/ops/throttles",
    columns={
        "provider": lambda row: (row.learned.provider, row.learned.source),
        "state": lambda row: row.state,
        "rate": lambda row: row.rate,
        "sessions": lambda row: row.learned.in_use,
        "waiting": lambda row: row.waiting,
        "day": lambda row: row.learned.sessions,
    },
    filters={
        "state": {
            "held": ListFilter("Held", lambda row: row.state == "held"),
            "refused": ListFilter("Refuses us", lambda row: row.state == "refused"),
            "closed": ListFilter("Left alone", lambda row: row.state == "closed"),
            "slowed": ListFilter("Slowed", lambda row: row.state == "slowed"),
            "open": ListFilter("Open", lambda row: row.state == "open"),
            "waiting": ListFilter("With addresses waiting", lambda row: row.waiting > 0),
            "edited": ListFilter("Changed by operators", lambda row: row.edit is not None),
        }
    },
    text=lambda row: f"{row.learned.provider} {row.learned.source or 'default route'}",
)


@router.get("/throttles")
@router.get("/throttles/live")
async def throttles(request: Request, _: Operator) -> Response:
    """List the providers that are asked most, wait, or were edited."""
    rows = await parts_of(request).operations.console.throttles()
    listed = None if rows is None else _THROTTLES.of(rows, request.query_params)
    mixes = [_mix(row) for row in listed.rows] if listed else []
    return render_live(request, "ops/throttles.html", listed=listed, mixes=mixes)


@router.get("/throttles/edit")
async def edit(request: Request, _: Operator, provider: str = "", source: str = ANY_SOURCE) -> Response:
    """Show one provider with everything that can be changed."""
    row = await parts_of(request).operations.console.throttle(provider, source)
    return render(
        request,
        "ops/throttle.html",
        row=row,
        sources=[one.source.identity for one in await parts_of(request).operations.console.sources()],
        holds=HOLDS,
        mix=_mix(row),
        meaning=MEANING,
    )


@router.post("/throttles/limits")
async def set_limits(request: Request, visitor: Operator, form: Form) -> Response:
    """Change rate and sessions."""
    provider, source = _place(form)
    limits = ProviderLimits(
        _number(form, "rate", float, "The rate must be a number of recipients per second."),
        _number(form, "sessions", int, "The number of sessions must be a whole number."),
        text(form, "note"),
    )
    await parts_of(request).operations.throttles.edit_limits(visitor.email, provider, source, limits)
    return _redirect(provider, source, "Saved. The limits apply in every process within seconds.")


@router.post("/throttles/hold")
async def hold(request: Request, visitor: Operator, form: Form) -> Response:
    """Ask a provider nothing more."""
    provider, source = _place(form)
    seconds = float(choice(form, "seconds", HOLDS))
    await parts_of(request).operations.throttles.hold(
        visitor.email, provider, source, seconds=seconds, note=text(form, "note")
    )
    return _redirect(provider, source, "Held. Open sessions may finish; no new one begins.")


@router.post("/throttles/let-go")
async def let_go(request: Request, visitor: Operator, form: Form) -> Response:
    """End a hold."""
    provider, source = _place(form)
    held = await parts_of(request).operations.throttles.let_go(visitor.email, provider, source)
    message = "Let go: what waited is picked up again now." if held else "It was not held."
    return _redirect(provider, source, message)


@router.post("/throttles/reset")
async def reset(request: Request, visitor: Operator, form: Form) -> Response:
    """Forget what was learned."""
    provider, source = _place(form)
    count = await parts_of(request).operations.throttles.reset(visitor.email, provider, source)
    message = "Forgotten: it is asked at its full rate." if count else "Nothing was learned."
    return _redirect(provider, source, message)


def _mix(row: ThrottleRow) -> Markup:
    counts = row.learned.mix
    mix = ", ".join(f"{count:,} {MEANING[outcome]}" for outcome, count in counts.items())
    parts = {colour: counts.get(outcome, 0) for outcome, colour in _COLOURS.items()}
    return stack(parts, label=f"Sessions: {mix}" if mix else "No session yet")


def _place(form: FormData) -> tuple[str, str]:
    return text(form, "provider", most=253), text(form, "source")


def _number(form: FormData, name: str, read: Callable[[str], N], wrong: str) -> N | None:
    """Return a limit, None where none is typed."""
    given = text(form, name)
    try:
        return read(given) if given else None
    except ValueError:
        raise MailsiftError("bad_limit", wrong) from None


def _redirect(provider: str, source: str, message: str) -> Response:
    asked = urlencode({"provider": provider, "source": source})
    return see(f"/ops/throttles/edit?{asked}", message)


@router.get("/facts")
async def facts(request: Request, _: Operator, domain: str = "") -> Response:
    """Look up a domain."""
    found = await parts_of(request).operations.console.facts(domain[:300]) if domain else None
    return render(request, "ops/cache.html", asked=domain[:300], found=found, at=_time_of)


@router.post("/facts")
async def forget(request: Request, visitor: Operator, form: Form) -> Response:
    """Forget a domain."""
    domain = text(form, "domain", most=300)
    gone = await parts_of(request).operations.throttles.forget(visitor.email, domain)
    message = (
        "Forgotten: it is looked up again when it is next met." if gone else "There was nothing to forget."
    )
    return see(f"/ops/facts?{urlencode({'domain': domain})}", message)


def _time_of(seconds: float) -> datetime | None:
    return utc_datetime(seconds) if seconds else None


LEDGER_DAYS: Final = {"1": "1 day", "7": "7 days", "30": "30 days", "90": "90 days"}
LEDGER_WORDS: Final = {
    LedgerKind.RATE: "too fast",
    LedgerKind.REPUTATION: "listed or a bad name",
    LedgerKind.IDENTITY: "our name or sender",
    LedgerKind.POLICY: "another reason",
}


@router.get("/ledger")
async def ledger(request: Request, _: Operator, days: str = "1") -> Response:
    """Show the ledger of some days."""
    span = days if days in LEDGER_DAYS else "1"
    rows = await parts_of(request).operations.console.ledger(hours=24 * int(span))
    return render(
        request,
        "ops/ledger.html",
        rows=rows,
        span=span,
        spans=LEDGER_DAYS,
        kinds=LedgerKind,
        meaning=LEDGER_WORDS,
    )


@router.get("/opt-outs")
async def opt_outs(request: Request, _: Operator) -> Response:
    """Show who opted out."""
    return render(request, "ops/opt_outs.html", rows=await parts_of(request).operations.throttles.opt_outs())


@router.post("/opt-outs/add")
async def opt_out(request: Request, visitor: Operator, form: Form) -> Response:
    """Ask a domain nothing more."""
    domain = await parts_of(request).operations.throttles.opt_out(
        visitor.email, text(form, "domain", most=300), note=text(form, "note")
    )
    return see("/ops/opt-outs", f"{domain} and what is below it is not asked any more.")


@router.post("/opt-outs/remove")
async def opt_in(request: Request, visitor: Operator, form: Form) -> Response:
    """Let a domain be asked again."""
    domain = text(form, "domain", most=300)
    gone = await parts_of(request).operations.throttles.opt_in(visitor.email, domain)
    return see("/ops/opt-outs", f"{domain} may be asked again." if gone else "It had not opted out.")
