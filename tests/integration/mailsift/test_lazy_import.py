"""A library that is put off is loaded at first use, once, and then is what it always was."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[3]


def _printed(program: str) -> list[str]:
    """Run a program in a fresh interpreter and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_a_library_is_loaded_when_something_of_it_is_used() -> None:
    printed = _printed("""
        import sys
        from mailsift.lazy_import import import_lazily
        import_lazily("polars")
        import polars as pl
        print(hasattr(pl, "__file__"), "polars.dataframe" in sys.modules)
        print(pl.DataFrame({"a": [1, 2]}).select(pl.col("a").sum()).item())
        import polars
        print(polars is sys.modules["polars"], polars.DataFrame is pl.DataFrame)
        print(pl.__version__ == polars.__version__)
        from polars.testing import assert_frame_equal
        assert_frame_equal(pl.DataFrame(), polars.DataFrame())
    """)
    assert printed == ["False", "False", "3", "True", "True", "True"]


def test_many_threads_at_once_load_it_once() -> None:
    printed = _printed("""
        import threading
        from mailsift.lazy_import import import_lazily
        import_lazily("xlsxwriter")
        import xlsxwriter
        barrier, found = threading.Barrier(8), []
        def use():
            barrier.wait()
            found.append(xlsxwriter.Workbook)
        threads = [threading.Thread(target=use) for _ in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        print(len(found), len(set(found)))
    """)
    assert printed == ["8", "1"]


def test_frames_that_load_in_the_background_do_not_get_in_the_way_of_who_needs_them_now() -> None:
    printed = _printed("""
        import sys, threading
        from mailsift.lazy_import import import_lazily
        import_lazily("polars")
        from mailsift.pipeline.frames import PARSED, load_frames
        failed = []
        threading.excepthook = lambda args: failed.append(args.exc_type.__name__)
        class InTheMiddle:
            def find_spec(self, name, path, target=None):
                if name == "polars._reexport":
                    sys.meta_path.remove(self)
                    load_frames()
                    threading.Event().wait(1)
        sys.meta_path.insert(0, InTheMiddle())
        print(PARSED["domain"])
        import polars
        print(polars.DataFrame({"a": [1]}).lazy().collect().height, *failed)
    """)
    assert printed == ["String", "1"]


def test_what_is_loaded_already_stays() -> None:
    printed = _printed("""
        import json
        from mailsift.lazy_import import import_lazily
        import_lazily("json")
        import json as again
        print(again is json)
    """)
    assert printed == ["True"]


def test_making_a_key_needs_no_frames() -> None:
    printed = _printed("""
        import sys
        from mailsift.lazy_import import import_lazily
        import_lazily("polars")
        import_lazily("xlsxwriter")
        import mailsift.cli
        import mailsift.cli.accounts
        import mailsift.runtime.api_server
        print("polars.dataframe" in sys.modules, "xlsxwriter.workbook" in sys.modules)
    """)
    assert printed == ["False", "False"]


def test_a_fast_check_needs_no_loop_no_frames_and_no_coloured_tracebacks() -> None:
    printed = _printed("""
        import atexit, sys
        from mailsift.cli import main
        costly = "asyncio.events", "polars.dataframe", "sqlalchemy", "rich.traceback"
        atexit.register(lambda: print("loaded:", *(name for name in costly if name in sys.modules)))
        sys.argv = ["mailsift", "check", "--mode", "fast", "--json", "ada@example.org"]
        main()
    """)
    assert printed[-1] == "loaded:"


def test_a_library_that_was_hidden_is_there_again() -> None:
    printed = _printed("""
        from mailsift.lazy_import import without
        with without("xlsxwriter"):
            try:
                import xlsxwriter
            except ImportError:
                print("hidden")
        import xlsxwriter
        with without("xlsxwriter"):
            import xlsxwriter
        print(xlsxwriter.__name__)
    """)
    assert printed == ["hidden", "xlsxwriter"]


def test_the_database_is_used_without_the_object_mapper() -> None:
    printed = _printed("""
        import sys
        from mailsift.cli import main
        sys.argv = ["mailsift", "settings"]
        try:
            main()
        except SystemExit:
            pass
        from mailsift.container import Container
        from mailsift.storage.database import Database
        Database("postgresql://nobody@nowhere.invalid/none")
        print("loaded:", *(name for name in ("sqlalchemy.engine", "sqlalchemy.orm") if name in sys.modules))
    """)
    assert printed[-2:] == ["loaded:", "sqlalchemy.engine"]
