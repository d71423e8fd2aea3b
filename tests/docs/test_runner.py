"""The runner of pages: what it runs, what it compares, and what it reports."""

import os

import pytest

from docs.pages import PageError, read_blocks
from docs.running import BlockError, Place, run_page
from docs.shown import find_difference


@pytest.fixture
def run(tmp_path):
    """Write a page and run it without a server."""

    def writing(text, *, full=False):
        page = tmp_path / "page.md"
        page.write_text(text)
        place = Place(tmp_path / "clone", {"PATH": os.environ["PATH"]}, tmp_path / "scratch")
        for folder in (place.clone, place.scratch):
            folder.mkdir(exist_ok=True)
        return run_page(page, place, full=full)

    return writing


def fence(language, text):
    return f"```{language}\n{text}\n```\n"


def test_a_block_that_fails_is_reported_with_page_line_and_output(run):
    with pytest.raises(BlockError) as error:
        run("# Title\n\n" + fence("sh", "echo before\nls /no/such/folder\necho after"))
    text = str(error.value)
    assert text.startswith("page.md:3: the exit status must be 0, got 2")
    assert "before\n" in text
    assert "/no/such/folder" in text
    assert "after" not in text.partition("--- its output")[2]


def test_a_failure_within_a_pipe_is_one(run):
    with pytest.raises(BlockError, match="the exit status must be 0, got 1"):
        run(fence("sh", "false | cat"))


def test_output_that_differs_is_reported_with_the_line_of_its_command(run):
    with pytest.raises(BlockError, match=r"page.md:4: .*did not print: two"):
        run(fence("console", "$ echo one\none\n$ echo three\ntwo"))


def test_what_a_block_exports_holds_in_the_next(run):
    first = fence("sh", 'eval "export NAME=value"\nmkdir folder && cd folder')
    assert (
        run(first + fence("console", '$ echo "$NAME" in $(basename "$PWD")\nvalue in folder')) == 2
    )


def test_a_process_in_the_background_ends_with_the_page(run, tmp_path):
    run(fence("sh", "sleep 600 &\necho $! > pid"))
    pid = int((tmp_path / "clone/pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_command_over_several_lines_is_one_command(run):
    run(fence("console", "$ echo one \\\n      two\none two\n$ true && echo done\ndone"))


def test_a_file_is_written_where_the_page_says(run):
    page = "<!-- run: file=trainer/task.py -->\n" + fence("python", "print('trained')")
    run(page + fence("console", "$ python trainer/task.py\ntrained"))


def test_what_a_reader_has_is_set_up_out_of_sight(run):
    page = "<!-- setup: echo 17 > study -->\n\n<!-- replace: STUDY = $(cat study) -->\n\n"
    run(page + fence("console", "$ echo study STUDY of STUDY_1\nstudy 17 of STUDY_1"))


def test_a_block_in_a_list_runs_too(run):
    assert run("1. First:\n\n   <!-- run: exit=3 -->\n   ```sh\n   (exit 3)\n   ```\n") == 1


def test_long_blocks_run_in_the_full_suite_only(run):
    page = "<!-- run: full -->\n" + fence("sh", "touch long")
    assert run(page) == 0
    assert run(page, full=True) == 1


def test_a_block_with_a_reason_does_not_run(run):
    assert run("<!-- not run: needs a cluster -->\n" + fence("sh", "exit 1")) == 0


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (fence("yaml", "a: 1"), "line 1: a block of yaml needs '<!-- run: file=NAME -->'"),
        (fence("", "ls"), "line 1: the language of a block must be one of sh, console"),
        ("<!-- not run: -->\n" + fence("sh", "ls"), "line 2: 'not run' needs a reason"),
        ("<!-- run: fulll -->\n" + fence("sh", "ls"), "an option of 'run' must be one of full"),
        ("<!-- run: full -->\n\nText.\n\n" + fence("sh", "ls"), "line 1: no block follows"),
        (fence("console", "ls"), "line 2: a console block begins with"),
    ],
)  # fmt: skip
def test_a_page_that_says_too_little_is_refused(run, page, message):
    with pytest.raises(PageError) as error:
        run(page)
    assert message in str(error.value)


def test_a_comment_for_readers_of_the_source_is_none_of_ours(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- figures: begin -->\n\n" + fence("sh", "ls"))
    assert [block.line for block in read_blocks(page)] == [3]


@pytest.mark.parametrize(
    ("documented", "printed"),
    [
        ("INFO 2026-11-21 15:47:19 +0000  service  Job is running.",
         "INFO 2027-01-02 01:02:03 +0100  service  Job is running."),
        ("ROLE     COUNT\n───────  ─────\nworker       2", "ROLE  COUNT\n────  ─────\nworker  16"),
        ("first\n...\nlast", "first\na\nb\nlast"),
        ("first\n...", "first\na\nb"),
        ("NODE  STATE ...", "NODE  STATE  NOTICE  ENGINE"),
        ("done", "\x1b[32mdone\x1b[0m"),
    ],
)  # fmt: skip
def test_times_numbers_and_widths_are_no_difference(documented, printed):
    assert find_difference(documented, printed) == ""


@pytest.mark.parametrize(
    ("documented", "printed", "line"),
    [
        ("state: SUCCEEDED", "state: FAILED", "state: SUCCEEDED"),
        ("first\nlast", "first\nmiddle\nlast", "last"),
        ("...\nfirst\n...\nlast", "last\nfirst", "last"),
        ("first", "first\nlast", "(the end)"),
    ],
)
def test_words_are_a_difference(documented, printed, line):
    assert find_difference(documented, printed).splitlines()[0] == line


def test_lines_in_any_order_are_looked_for_one_by_one():
    assert find_difference("b\na", "a\nx\nb", any_order=True) == ""
    assert find_difference("b\nc", "a\nb", any_order=True) == "c"
