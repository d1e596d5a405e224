"""The Celery application for tools that want to import one: `celery -A mailsift.celery_app flower`."""

from __future__ import annotations

from typing import Any

from mailsift.jobs.tasks import make_app
from mailsift.pipeline.errors import MailsiftError
from mailsift.settings import Settings


def __getattr__(name: str) -> Any:
    """Make `app` when it is asked for, so that importing this reads no settings.

    Raises:
        MailsiftError: `bad_settings`, also without MAILSIFT_REDIS_URL: the embedded server is nobody else's.
    """
    if name != "app":
        raise AttributeError(name)
    url = Settings.from_env().redis_url
    if url is None:
        raise MailsiftError("bad_settings", "MAILSIFT_REDIS_URL: must be set.")
    return make_app(url.get_secret_value())
