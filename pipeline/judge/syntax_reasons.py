"""The sentences for broken syntax rules."""

from __future__ import annotations

SENTENCES = {
    "empty": "The cell is empty.",
    "no_at": "The address has no @ sign.",
    "too_long": "The address is longer than 254 characters.",
    "local_empty": "Nothing stands before the @ sign.",
    "local_too_long": "The part before the @ sign is longer than 64 characters.",
    "local_dot": "The part before the @ sign starts or ends with a dot, or has two dots in a row.",
    "local_character": "The part before the @ sign has a character that is not allowed there.",
    "quoted_unterminated": "A quotation mark is opened but not closed.",
    "domain_empty": "Nothing stands after the @ sign.",
    "domain_too_long": "The domain is longer than 253 characters.",
    "domain_label": "A part of the domain is empty, too long, or starts or ends with a hyphen.",
    "domain_character": "The domain has a character that is not allowed there.",
    "domain_no_dot": "The domain has no dot.",
    "domain_special_use": "The domain is reserved for special use and takes no mail.",
    "domain_literal": "The domain is an IP address in brackets.",
    "display_name": "A name stands beside the address.",
    "several_addresses": "The cell holds several addresses.",
    "control_character": "The address has a control character.",
    "unicode_invalid": "The address has text that is not valid Unicode or not in normal form.",
    "other": "The address does not follow the syntax of email addresses.",
}
"""One sentence for every rule code of pipeline.syntax."""


def syntax_reason(rule: str) -> str:
    """Return the sentence for a rule code; one that names the code when it is not in the table."""
    return SENTENCES.get(rule, f'The address breaks the syntax rule "{rule}".')
