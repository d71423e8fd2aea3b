"""Record README's terminal: run commands on a pseudo-terminal, draw them as an animated SVG.

    .venv/bin/python scripts/record_terminal.py                # docs/images/first-run.svg
    .venv/bin/python scripts/record_terminal.py --out a.svg --cast a.cast

It runs in a copy of examples/torch-ddp and takes half a minute.  Pauses and the paths of this
machine are shortened, nothing else is changed.  `--cast` also writes the recording as an asciicast,
for `asciinema play`.  An SVG needs no script and no player: a browser animates it, and a program
that does not shows the last screen.
"""

import argparse
import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
EXAMPLE: Final = ROOT / "examples" / "torch-ddp"
TRAIN: Final = (
    "trainshed ai-platform local train --config config.yaml "
    "--module-name trainer.task --package-path trainer -- --epochs 5"
)
COMMANDS: Final = (
    "trainshed validate config.yaml",
    "sed -i s/workerTyp:/workerType:/ config.yaml",
    "trainshed validate config.yaml",
    TRAIN,
)
COLUMNS: Final = 104
ROWS: Final = 24
PAUSE_S_MAX: Final = 1.0
TYPING_S: Final = 0.8
#: How long the last screen stays before the recording starts again.
END_S: Final = 5.0
CHARACTER_PX: Final = 8.4
ROW_PX: Final = 18.0
MARGIN_PX: Final = 14.0
FONTS: Final = "ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace"
#: SGR codes and the colours that a terminal gives them.
COLOURS: Final = {
    "2": "#8b949e", "31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "34": "#79c0ff",
    "35": "#d2a8ff", "36": "#76e3ea", "90": "#8b949e", "91": "#ffa198", "92": "#56d364",
}  # fmt: skip
SGR: Final = re.compile(r"\x1b\[([0-9;]*)m")
OTHER_CONTROL: Final = re.compile(r"\x1b\[[0-9;?]*[A-HJKSTfhilnprsu]|\x1b[=>]|\x07")


@dataclass(frozen=True)
class Line:
    """A line of the terminal and the second at which it appears; `text` keeps its SGR codes."""

    second: float
    text: str


def record(commands: Sequence[str], folder: Path) -> Iterator[Line]:
    """Run the commands one after the other and yield the lines of the terminal with their times."""
    clock = 0.5
    for command in commands:
        clock += TYPING_S
        for index, part in enumerate(_wrap(f"$ {command}")):
            yield Line(clock, part if index else f"\x1b[92m$\x1b[0m{part[1:]}")
        previous = time.monotonic()
        for line in _run(command, folder):
            now = time.monotonic()
            clock += min(now - previous, PAUSE_S_MAX)
            previous = now
            yield from (Line(clock, part) for part in _wrap(line))
        clock += 0.6


