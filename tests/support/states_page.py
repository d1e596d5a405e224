"""Write docs/states.md anew from the tables of states: `python -m tests.support.states_page`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from mailsift.storage.states import ChunkState, ChunkTransition, JobState, JobTransition

Transitions = type[JobTransition] | type[ChunkTransition]

PAGE: Final = Path(__file__).parents[2] / "docs/states.md"

_TEXT = """\
# States

Made from `storage/states.py` by `python -m tests.support.states_page`; a test keeps the two in step.
Every change of state is one SQL statement that names the states it may happen in, so if two processes
want different things, one finds that nothing was changed. An ended job or chunk never changes again.

## A job

{job}
`uploading` and `intake` belong to the intake, `finalizing` to the finish: each is leased by one worker
at a time (`job.step_token`) and leased again if its worker dies; after three deaths the job fails.
If the blob store, the database or the disk is away, the step is given back until a later time
(`job.step_until`): that costs the job nothing, and its owner sees that it waits for storage. Chunks are
claimed while the job is `queued` or `running`, and may also be committed while it is `paused`.

{job_rows}
## A chunk

{chunk}
A lease has a token, an owner and an end (`chunk.lease_token`, `lease_owner`, `lease_until`); whoever
commits must still hold the token. A *deferred* chunk is a `ready` one whose `ready_at` lies in the
future: its addresses wait for a mail server, and `waits_for` says why.

{chunk_rows}"""


def states_page() -> str:
    """Return docs/states.md as it has to be."""
    return _TEXT.format(
        job=_diagram(JobState.UPLOADING, JobTransition),
        job_rows=_table(JobTransition),
        chunk=_diagram(ChunkState.READY, ChunkTransition),
        chunk_rows=_table(ChunkTransition),
    )


def _diagram(first: str, transitions: Transitions) -> str:
    """Return a Mermaid state diagram; several transitions between the same states share an arrow."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for one in transitions:
        for source in one.sources:
            arrows.setdefault((source, one.target), []).append(one.name.lower())
    ends = {one.target for one in transitions} - {source for source, _ in arrows}
    lines = [f"    [*] --> {first}"]
    lines += [f"    {source} --> {target}: {', '.join(names)}" for (source, target), names in arrows.items()]
    lines += [f"    {end} --> [*]" for end in sorted(ends)]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```", ""])


def _table(transitions: Transitions) -> str:
    rows = [
        f"| {one.name.lower()} | {', '.join(one.sources)} | {one.target} | {one.when} |"
        for one in transitions
    ]
    return "\n".join(["| transition | from | to | when |", "|---|---|---|---|", *rows, ""])


if __name__ == "__main__":
    PAGE.write_text(states_page(), encoding="utf-8")
