"""/keys: API keys are made, rolled and revoked; each is shown once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID

from fastapi import APIRouter, Request
from fastapi.responses import Response

from mailsift.accounts.doors import NAMES, Door
from mailsift.accounts.keys import DAY, KeyKind, MintedKey, Scope, kind_of
from mailsift.accounts.people import Visitor
from mailsift.api.pages.forms import Form, attempt, choice, mendable, once, text
from mailsift.api.pages.page import now_of, our_address, render
from mailsift.api.pages.visitor import Member, Reader
from mailsift.api.parts import ApiParts, parts_of
from mailsift.pipeline.errors import MailsiftError
from mailsift.storage.sql.keys import KeyRow

router = APIRouter(prefix="/keys", include_in_schema=False)

SCOPES: Final = {
    Scope.VALIDATE.value: "Validate single addresses",
    Scope.JOBS_READ.value: "Look at jobs and schedules, download results",
    Scope.JOBS_WRITE.value: "Start, pause and delete jobs and schedules",
    Scope.WEBHOOKS_READ.value: "Look at webhooks and their deliveries",
    Scope.WEBHOOKS_WRITE.value: "Register, change and test webhooks",
    Scope.PUBLIC_KEYS.value: "Make, change and revoke public keys for sign-up forms",
}
_LIFETIMES: Final = {
    "0": "Never",
    **{str(days): f"In {days} days" for days in (7, 30, 90, 180)},
    "365": "In 1 year",
}
_PUBLIC: Final = "forms"
_OVERLAPS: Final = {
    "0": "Now",
    "3600": "In 1 hour",
    "86400": "In 24 hours",
    "259200": "In 3 days",
    "604800": "In 7 days",
}


@dataclass(frozen=True, slots=True)
class _KeyForm:
    """What stands in the form."""

    name: str = ""
    lifetime: str = "0"
    chosen: Sequence[str] = ()
    purpose: str = ""
    origins: str = ""
    test: bool = False


@router.get("")
async def keys(request: Request, visitor: Reader) -> Response:
    """List the account's keys."""
    now = now_of(request)
    found = reversed(await parts_of(request).keys.list(visitor.account_id))
    stated = [(row, _state_of(row, now)) for row in found]
    living = [one for one in stated if one[1] in {"active", "expiring"}]
    over = [one for one in stated if one[1] in {"revoked", "expired"}]
    return render(request, "keys.html", living=living, over=over, scopes=SCOPES)


@router.get("/new")
async def new(request: Request, _: Member) -> Response:
    """Show the form for a key."""
    return _form(request, _KeyForm(chosen=tuple(SCOPES)))


@router.post("/new")
@once
async def create(request: Request, visitor: Member, form: Form) -> Response:
    """Create a key and show it, this once."""
    parts = parts_of(request)
    opened = [door.value for door in parts.doors]
    name, lifetime = text(form, "name", most=80), choice(form, "lifetime", _LIFETIMES)
    purpose, origins = form.get("door"), text(form, "origins", most=2_000).split()
    public = purpose == _PUBLIC
    chosen = [] if public else [str(scope) for scope in form.getlist("scope") if scope in SCOPES]
    typed = _KeyForm(name, lifetime, tuple(chosen), str(purpose), " ".join(origins), "test" in form)
    if not chosen and not public:
        return _form(request, typed, MailsiftError("bad_option", "Choose at least one permission."))
    try:
        minted = await parts.keys.create(
            visitor.account_id,
            name=name,
            scopes=[Scope(scope) for scope in chosen],
            lifetime=int(lifetime) * DAY,
            kind=KeyKind(typed.test, Door(purpose) if purpose in opened else None, public),
            origins=origins if public else (),
        )
    except MailsiftError as error:
        return _form(request, typed, mendable(error))
    return _new_key_page(request, minted, "Your new key")


@router.get("/{key_id:uuid}/roll")
async def rolling(request: Request, visitor: Member, key_id: UUID) -> Response:
    """Ask when the old key ends."""
    key = await _key(request, visitor, key_id)
    return render(request, "key_roll.html", key=key, overlaps=_OVERLAPS)


@router.post("/{key_id:uuid}/roll")
@once
async def roll(request: Request, visitor: Member, key_id: UUID, form: Form) -> Response:
    """Make a successor of a key and show it, this once."""
    overlap = choice(form, "overlap", _OVERLAPS)
    key = await _key(request, visitor, key_id)
    show = partial(
        _new_key_page, request, heading="The key that replaces it", old=key, ends=_OVERLAPS[overlap]
    )
    rolled = parts_of(request).keys.roll(visitor.account_id, key_id, overlap=float(overlap))
    return await attempt("/keys", rolled, show)


@router.post("/{key_id:uuid}/revoke")
async def revoke(request: Request, visitor: Member, key_id: UUID, _form: Form) -> Response:
    """End a key now."""
    change = parts_of(request).keys.revoke(visitor.account_id, key_id)
    return await attempt("/keys", change, "The key is revoked and no longer works.")


async def _key(request: Request, visitor: Visitor, key_id: UUID) -> KeyRow:
    found: Sequence[KeyRow] = await parts_of(request).keys.list(visitor.account_id)
    key = next((row for row in found if row.id == key_id), None)
    if key is None:
        raise MailsiftError("key_not_found", "There is no such key.")
    return key


def _state_of(row: KeyRow, now: datetime) -> str:
    if row.revoked_at is not None:
        return "revoked"
    if row.expires_at is not None and row.expires_at <= now:
        return "expired"
    return "expiring" if row.rotated_to else "active"


def _form(request: Request, typed: _KeyForm, error: MailsiftError | None = None) -> Response:
    return render(
        request,
        "key_new.html",
        typed=typed,
        scopes=SCOPES,
        lifetimes=_LIFETIMES,
        doors=_purposes(parts_of(request)),
        error=error,
    )


def _purposes(parts: ApiParts) -> list[tuple[str, str]]:
    """Return what a key may be for, as choices."""
    doors = ((door.value, f"Clients of {NAMES[door]}") for door in parts.doors)
    forms = (_PUBLIC, "Sign-up forms on your site: a public key")
    return [("", "Programs that use Mailsift's own API"), forms, *doors]


def _new_key_page(
    request: Request, minted: MintedKey, heading: str, *, old: KeyRow | None = None, ends: str = ""
) -> Response:
    return render(
        request,
        "key_made.html",
        heading=heading,
        secret=minted.secret,
        opens=NAMES[door] if (door := kind_of(minted.secret).door) else "",
        row=minted.row,
        public=kind_of(minted.secret).public,
        old=old,
        ends=ends,
        address=our_address(request),
    )
