"""Doors for the clients of other services: their paths, parameters, answers and errors over our own parts.

A door is closed unless the operator opens it (MAILSIFT_DOORS). Each is functions that shape answers, and thin
routes over what /v1 asks, too; `codes` has the words of all. What they mean is in docs/compatibility.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module

from fastapi import Request
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute

from mailsift.accounts.doors import Door
from mailsift.api.doors.entry import VendorDoor
from mailsift.api.http.errors import ErrorPage
from mailsift.pipeline.errors import MailsiftError


@cache
def find_door(door: Door) -> VendorDoor:
    """Return what there is of a door: the `DOOR` of its module, loaded when it is asked for."""
    found: VendorDoor = import_module(f"{__name__}.{door.value}").DOOR
    return found


def is_door(path: str) -> bool:
    """Tell whether a path is one of a door, open or not, or may be another one of the same service."""
    return _folder(path) in _own_folders() or any(_has(find_door(door), path) for door in Door)


@cache
def _own_folders() -> frozenset[str]:
    """Return where nothing lies but doors, unlike below /v1; their services have more there than we do."""
    routes = (route for door in Door for route in find_door(door).router.routes)
    return frozenset(_folder(route.path) for route in routes if isinstance(route, APIRoute)) - {"v1"}


def _folder(path: str) -> str:
    return path.removeprefix("/").partition("/")[0]


def _has(door: VendorDoor, path: str) -> bool:
    return any(
        isinstance(route, APIRoute) and route.path_regex.match(path) is not None
        for route in door.router.routes
    )


def error_shape(opened: Sequence[VendorDoor]) -> ErrorPage:
    """Return what tells a door's clients of errors as their own service would."""

    def shape(
        request: Request, error: MailsiftError, status: int, headers: Mapping[str, str]
    ) -> Response | None:
        path = request.url.path
        door = next((one for one in opened if _has(one, path)), None)
        if door is None:
            return None
        vendor_error = door.show(path, error, status)
        kept = {name: value for name, value in headers.items() if name != "WWW-Authenticate"}
        return JSONResponse(vendor_error.content, vendor_error.status, kept)

    return shape
