"""An operation that is asked so often that the way to it matters: described by FastAPI, called without it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from json import JSONDecodeError
from typing import Any, Final, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError
from typing_extensions import override

from api.auth import Needs
from api.strict_json import read_json
from pipeline.errors import MailsiftError

Model = TypeVar("Model", bound=BaseModel)
_JSON: Final = "application/json"


class DirectRoute(APIRoute):
    """A route to an endpoint with the signature (request, wanted: a model, caller: who Needs says).

    Finding out again with every request what an endpoint takes costs FastAPI as much time as the answer
    costs us.
    """

    @override
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what takes the key, then the body, and asks the endpoint."""
        (needs,) = (one.call for one in self.dependant.dependencies if isinstance(one.call, Needs))
        model = self.body_field.field_info.annotation if self.body_field else None
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            raise TypeError("a direct route takes one model")
        wanted, endpoint = model, self.endpoint

        async def handle(request: Request) -> Response:
            caller = await needs.enter(request)
            answer: Response = await endpoint(request, await body_of(request, wanted), caller)
            return answer

        return handle


async def body_of(request: Request, model: type[Model]) -> Model:
    """Return the JSON that a request carries.

    Raises:
        RequestValidationError: it is not JSON, or not of this model.
        MailsiftError: `unsupported_media_type`.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _JSON:
        raise MailsiftError("unsupported_media_type", f"The body is {_JSON}.")
    body = await request.body()
    if not body:
        raise _invalid("Field required", "missing")
    try:
        return model.model_validate(read_json(body))
    except JSONDecodeError as error:
        raise _invalid(error.msg, "json_invalid") from None
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        raise RequestValidationError([{**one, "loc": ("body", *one["loc"])} for one in found]) from None


def _invalid(text: str, kind: str) -> RequestValidationError:
    return RequestValidationError([{"loc": ("body",), "msg": text, "type": kind}])
