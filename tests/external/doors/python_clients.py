"""Runs the published Python clients of other services against whatever has their names; prints what they got.

Takes the keys by service and the addresses as JSON; every check is the client's own reading of an answer.
"""

from __future__ import annotations

import csv
import io
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import emailable
import kickbox
import neverbounce_sdk
from zerobouncesdk import ZBApiException, ZBValidateBatchElement, ZeroBounce

HERE = "https://mailsift.test"
GIVEN = json.loads(sys.argv[1])
KEYS: dict[str, str] = GIVEN["keys"]
EMAILS: list[str] = GIVEN["emails"]
LIST = "name,email\n" + "".join(f"Jane {place},{email}\n" for place, email in enumerate(EMAILS))
FOLDER = Path(mkdtemp())


def waited(look: Callable[[], Any], done: Callable[[Any], bool]) -> Any:
    """Look until it is done."""
    ends_at = time.monotonic() + 120
    while not done(found := look()):
        if time.monotonic() > ends_at:
            raise TimeoutError(repr(found))
        time.sleep(0.2)
    return found


def refused(kind: type[Exception], call: Callable[[], object]) -> str:
    """Return what an error says."""
    try:
        call()
    except kind as error:
        return str(error) or repr(error)
    raise AssertionError("nothing was refused")


def zerobounce() -> dict[str, Any]:
    ZeroBounce.BULK_BASE_URL = f"{HERE}/v2"
    client = ZeroBounce(KEYS["zerobounce"], base_url=f"{HERE}/v2")
    file = FOLDER / "list.csv"
    file.write_text(LIST)
    sent = client.send_file(str(file), 2, has_header_row=True)
    streamed = client.send_file_stream(io.BytesIO(LIST.encode()), "list.csv", 2, has_header_row=True)
    status = waited(lambda: client.file_status(sent.file_id), lambda one: one.file_status == "Complete")
    waited(lambda: client.file_status(streamed.file_id), lambda one: one.file_status == "Complete")
    rows = []
    for name, file_id, stream in (("a.csv", sent.file_id, False), ("b.csv", streamed.file_id, True)):
        client.get_file(file_id, str(FOLDER / name), stream=stream)
        with (FOLDER / name).open() as found:
            rows.append([[one["ZB Status"], one["ZB Sub Status"]] for one in csv.DictReader(found)])
    batch = client.validate_batch([ZBValidateBatchElement(email) for email in EMAILS])
    stranger = ZeroBounce("stranger", base_url=f"{HERE}/v2")
    return {
        "validate": [_zerobounce(client.validate(email)) for email in EMAILS],
        "validate (POST)": [
            _zerobounce(client.validate(email, use_post=True, timeout=20)) for email in EMAILS
        ],
        "validate_batch": [_zerobounce(one) for one in batch.email_batch],
        "get_credits": [int(client.get_credits().credits), int(client.get_credits(use_post=True).credits)],
        "send_file": [sent.success, sent.message, sent.file_name],
        "send_file_stream": [streamed.success, streamed.message, streamed.file_name],
        "file_status": [status.success, status.complete_percentage, status.upload_date.year],
        "get_file": rows,
        "delete_file": [
            client.delete_file(sent.file_id).message,
            client.delete_file(streamed.file_id).message,
        ],
        "refused": [
            refused(ZBApiException, lambda: client.file_status(sent.file_id)),
            refused(ZBApiException, lambda: stranger.validate(EMAILS[0])),
            refused(ZBApiException, lambda: stranger.validate_batch([ZBValidateBatchElement(EMAILS[0])])),
            refused(ZBApiException, lambda: client.get_file(sent.file_id, str(FOLDER / "c.csv"))),
            stranger.get_credits().credits,
        ],
    }


def _zerobounce(one: Any) -> list[str]:
    return [one.status.value, one.sub_status.value]


