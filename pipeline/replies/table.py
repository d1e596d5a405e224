"""The reply table: every rule in the order it is tried; the first that applies decides.

The order is the rule that protects the innocent: first what cannot be about the mailbox (the stage, our own
name), then rates and greylisting, then refusals of us, and only what is left may speak of the mailbox.
"""

from __future__ import annotations

from pipeline.replies import rules_languages as languages
from pipeline.replies import rules_later as later
from pipeline.replies import rules_mailbox as mailbox
from pipeline.replies import rules_us as us

ROWS = (
    *mailbox.ACCEPTED,
    *later.BEFORE_WORDS,
    *us.BEFORE_RECIPIENT,
    *us.NAMES_US,
    *mailbox.INTERNATIONAL,
    *mailbox.DIRECTORY,
    *later.RATE,
    *us.NAMES_US_FOR_NOW,
    *mailbox.SWITCHED_OFF,
    *us.STRONG,
    *mailbox.FULL,
    *languages.FULL,
    *later.PACE,
    *later.PERMANENT_BUT_PASSING,
    *mailbox.DISABLED,
    *languages.DISABLED,
    *mailbox.DOMAIN,
    *mailbox.NOT_FOUND,
    *languages.NOT_FOUND,
    *us.POLICY,
    *later.OTHERWISE,
)
"""All rows in order; the last ones apply to every reply."""

REASONS = {row.id: row.reason for row in ROWS}
"""Why, by row id, for evidence shown to people."""