def _run(command: str, folder: Path) -> Iterator[str]:
    ours, theirs = pty.openpty()
    bin_folder = Path(sys.executable).parent
    environ = {
        **os.environ,
        "PATH": f"{bin_folder}:{os.environ['PATH']}",
        "TERM": "xterm-256color",
        "COLUMNS": str(COLUMNS),
        "LINES": str(ROWS),
        "TRAINSHED_DATA_DIR": f"{folder}/data",
    }
    process = subprocess.Popen(
        ["/bin/bash", "-c", command],
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    rest = ""
    while chunk := _read(ours):
        *lines, rest = (rest + chunk.decode(errors="replace")).split("\n")
        for line in lines:
            text = OTHER_CONTROL.sub("", line.rstrip("\r").rpartition("\r")[2])
            yield text.replace(str(ROOT), "~/trainshed").replace(str(folder), "~")
    process.wait()
    os.close(ours)


def _read(descriptor: int) -> bytes:
    select.select([descriptor], [], [])
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the last process of the terminal has ended
        return b""


def _wrap(line: str) -> list[str]:
    """Break a line where the terminal would; each part begins with the colour that it continues."""
    parts, column, code = [""], 0, ""
    for position, piece in enumerate(SGR.split(line)):
        if position % 2:
            code = f"\x1b[{piece}m"
            parts[-1] += code
            continue
        for character in piece:
            if column == COLUMNS:
                parts.append(code)
                column = 0
            parts[-1] += character
            column += 1
    return parts


def draw(lines: Sequence[Line]) -> str:
    """Return an SVG that shows each line from its second on, scrolls, and starts again."""
    length_s = lines[-1].second + END_S
    width = COLUMNS * CHARACTER_PX + 2 * MARGIN_PX
    height = ROWS * ROW_PX + 2 * MARGIN_PX + 22
    rows = "\n".join(_draw_line(index, line) for index, line in enumerate(lines))
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}">
<title>A terminal: a job file is checked, its mistake is corrected, and the job trains</title>
<style>
text{{font:14px {FONTS};fill:#e6edf3;white-space:pre}}
.b{{font-weight:bold}}
{_keyframes(lines, length_s)}
@media (prefers-reduced-motion:reduce){{*{{animation:none!important}}}}
</style>
<rect width="{width:.0f}" height="{height:.0f}" rx="8" fill="#0d1117" stroke="#30363d"/>
<circle cx="18" cy="15" r="5" fill="#ff5f56"/>
<circle cx="36" cy="15" r="5" fill="#ffbd2e"/>
<circle cx="54" cy="15" r="5" fill="#27c93f"/>
<svg y="26" height="{height - 30:.0f}" viewBox="0 0 {width:.0f} {height - 30:.0f}">
<g class="scroll" transform="translate(0 {-_scroll_px(len(lines)):.0f})">
{rows}
</g>
</svg>
</svg>
"""


def _keyframes(lines: Sequence[Line], length_s: float) -> str:
    """Lines appear, and the screen moves up where a line would be below it; all without a glide."""
    rules, steps = [], []
    for index, line in enumerate(lines):
        percent = 100 * line.second / length_s
        rules.append(
            f"@keyframes k{index}{{0%{{opacity:0}}{percent:.2f}%,100%{{opacity:1}}}}"
            f".k{index}{{animation:k{index} {length_s:.1f}s step-end infinite}}"
        )
        steps.append(f"{percent:.2f}%{{transform:translateY({-_scroll_px(index + 1):.0f}px)}}")
    start = "0%{transform:translateY(0)}"
    scroll = f".scroll{{animation:scroll {length_s:.1f}s step-end infinite}}"
    return "\n".join([*rules, f"@keyframes scroll{{{start}{''.join(steps)}}}", scroll])


def _scroll_px(count: int) -> float:
    return max(0, count - ROWS) * ROW_PX


def _draw_line(index: int, line: Line) -> str:
    y = MARGIN_PX + (index + 0.75) * ROW_PX
    spans = "".join(_draw_spans(line.text))
    return f'<text class="k{index}" xml:space="preserve" y="{y:.1f}">{spans}</text>'


def _draw_spans(text: str) -> Iterator[str]:
    """Each piece starts at its own column, so that columns align in every font."""
    column, attributes = 0, ""
    for position, piece in enumerate(SGR.split(text)):
        if position % 2:
            attributes = _attributes(piece)
        elif piece:
            x = MARGIN_PX + column * CHARACTER_PX
            length = len(piece) * CHARACTER_PX
            yield (
                f'<tspan x="{x:.1f}" textLength="{length:.1f}"{attributes}>{escape(piece)}</tspan>'
            )
            column += len(piece)


def _attributes(codes: str) -> str:
    colours = [COLOURS[code] for code in codes.split(";") if code in COLOURS]
    bold = ' class="b"' if "1" in codes.split(";") else ""
    return bold + (f' style="fill:{colours[-1]}"' if colours else "")


def write_cast(lines: Sequence[Line], path: Path) -> None:
    """Write an asciicast of version 2."""
    header = {"version": 2, "width": COLUMNS, "height": ROWS}
    events = ([round(line.second, 3), "o", line.text + "\r\n"] for line in lines)
    path.write_text("".join(json.dumps(part) + "\n" for part in [header, *events]))


def copy_example(folder: Path) -> None:
    """Copy the example and put the mistake into its config.yaml that the recording corrects."""
    shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("runs"))
    config = folder / "config.yaml"
    config.write_text(config.read_text().replace("workerType:", "workerTyp:"))


def main() -> None:
    """Record, and write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images" / "first-run.svg")
    parser.add_argument("--cast", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        copy_example(Path(name))
        lines = list(record(COMMANDS, Path(name)))
    args.out.write_text(draw(lines))
    if args.cast:
        write_cast(lines, args.cast)
    print(f"{args.out}: {len(lines)} lines, {args.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