def neverbounce() -> dict[str, Any]:
    with neverbounce_sdk.client(api_key=KEYS["neverbounce"]) as client:
        supplied = [{"id": place, "email": email} for place, email in enumerate(EMAILS)]
        at_once = client.jobs_create(supplied, filename="a.csv", auto_parse=True, auto_start=True)["job_id"]
        later = client.jobs_create(supplied, filename="b.csv")["job_id"]
        waiting = client.jobs_status(later)
        client.jobs_parse(later)
        client.jobs_start(later)
        third = client.jobs_create(supplied, filename="c.csv", auto_parse=True)["job_id"]
        client.jobs_parse(third, auto_start=True)
        done = [
            waited(partial(client.jobs_status, job), lambda one: one["job_status"] == "complete")
            for job in (at_once, later, third)
        ]
        results = list(client.jobs_results(at_once, items_per_page=3))
        out = io.BytesIO()
        client.jobs_download(
            at_once, out, segmentation=("valids", "invalids"), appends=("role_account", "tld")
        )
        rows = list(csv.DictReader(io.StringIO(out.getvalue().decode())))
        found = {one["filename"] for one in client.jobs_search(items_per_page=2)}
        one = client.single_check(EMAILS[0], address_info=True, credits_info=True)
        info = client.account_info()
        deleted = [client.jobs_delete(job)["status"] for job in (at_once, later, third)]
        stranger = neverbounce_sdk.client(api_key="stranger")
        return {
            "single_check": [client.single_check(email, timeout=20)["result"] for email in EMAILS],
            "single_check (more)": [one["address_info"]["domain"], one["credits_info"]["paid_credits_used"]],
            "account_info": [info["job_counts"]["completed"], info["credits_info"]["free_credits_used"]],
            "jobs_create": [one["total"]["valid"] for one in done],
            "jobs_parse": waiting["job_status"],
            "jobs_start": [one["percent_complete"] for one in done],
            "jobs_status": [done[0]["filename"], done[0]["total"]["records"], done[0]["total"]["invalid"]],
            "jobs_results": [[row["data"]["id"], row["verification"]["result"]] for row in results],
            "jobs_download": [[row["email"], row["email_status"], row["role_account"]] for row in rows],
            "jobs_search": sorted(found),
            "jobs_delete": deleted,
            "refused": [
                refused(neverbounce_sdk.AuthFailure, lambda: stranger.single_check(EMAILS[0])),
                refused(neverbounce_sdk.GeneralException, lambda: client.jobs_status(at_once)),
            ],
        }


def kickbox_() -> dict[str, Any]:
    client = kickbox.Client(KEYS["kickbox"], {"base": HERE})
    api = client.kickbox()
    answers = [api.verify(email, {"timeout": 20_000}) for email in EMAILS]
    made = client.http_client.put("/verify-batch", "\n".join(EMAILS)).body
    path = f"/verify-batch/{made['id']}"
    done = waited(lambda: client.http_client.get(path).body, lambda one: one["status"] == "completed")
    stranger = kickbox.Client("stranger", {"base": HERE}).kickbox()
    return {
        "verify": [[one.body["result"], one.body["reason"]] for one in answers],
        "verify-batch": [done["stats"]["deliverable"], done["stats"]["addresses"]],
        "balance": client.http_client.get("/balance").body["balance"],
        "refused": [refused(Exception, lambda: stranger.verify(EMAILS[0]))],
    }


def emailable_() -> dict[str, Any]:
    client = emailable.Client(KEYS["emailable"])
    client.base_url = f"{HERE}/v1/"
    made = client.batch(EMAILS)
    done = waited(lambda: client.batch_status(made.id), lambda one: hasattr(one, "emails"))
    stranger = emailable.Client("stranger")
    stranger.base_url = client.base_url
    return {
        "verify": [_emailable(client.verify(email, timeout=10)) for email in EMAILS],
        "verify (no SMTP)": _emailable(client.verify(EMAILS[0], smtp=False)),
        "batch": made.message,
        "batch_status": [[one["state"], one["reason"]] for one in done.emails],
        "account": client.account().available_credits,
        "refused": [
            refused(emailable.AuthError, lambda: stranger.verify(EMAILS[0])),
            refused(emailable.ResourceNotFoundError, lambda: client.batch_status("nothing")),
        ],
    }


def _emailable(one: Any) -> list[str]:
    return [one.state, one.reason]


CLIENTS = {
    "zerobouncesdk": zerobounce,
    "neverbounce-sdk": neverbounce,
    "kickbox": kickbox_,
    "emailable": emailable_,
}

if __name__ == "__main__":
    found = {name: {"version": version(name), **run()} for name, run in CLIENTS.items()}
    sys.stdout.write(json.dumps(found))
