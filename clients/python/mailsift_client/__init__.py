"""Client of Mailsift; below `generated` is what the API's own description says, as code."""

from __future__ import annotations

from mailsift_client.asynchronous import AsyncMailsift
from mailsift_client.client import ListOptions, Mailsift, RowFilter
from mailsift_client.errors import MailsiftError, unwrap
from mailsift_client.webhooks import Event, WebhookError, verify_webhook

__all__ = [
    "AsyncMailsift",
    "Event",
    "ListOptions",
    "Mailsift",
    "MailsiftError",
    "RowFilter",
    "WebhookError",
    "unwrap",
    "verify_webhook",
]
