"""Cron lines in English."""

from __future__ import annotations

import pytest

from jobs.cron_words import in_words

TABLE = {
    "* * * * *": "Every minute",
    "*/2 * * * *": "Every 2 minutes",
    "*/15 * * * *": "Every 15 minutes",
    "*/7 * * * *": "Every seventh minute of every hour",
    "0 * * * *": "Every hour, on the hour",
    "30 * * * *": "At minute 30 of every hour",
    "0 */2 * * *": "Every 2 hours, on the hour",
    "0 */5 * * *": "At minute 0 past every fifth hour",
    "0 6 * * *": "Every day at 06:00",
    "0 6,18 * * *": "Every day at 06:00 and 18:00",
    "0 6 * * 1": "Every Monday at 06:00",
    "0 6 * * 7": "Every Sunday at 06:00",
    "0 6 * * 1-5": "Monday to Friday at 06:00",
    "0 6 * * 6,0": "At 06:00 on Saturday and Sunday",
    "0 6 1 * *": "At 06:00 on the first day of every month",
    "0 6 31 * *": "At 06:00 on the 31st day of every month",
    "0 6 11,12,13 * *": "At 06:00 on the 11th, the 12th, and the 13th day of the month",
    "0 6 21,22,23 * *": "At 06:00 on the 21st, the 22nd, and the 23rd day of the month",
    "0 0 L * *": "At 00:00 on the last day of every month",
    "0 9 * * 1#1": "At 09:00 on the first Monday of the month",
    "0 6 13 * 5": "At 06:00 on the 13th day of the month and on Friday",
    "0 6 * 1,7 *": "At 06:00 every day in January and July",
    "*/10 9-17 * * mon-fri": "Every 10th minute from 09:00 to 17:59 on Monday to Friday",
}


@pytest.mark.parametrize(("cron", "words"), TABLE.items())
def test_a_cron_line_is_said_as_people_say_it(cron: str, words: str) -> None:
    assert in_words(cron) == words
