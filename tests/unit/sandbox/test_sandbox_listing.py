"""Lists are realistic, repeatable and match their truth row by row; email-validator judges their syntax."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest
from email_validator import EmailNotValidError, validate_email

from mailsift.sandbox.listing import DECORATIONS, HEADER, MISTAKES, TRUTH_HEADER, write_list
from mailsift.sandbox.world import SandboxWorld, WorldMix

ROWS = 6_000
WORLD = SandboxWorld(seed=3, domains=1_500, mix=WorldMix.HOSTILE)


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    path = tmp_path_factory.mktemp("listing") / "list.csv"
    truth = write_list(WORLD, path, rows=ROWS)
    assert truth == path.with_name("list.truth.csv")
    return _read(path), _read(truth)


def _canonical(cell: str) -> str | None:
    """The address in a cell, by email-validator; None when there is none."""
    text = cell.strip(" \t\u00a0").removeprefix("mailto:").removeprefix("<").removesuffix(">")
    try:
        parsed = validate_email(text, check_deliverability=False)
    except EmailNotValidError:
        return None
    return f"{parsed.local_part.lower()}@{parsed.ascii_domain}"


def test_every_row_has_its_truth_and_both_files_have_their_columns(
    listed: tuple[list[dict[str, str]], list[dict[str, str]]],
) -> None:
    rows, truths = listed
    assert len(rows) == len(truths) == ROWS
    assert tuple(rows[0]) == HEADER
    assert tuple(truths[0]) == TRUTH_HEADER
    assert [row["row"] for row in truths] == [row["id"] for row in rows] == [str(n + 1) for n in range(ROWS)]


def test_email_validator_agrees_about_the_syntax_of_every_row(
    listed: tuple[list[dict[str, str]], list[dict[str, str]]],
) -> None:
    for row, true in zip(*listed, strict=True):
        address = _canonical(row["email"])
        if address is None:
            assert {true["fast"], true["medium"], true["deep"]} == {"invalid"}, true
            assert true["deep_result"] == "syntax_error"
        else:
            assert address == true["email"]
            assert true["fast"] in {"valid", "risky"}, true


def test_the_truth_of_every_good_row_is_the_worlds(
    listed: tuple[list[dict[str, str]], list[dict[str, str]]],
) -> None:
    for true in listed[1]:
        if true["deep_result"] != "syntax_error":
            truth = WORLD.truth(true["email"])
            assert (truth.fast.status, truth.medium.status) == (true["fast"], true["medium"])
            assert (truth.deep.status, truth.deep.result) == (true["deep"], true["deep_result"])


def test_the_shares_are_those_of_a_real_list(
    listed: tuple[list[dict[str, str]], list[dict[str, str]]],
) -> None:
    rows, truths = listed
    domains = Counter(true["email"].rpartition("@")[2] for true in truths)
    results = Counter(true["deep_result"] for true in truths)
    addresses = [true["email"] for true in truths if true["email"]]
    again = len(addresses) - len(set(addresses))
    assert 0.18 < domains["gmail.com"] / ROWS < 0.25
    assert 0.025 < results["syntax_error"] / ROWS < 0.045
    assert 0.05 < again / ROWS < 0.12
    assert 0.05 < results["mailbox_not_found"] / ROWS < 0.1
    assert 0.005 < results["disposable"] / ROWS < 0.02
    assert any(row["email"].strip() == "" for row in rows)
    assert any(
        not row["email"].isascii() and true["deep"] == "valid" for row, true in zip(*listed, strict=True)
    )
    assert len(domains) > 1_200


def test_every_result_the_sandbox_knows_is_in_a_hostile_list(
    listed: tuple[list[dict[str, str]], list[dict[str, str]]],
) -> None:
    results = {true["deep_result"] for true in listed[1]}
    assert results == {
        "deliverable", "mailbox_not_found", "mailbox_full", "mailbox_disabled", "catch_all", "unverifiable",
        "probe_blocked", "unreachable", "deferred", "dns_unavailable", "domain_not_found", "no_mail_server",
        "null_mx", "unroutable", "syntax_error", "disposable", "",
    }  # fmt: skip


def test_the_same_world_writes_the_same_list(tmp_path: Path) -> None:
    write_list(WORLD, tmp_path / "a.csv", rows=500)
    write_list(SandboxWorld(seed=3, domains=1_500, mix=WorldMix.HOSTILE), tmp_path / "b.csv", rows=500)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert (tmp_path / "a.truth.csv").read_bytes() == (tmp_path / "b.truth.csv").read_bytes()


@pytest.mark.parametrize("number", range(len(MISTAKES)))
@pytest.mark.parametrize("domain", ["example.com", "example.co.uk", "bäckerei-müller.de"])
def test_every_mistake_is_one_for_email_validator(number: int, domain: str) -> None:
    with pytest.raises(EmailNotValidError):
        validate_email(MISTAKES[number]("anna.weber", domain), check_deliverability=False)


@pytest.mark.parametrize("number", range(len(DECORATIONS)))
def test_every_decoration_leaves_the_address_what_it_is(number: int) -> None:
    assert _canonical(DECORATIONS[number]("anna.weber@example.co.uk")) == "anna.weber@example.co.uk"
