"""/ops/throttles: how politely every provider is asked, and how to change that."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import Response
from markupsafe import Markup
from starlette.datastructures import FormData

from api.pages.charts import Part, stack
from api.pages.forms import choice, read_form, text
from api.pages.ops.entrance import Someone, desk_of
from api.pages.page import render, see
from jobs.operations.brakes import Limits
from jobs.operations.looks import ThrottleRow
from pipeline.errors import MailsiftError
from pipeline.ports import Outcome
from storage.throttle_edits import ANY_SOURCE

router = APIRouter(prefix="/ops/throttles", include_in_schema=False)

HOLDS: Final = {
    "900": "15 minutes",
    "3600": "1 hour",
    "14400": "4 hours",
    "86400": "1 day",
    "0": "Until somebody lets go",
}
_COLOURS: Final = {
    Outcome.CLEAN: "c-valid",
    Outcome.RATE: "c-risky",
    Outcome.BLOCKED: "c-invalid",
    Outcome.FAILED: "c-idle",
}
MEANING: Final = {
    Outcome.CLEAN: "went well",
    Outcome.RATE: "told we are too fast",
    Outcome.BLOCKED: "refused us",
    Outcome.FAILED: "failed to connect",
}


@router.get("")
async def throttles(request: Request, _: Someone) -> Response:
    """List the providers that are asked most, wait, or were edited."""
    return render(request, "ops/throttles.html", **await _rows(request))


@router.get("/live")
async def live(request: Request, _: Someone) -> Response:
    """Return what changes there."""
    return render(request, "ops/throttles_live.html", **await _rows(request))


@router.get("/edit")
async def edit(request: Request, _: Someone, provider: str = "", source: str = ANY_SOURCE) -> Response:
    """Show one provider with everything that can be changed."""
    row = await desk_of(request).console.throttle(provider, source)
    return render(
        request,
        "ops/throttle.html",
        row=row,
        sources=desk_of(request).console.sources,
        holds=HOLDS,
        mix=_mix(row),
        meaning=MEANING,
    )


@router.post("/limits")
async def set_limits(request: Request, visitor: Someone) -> Response:
    """Change rate and sessions."""
    form = await read_form(request)
    provider, source = _place(form)
    limits = Limits(_rate(form), _sessions(form), text(form, "note"))
    await desk_of(request).brakes.edit_limits(visitor.email, provider, source, limits)
    return _back(request, provider, source, "The limits hold in every process within seconds.")


@router.post("/hold")
async def hold(request: Request, visitor: Someone) -> Response:
    """Ask a provider nothing more."""
    form = await read_form(request)
    provider, source = _place(form)
    seconds = float(choice(form, "seconds", HOLDS))
    await desk_of(request).brakes.hold(
        visitor.email, provider, source, seconds=seconds, note=text(form, "note")
    )
    return _back(request, provider, source, "Held. Sessions that are open may end; no other begins.")


@router.post("/let-go")
async def let_go(request: Request, visitor: Someone) -> Response:
    """End a hold."""
    provider, source = _place(await read_form(request))
    held = await desk_of(request).brakes.let_go(visitor.email, provider, source)
    told = "Let go: what waited is looked at again now." if held else "It was not held."
    return _back(request, provider, source, told)


@router.post("/reset")
async def reset(request: Request, visitor: Someone) -> Response:
    """Forget what was learned."""
    provider, source = _place(await read_form(request))
    count = await desk_of(request).brakes.reset(visitor.email, provider, source)
    told = "What was learned is forgotten: it is asked at its full rate." if count else "Nothing was learned."
    return _back(request, provider, source, told)


async def _rows(request: Request) -> dict[str, Any]:
    rows = await desk_of(request).console.throttles()
    return {"rows": rows, "mixes": [_mix(row) for row in rows or ()], "meaning": MEANING}


def _mix(row: ThrottleRow) -> Markup:
    counts = row.learned.mix
    told = ", ".join(f"{count:,} {MEANING[outcome]}" for outcome, count in counts.items())
    parts = [Part(counts.get(outcome, 0), colour) for outcome, colour in _COLOURS.items()]
    return stack(parts, label=f"Sessions: {told}" if told else "No session yet")


def _place(form: FormData) -> tuple[str, str]:
    return text(form, "provider", most=253), text(form, "source")


def _rate(form: FormData) -> float | None:
    given = text(form, "rate")
    try:
        return float(given) if given else None
    except ValueError:
        raise MailsiftError("bad_limit", "The rate is a number of recipients a second.") from None


def _sessions(form: FormData) -> int | None:
    given = text(form, "sessions")
    try:
        return int(given) if given else None
    except ValueError:
        raise MailsiftError("bad_limit", "Sessions are a whole number.") from None


def _back(request: Request, provider: str, source: str, told: str) -> Response:
    asked = urlencode({"provider": provider, "source": source})
    return see(request, f"/ops/throttles/edit?{asked}", told)
