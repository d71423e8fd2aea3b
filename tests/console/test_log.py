"""The log of a job in a real browser: any line, a search, the growing end, hostile text."""

import re
import time

import pytest
from playwright.sync_api import expect

from console.browser import take_picture, wait_on_page
from console.documents import simulated_job, trainer_job
from console.written_logs import BEGIN_NS, STEP_NS, WrittenLog, write_long_log
from e2e.support import native, submit

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

LENGTH = 50_000
LINES_MAX = 160


def job_path(name, query=""):
    return f"/console/jobs/{name.split('/')[1]}/{name.rpartition('/')[2]}{query}"


def started(server, name, *words):
    """Submit a job that runs until it is stopped; return its name and uid."""
    full = submit(server, simulated_job(name, *words, workers=2))
    wait = time.monotonic() + 60
    while not native(server, full)["attempt"]:
        assert time.monotonic() < wait, "the job has no attempt"
        time.sleep(0.05)
    return full, native(server, full)["uid"]


@pytest.fixture(scope="module")
def long_log(simulated):
    name, uid = started(simulated, "long-log")
    write_long_log(simulated, uid, LENGTH)
    return name


@pytest.fixture
def page(simulated, visit, long_log):
    page = visit(simulated).open(job_path(long_log))
    expect(number(page, LENGTH)).to_be_visible()
    return page


def number(page, line):
    return page.locator(".line-number", has_text=re.compile(f"^{line:,}$"))


def go_to(page, text):
    page.locator(".log-lines").focus()
    page.keyboard.press(":")
    page.get_by_label("or time").fill(text)
    page.keyboard.press("Enter")


def first_visible(page):
    """Return the number of the first line on the screen."""
    script = """lines => [...lines.children].find(
        line => line.offsetTop + line.offsetHeight > lines.scrollTop
    ).querySelector(".line-number").textContent"""
    return int(page.locator(".log-lines").evaluate(script).replace(",", ""))


def drawn_numbers(page):
    texts = page.locator(".line:not(.service) .line-number").all_inner_texts()
    return [int(text.replace(",", "")) for text in texts]


