"""A second opinion on the syntax of addresses."""

from __future__ import annotations

from email_validator import validate_email


def email_validator_takes(text: str) -> bool:
    """Whether email-validator takes an address; it refuses reserved labels and pictures, which we do not."""
    try:
        validate_email(
            text,
            allow_smtputf8=True,
            allow_quoted_local=True,
            strict=True,
            check_deliverability=False,
            test_environment=True,
        )
    except ValueError:  # EmailNotValidError is one, and so is all that the idna package raises
        return False
    return True
