"""A bare FastAPI that answers in the shape of single-validate and looks at nothing; prints its address."""

from __future__ import annotations

from typing import Any, Literal

import uvicorn
import uvloop
from fastapi import FastAPI
from pydantic import BaseModel, Field
from typing_extensions import override

app = FastAPI()

REASON = "The syntax is good and no list speaks against it; no mail server was asked."


class Asked(BaseModel):
    """What single-validate takes."""

    email: str = Field(max_length=320)
    mode: Literal["fast", "medium", "deep"] = "deep"
    deadline_ms: int = Field(default=10_000, ge=100, le=60_000)


class Verdict(BaseModel):
    """The 13 fields."""

    catch_all: bool
    is_disposable: bool
    is_free: bool
    is_role_based: bool
    is_valid: bool
    mx_valid: bool
    syntax_valid: bool
    reason: str
    result: str
    suggestion: str
    score: int
    smtp_code: int
    status: Literal["valid", "invalid", "risky"]


class Envelope(BaseModel):
    """The envelope of every answer."""

    data: Verdict
    message: str
    status: int
    success: Literal[True] = True


@app.post("/v1/email/single-validate")
async def echo(wanted: Asked) -> Envelope:
    """Answer with the address."""
    flags: dict[str, Any] = dict.fromkeys(list(Verdict.model_fields)[:7], False)
    verdict = Verdict(
        **flags, reason=REASON, result=wanted.email, suggestion="", score=60, smtp_code=0, status="valid"
    )
    return Envelope(data=verdict, message="The address was validated.", status=200)


class _Server(uvicorn.Server):
    @override
    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        print(f"listens on http://127.0.0.1:{port}", flush=True)


async def serve(served: FastAPI) -> None:
    """Serve with the settings of `mailsift api` until stopped."""
    config = uvicorn.Config(served, port=0, log_level="warning", access_log=False, server_header=False)
    await _Server(config).serve()


if __name__ == "__main__":
    uvloop.run(serve(app))
