"""What to do with a job's rows: how many to send to, to review and to remove, and what is different now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from mailsift.api.pages.filters import number, percent
from mailsift.jobs.views import JobView
from mailsift.pipeline.facts import Mode
from mailsift.pipeline.tiers import Tier
from mailsift.pipeline.verdict import Status
from mailsift.pipeline.wording import counted
from mailsift.storage.states import ENDED, JobState

_TIERS: Final = (
    (Tier.SEND, Status.VALID, "Safe to send", "We found nothing wrong with these."),
    (
        Tier.REVIEW,
        Status.RISKY,
        "To review",
        "We could not tell for sure. Send with care, or check again later.",
    ),
    (Tier.REMOVE, Status.INVALID, "To remove", "Mail to these would bounce, or is not wanted."),
)
NAMES: Final = {Tier.SEND: "Send", Tier.REVIEW: "Review", Tier.REMOVE: "Remove"}
"""What to do, in a word."""
COLOURS: Final = {tier: colour for tier, colour, _, _ in _TIERS}
"""The status whose colour a tier has."""
REASONS: Final = {
    "complained": "A reader reported a message as spam.",
    "unsubscribed": "This reader unsubscribed.",
    "suppressed": "On your suppression list.",
    "role": "Your policy holds back role addresses.",
    "free": "Your policy holds back free providers.",
    "low_score": "Below your minimum score.",
}
"""Why an address is held back that its verdict alone would not hold back."""
_NOTES: Final = {
    Mode.FAST: "Fast mode does not ask mail servers, so some of these mailboxes may not exist.",
    Mode.MEDIUM: "Medium mode does not ask mail servers, so some of these mailboxes may not exist.",
    Mode.DEEP: "",
}
_CUT_SHORT: Final = {JobState.CANCELLED: "was cancelled", JobState.FAILED: "failed"}


@dataclass(frozen=True, slots=True)
class TierOnPage:
    """One thing to do with rows."""

    tier: Tier  # the word that filters for these rows
    colour: Status  # whose colour they have
    label: str
    advice: str
    rows: int
    share: str  # which part of the rows with a verdict
    change: str  # how many more than in the run before, "" for as many, or when there was none


def tiers_of(view: JobView, earlier: JobView | None = None) -> tuple[TierOnPage, ...]:
    """Return what to do with a job's rows; `earlier` is a completed run of the same list."""
    return tuple(
        TierOnPage(
            tier,
            colour,
            label,
            advice,
            rows := view.tiers[tier],
            percent(rows, view.processed) if view.processed else "",
            _change(rows - earlier.tiers[tier]) if earlier else "",
        )
        for tier, colour, label, advice in _TIERS
    )


def sentence_of(view: JobView) -> str:
    """Say in one sentence what a job has come to, "" when it has no verdicts."""
    rows, safe = view.processed, view.send
    if not rows:
        return ""
    if view.state in _CUT_SHORT:
        begun = f"The job {_CUT_SHORT[view.state]} with {number(rows)} of {counted(view.total, 'row')}"
        return f"{begun} validated; {number(safe)} {_is_or_are(safe)} safe to send."
    if view.state not in ENDED:
        done = f"{counted(rows, 'row')} validated so far"
        return f"{number(safe)} of the {done} {_is_or_are(safe)} safe to send."
    whole = counted(rows, "row") + (" in the sample" if view.options.preview else "")
    if rows == 1:
        return f"The only row is {'' if safe else 'not '}safe to send."
    if not safe:
        return f"None of {whole} is safe to send."
    return (
        f"All {whole} are safe to send."
        if safe == rows
        else f"{number(safe)} of {whole} {_is_or_are(safe)} safe to send."
    )


def note_of(view: JobView) -> str:
    """Return what the mode leaves open about the rows that are safe to send."""
    return _NOTES[view.mode] if view.send else ""


def run_before(view: JobView, runs: Iterable[JobView]) -> JobView | None:
    """Return the last completed run of the whole list before this one."""
    if not _is_whole(view):
        return None
    earlier = (run for run in runs if run.created_at < view.created_at and _is_whole(run))
    return max(earlier, key=lambda run: run.created_at, default=None)


def _is_whole(run: JobView) -> bool:
    """Say whether a run has the verdicts of the whole list: no sample, and not only what was risky before."""
    return run.state is JobState.COMPLETED and not run.options.preview and not run.options.part


def _change(rows: int) -> str:
    return f"{'+' if rows > 0 else '−'}{number(abs(rows))}" if rows else ""


def _is_or_are(count: int) -> str:
    return "is" if count == 1 else "are"
