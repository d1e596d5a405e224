"""The folder of a process is there, whatever a sweep of another takes that nobody holds yet."""

from __future__ import annotations

from pathlib import Path

import pytest

from mailsift.storage.local_files import clear_abandoned, process_folder


def test_a_folder_that_a_sweep_takes_before_it_is_opened_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = 0

    def make(folder: Path, *, parents: bool, make: object = Path.mkdir) -> None:
        nonlocal taken
        assert callable(make)
        make(folder, parents=parents)
        taken += clear_abandoned(tmp_path) if taken == 0 else 0

    monkeypatch.setattr(Path, "mkdir", make)
    with process_folder(tmp_path) as folder:
        assert (taken, folder.is_dir(), clear_abandoned(tmp_path)) == (1, True, 0)
