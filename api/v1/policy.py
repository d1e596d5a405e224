"""/v1/policy: what the account wants done with verdicts and outcomes."""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import JSONResponse

from mailsift.api.http.openapi import operation, v1_router
from mailsift.api.http.policies import AccountPolicyBody
from mailsift.api.http.responses import answer
from mailsift.api.parts import parts_of
from mailsift.api.v1.jobs import Reader, Writer

router = v1_router("/policy", "policy")


@router.get("", **operation("Look at the policy", AccountPolicyBody))
async def get_policy(request: Request, caller: Reader) -> JSONResponse:
    """Return the rules that turn verdicts into tiers, and for how long outcomes are believed."""
    found = await parts_of(request).policies.get(caller.account_id)
    return answer(AccountPolicyBody.model_validate(found))


@router.put("", **operation("Set the policy", AccountPolicyBody))
async def put_policy(request: Request, wanted: AccountPolicyBody, caller: Writer) -> JSONResponse:
    """Set the account's policy; jobs that begin from now on use its tiers."""
    await parts_of(request).policies.put(caller.account_id, wanted.policy())
    return answer(wanted, "The policy is set.")