def test_any_line_is_reached_with_few_elements(page):
    current = page.locator(".line.current")
    for line in (LENGTH // 2, 3, LENGTH - 7):
        go_to(page, f"{line:,}")
        expect(current.locator(".line-number")).to_have_text(f"{line:,}")
        expect(current).to_be_in_viewport()
        assert page.locator(".line").count() <= LINES_MAX
    page.keyboard.press("Home")
    expect(number(page, 1)).to_be_visible()
    page.keyboard.press("G")
    expect(number(page, LENGTH)).to_be_in_viewport()


@pytest.mark.full
def test_a_search_brings_its_line_into_a_low_window(page):
    page.set_viewport_size({"width": 1280, "height": 420})
    page.evaluate("scrollTo(0, 0)")
    expect(page.locator(".log-lines")).not_to_be_in_viewport(ratio=0.5)
    page.get_by_label("Find in the log").fill("step")
    expect(page.locator(".line.current .line-text")).to_be_in_viewport(ratio=1)


@pytest.mark.full
def test_a_time_and_the_scrollbar_lead_to_lines(page):
    page.get_by_title("Times:").click()  # UTC
    stamp = (BEGIN_NS + 36_789 * STEP_NS) // 1_000_000
    go_to(page, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(stamp // 1000)))
    expect(page.locator(".line.current")).to_be_in_viewport()
    assert int(page.locator(".line.current .line-number").inner_text().replace(",", "")) > 36_000
    box = page.get_by_role("scrollbar").bounding_box()
    page.mouse.click(box["x"] + 5, box["y"] + box["height"] / 2)
    wait_on_page(page, lambda: abs(first_visible(page) - LENGTH // 2) < LENGTH // 50)


@pytest.mark.full
def test_the_wheel_reads_on_without_a_gap(page):
    go_to(page, "25,000")
    expect(page.locator(".line.current")).to_be_in_viewport()
    box = page.locator(".log-lines").bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 100)
    for direction in (1, -1):
        before = first_visible(page)
        for _ in range(30):
            page.mouse.wheel(0, 400 * direction)
            page.wait_for_timeout(5)
        wait_on_page(page, lambda: (first_visible(page) - before) * direction > 400)  # noqa: B023
        numbers = drawn_numbers(page)
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


@pytest.mark.full
def test_errors_follow_each_other(page):
    current = page.locator(".line.current .line-number")
    page.keyboard.press("Home")
    expect(number(page, 1)).to_be_in_viewport()
    for key, line in (("e", 5_000), ("e", 10_000), ("E", 5_000)):
        page.keyboard.press(key)
        expect(current).to_have_text(f"{line:,}")
    page.keyboard.press("E")
    expect(page.get_by_text("There is no error above.")).to_be_visible()


def test_a_literal_and_an_expression_are_found_in_the_whole_log(page):
    find = page.get_by_label("Find in the log")
    page.keyboard.press("/")
    expect(find).to_be_focused()
    page.keyboard.type("LOSS NaN")
    expect(page.locator(".line.current mark")).to_have_text("loss nan")
    expect(page.locator(".line.current .line-number")).to_have_text(f"{LENGTH * 2 // 3:,}")
    expect(page.get_by_label("Searched share of the log")).to_have_count(0)
    expect(page.locator(".log-status")).to_contain_text(re.compile(r"^33,3[0-9]{2}"))
    take_picture(page, "log-hit")
    page.get_by_title("regular expression").click()
    find.fill(r"error at step (5|[1234][05])000$")
    expect(page.locator(".log-count")).to_contain_text("/9")
    page.get_by_role("button", name="only hits").click()
    expect(page.locator(".line")).to_have_count(9)
    find.fill("(")
    expect(page.get_by_role("alert")).to_contain_text("q must be a regular expression")


@pytest.mark.full
def test_the_first_hit_is_one_click_also_where_only_hits_are_shown(page):
    current = page.locator(".line.current .line-number")
    page.get_by_label("Find in the log").fill("step")
    expect(current).to_be_visible()
    page.get_by_role("button", name="First hit").click()
    expect(current).to_have_text(re.compile("^[1-9]$"))
    page.get_by_role("button", name="only hits").click()
    expect(page.get_by_text("lines have a hit than the 10,000 listed")).to_be_visible()
    lines = page.locator(".log-lines")
    page.keyboard.press("End")
    wait_on_page(page, lambda: first_visible(page) > 9_000)
    page.keyboard.press("Home")
    wait_on_page(page, lambda: first_visible(page) < 10)
    page.get_by_role("button", name="Next hit").click()
    page.get_by_role("button", name="Next hit").click()
    expect(lines.locator(".line.current")).to_be_in_viewport()


@pytest.mark.full
def test_the_address_restores_the_view(page, simulated, visit, long_log):
    page.get_by_label("Least severity").select_option("ERROR")
    expect(page.locator(".line")).to_have_count(10)
    page.get_by_label("Task").select_option("workerpool1-0")
    expect(page.locator(".log-status")).to_contain_text("lines that match the filters")
    other = visit(simulated).open(page.url)
    expect(other.get_by_label("Least severity")).to_have_value("ERROR")
    expect(other.locator(".line-task").first).to_have_text("workerpool1-0")
    page.get_by_label("Least severity").select_option("")
    page.get_by_label("Task").select_option("")
    number(page, LENGTH - 2).click()
    stamp = BEGIN_NS + (LENGTH - 2) * STEP_NS
    expect(page).to_have_url(re.compile(f"stamp={stamp}"))
    linked = visit(simulated).open(job_path(long_log, f"?stamp={stamp}"))
    expect(linked.locator(".line.current .line-number")).to_have_text(f"{LENGTH - 2:,}")


@pytest.mark.full
def test_a_download_has_the_lines_that_match(page, tmp_path):
    page.get_by_label("Least severity").select_option("ERROR")
    expect(page.locator(".line")).to_have_count(10)
    page.get_by_title("Download the lines").click()
    with page.expect_download() as saving:
        page.get_by_role("button", name="Text", exact=True).click()
    saving.value.save_as(tmp_path / "log.txt")
    lines = (tmp_path / "log.txt").read_text().splitlines()
    assert lines == [f"CUDA error at step {n}" for n in range(5_000, LENGTH + 1, 5_000)]


def test_a_follower_misses_no_line_and_holds_when_it_scrolls_up(simulated, visit):
    name, uid = started(simulated, "growing")
    log = WrittenLog(simulated, uid)
    log.add([f"tick {n}" for n in range(1, 201)])
    page = visit(simulated).open(job_path(name))
    expect(number(page, 200)).to_be_in_viewport()
    for end in (350, 2900, 2901):
        log.add([f"tick {n}" for n in range(log.count + 1, end + 1)])
        expect(number(page, end)).to_be_in_viewport()
    numbers = drawn_numbers(page)
    assert numbers == list(range(numbers[0], 2902))
    box = page.locator(".log-lines").bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 100)
    page.mouse.wheel(0, -300)
    expect(page.locator(".log-follow")).to_have_text("○ follow")
    held = first_visible(page)
    log.add([f"tick {n}" for n in range(2902, 3400)])
    page.wait_for_timeout(1500)
    assert first_visible(page) == held
    page.keyboard.press("f")
    expect(number(page, 3399)).to_be_in_viewport()


@pytest.mark.full
def test_the_log_of_a_program_is_read_searched_and_followed(local, visit):
    """J3 to J5 on three real replicas, which write while the page is open."""
    count = 20_000
    name = submit(local, trainer_job("real", f"lines={count}", workers=2))
    page = visit(local).open(job_path(name))
    expect(page.locator(".line-text", has_text=f"tick {count + 3}").first).to_be_in_viewport()
    page.get_by_label("Find in the log").fill("loss nan")
    expect(page.locator(".log-count")).to_contain_text("/3")
    current = page.locator(".line.current")
    expect(current.locator("mark")).to_have_text("loss nan")
    expect(current).to_contain_text(f"step {count * 2 // 3}")
    page.get_by_label("Task").select_option("workerpool1-0")
    expect(page.locator(".log-count")).to_contain_text("/1")
    page.get_by_label("Find in the log").fill("")
    page.get_by_label("Task").select_option("")
    go_to(page, f"{count:,}")
    expect(current.locator(".line-number")).to_have_text(f"{count:,}")
    held = first_visible(page)
    take_picture(page, "log-local")
    page.wait_for_timeout(1500)
    assert first_visible(page) == held
    page.keyboard.press("f")
    expect(page.locator(".log-follow")).to_have_text("● following")
    for _ in range(2):
        last = max(drawn_numbers(page))
        expect(number(page, last + 3)).to_be_in_viewport()
    numbers = drawn_numbers(page)
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    local.call("POST", f"/v1/{name}:cancel", {})
    local.wait_for(f"/v1/{name}", {"JOB_STATE_CANCELLED"})


HOSTILE = (
    ("<img src=x onerror=alert(1)><script>alert(2)</script>",) * 2,
    ("bell \x07 nul \x00", "bell ⟨BEL⟩ nul ⟨NUL⟩"),
    ("cut \x1b[3", "cut ⟨ESC⟩[3"),
    ("\x1b]8;;javascript:alert(1)\x1b\\here\x1b]8;;\x1b\\", "here"),
    ("50%|##  |\r100%|####| done", "100%|####| done"),
    ("right \u202egnp.exe", "right ⟨RLO⟩gnp.exe"),
    ("lone \ud800", "lone \ufffd"),
    ("javascript:alert(1) data:text/html,x",) * 2,
)


def test_hostile_lines_stay_text(simulated, visit):
    name, uid = started(simulated, "hostile")
    log = WrittenLog(simulated, uid)
    log.add([text for text, _ in HOSTILE])
    log.add(["\x1b[31mred\x1b[0m see https://example.test/a.", "x" * 10_000_000])
    log.tear()
    visitor = visit(simulated)
    visitor.context.on("dialog", lambda dialog: pytest.fail(f"a dialog: {dialog.message}"))
    page = visitor.open(job_path(name))
    expect(page.locator(".line-text").first).to_have_text(HOSTILE[0][1])
    shown = page.locator(".line:not(.service) .line-text").all_text_contents()
    assert shown[: len(HOSTILE)] == [text for _, text in HOSTILE]
    assert page.locator(".line a:not(.line-number)").all_inner_texts() == ["https://example.test/a"]
    assert page.locator(".ansi-front-1").inner_text() == "red"
    page.get_by_role("button", name=re.compile(r"more$")).click()
    expect(page.get_by_role("dialog").get_by_text("only the download has")).to_be_visible()
    take_picture(page, "log-hostile")


@pytest.mark.full
def test_a_log_of_several_attempts_shows_each_and_says_what_is_damaged(simulated, visit):
    name, uid = started(simulated, "restarted")
    first, second = WrittenLog(simulated, uid), WrittenLog(simulated, uid, attempt=2)
    first.add([f"first {n}" for n in range(1, 401)])
    first.tear()
    second.count = 1000  # its lines are later
    second.add(["second 1"])
    second.add_bytes(b"\0\xff damaged\n")
    second.add([f"second {n}" for n in range(2, 401)], severity="ERROR")
    page = visit(simulated).open(job_path(name))
    expect(page.locator(".line-text", has_text="second 400")).to_be_in_viewport()
    expect(number(page, 801)).to_be_in_viewport()
    go_to(page, "402")
    expect(page.locator(".line.current .line-text")).to_contain_text("10 bytes cannot be read")
    expect(page.locator(".log-mark.restart")).to_have_count(1)
    page.get_by_label("Attempt").select_option("1")
    expect(page.locator(".line-text", has_text="first 400")).to_be_in_viewport()
    expect(page.locator(".log-status")).to_contain_text("of 400 lines")
    expect(page.locator(".line-text", has_text="second")).to_have_count(0)
    page.get_by_label("Find in the log").fill("first 7")
    expect(page.locator(".log-count")).to_contain_text("/11")


@pytest.mark.full
def test_a_task_without_lines_says_so_and_another_shows_its_lines(simulated, visit):
    name, uid = started(simulated, "one-sided")
    log = WrittenLog(simulated, uid)
    log.add([f"only {n}" for n in range(300)], task="workerpool0-0")
    page = visit(simulated).open(job_path(name, "?task=workerpool1-1"))
    expect(page.get_by_text("No line matches the filters.")).to_be_visible()
    page.get_by_label("Task").select_option("workerpool0-0")
    expect(page.locator(".line-text", has_text="only 299")).to_be_in_viewport()


@pytest.mark.full
def test_a_pruned_and_an_empty_log_say_so(simulated, visit):
    name, uid = started(simulated, "pruned")
    page = visit(simulated).open(job_path(name, "?task=workerpool0-0"))
    expect(page.get_by_text("No line matches the filters.")).to_be_visible()
    log = WrittenLog(simulated, uid)
    log.add([f"old {n}" for n in range(100)])
    log.begin_segment()
    log.add([f"new {n}" for n in range(50)])
    log.remove_segment(1)
    page = visit(simulated).open(job_path(name))
    expect(number(page, 50)).to_be_visible()
    expect(page.get_by_text("older lines were removed")).to_be_visible()
