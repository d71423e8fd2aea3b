"""A command on a terminal of its own, and the screen as a person would see it."""

import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

_CONTROL = re.compile(r"\x1b\[(\??)([0-9;]*)([A-Za-z])|\r?\n|[^\x1b\r\n]+|\r")
_CLEAR_BELOW = "\x1b[J"
ANSWER_S_MAX = 120


class Terminal:
    """Runs a command on a pseudo-terminal until the block ends."""

    def __init__(self, argv, *, env, lines=24, columns=100):
        self._end, inner = pty.openpty()
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(inner, termios.TIOCSWINSZ, size)
        self.process = subprocess.Popen(
            [str(word) for word in argv],
            stdin=inner, stdout=inner, stderr=inner, close_fds=True, start_new_session=True,
            env={**env, "TERM": "xterm", "LINES": "", "COLUMNS": ""},
        )  # fmt: skip
        os.close(inner)
        self.text = ""
        self._bytes = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._end)

    def wait_until(self, holds):
        """Read until something holds of the screen as it was last drawn whole; gives that."""
        deadline = time.monotonic() + ANSWER_S_MAX
        while not holds(lines := self._render_last_frame()):
            assert time.monotonic() < deadline, self.screen()
            assert self._read() or holds(self._render_last_frame()), self.screen()
        return lines

    def _render_last_frame(self):
        """A drawing comes in pieces, line by line; its end clears what is below it."""
        return self._render("".join(self.text.rpartition(_CLEAR_BELOW)[:2]))

    def wait(self):
        """Read to the end; the exit code."""
        while self._read():
            pass
        return self.process.wait(timeout=ANSWER_S_MAX)

    def screen(self):
        """The lines that are on the screen."""
        return self._render(self.text)

    def _render(self, text):
        """This terminal knows the few controls that are used."""
        rows, row = [""], 0
        for match in _CONTROL.finditer(text):
            control, letter = match[0], match[3]
            if control in ("\n", "\r\n"):
                row += 1
                rows += [""] * (row + 1 - len(rows))
            elif letter == "F":
                row -= int(match[2])
                assert row >= 0, "it goes up beyond its own beginning"
                rows[row] = _Overwritten(rows[row])
            elif letter == "J":
                rows[row:] = [""]
            elif letter is None and control != "\r":
                before = "" if isinstance(rows[row], _Overwritten) else rows[row]
                rows[row] = before + control
            if letter == "K":  # what was not written over is gone
                following = rows[row + 1 : row + 2]
                rows[row + 1 : row + 2] = [_Overwritten(line) for line in following]
        return [str(line) for line in rows]

    def _read(self):
        ready, _, _ = select.select([self._end], [], [], ANSWER_S_MAX)
        piece = b""
        with contextlib.suppress(OSError):  # the other end is closed
            piece = os.read(self._end, 1 << 16) if ready else b""
        self._bytes += piece
        self.text = self._bytes.decode("utf-8", "replace")
        return bool(piece)


class _Overwritten(str):
    """A line that the next text replaces."""

    __slots__ = ()
