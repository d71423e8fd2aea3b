"""Parses multipart/related uploads: a JSON document, then the bytes of the file.

gcloud and gcsfs end lines with a bare LF, google-cloud-storage with CRLF; gcloud puts the boundary
in single quotes that are not part of it (docs/sources/gcloud.md 4).  The bytes are the last part,
and end at the last delimiter of the body.  So a file that contains the delimiter is stored
unchanged (gcsfs always uses the same delimiter).
"""

import re
from typing import Any

from trainshed.wire.storage_v1.requests import BadStorageRequest, document_of

HEAD_BYTES_MAX = 1 << 20
"""The most bytes before the file: the document and the headers of both parts."""

_BOUNDARY = re.compile(r"""boundary\s*=\s*(?:"([^"]+)"|'([^']+)'|([^\s;,]+))""", re.IGNORECASE)
_TYPE = re.compile(rb"^content-type[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE | re.MULTILINE)
_ENCODING = re.compile(
    rb"^content-transfer-encoding[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE | re.MULTILINE
)
#: Characters that may follow the last delimiter.
_BLANK = b" \t\r\n"
_BLANK_MAX = 64


def boundary_of(content_type: str) -> bytes:
    """Return the boundary of a Content-Type.  Raises BadStorageRequest if it has none."""
    match = _BOUNDARY.search(content_type)
    if not content_type.lower().startswith("multipart/related") or match is None:
        raise BadStorageRequest(
            "the Content-Type of a multipart upload must be multipart/related; boundary=..., got "
            f"{content_type[:100]!r}"
        )
    return next(part for part in match.groups() if part).encode("latin-1", "replace")


class MultipartReader:
    """Parses one body in pieces; holds at most ``HEAD_BYTES_MAX`` and a short tail in memory.

    ``document`` and ``content_type`` (of the file) are set once ``feed`` has returned bytes, and
    always after ``finish``.
    """

    def __init__(self, boundary: bytes) -> None:
        """Start a body whose delimiter lines are ``--boundary``."""
        self._mark = b"--" + boundary
        self._held = b""
        self._line_end = b""
        self.document: dict[str, Any] = {}
        self.content_type = ""

    def feed(self, piece: bytes) -> bytes:
        """Add a piece of the body; return the bytes of the file that are complete.

        Raises BadStorageRequest for a malformed body.
        """
        self._held += piece
        if not self._line_end and not self._read_head():
            if len(self._held) > HEAD_BYTES_MAX:
                raise BadStorageRequest(
                    f"the JSON document and the headers of both parts must have at most "
                    f"{HEAD_BYTES_MAX} bytes together"
                )
            return b""
        certain = max(0, len(self._held) - len(self._end) - _BLANK_MAX)
        out, self._held = self._held[:certain], self._held[certain:]
        return out

    def finish(self) -> bytes:
        """Return the last bytes of the file.  Raises BadStorageRequest for an incomplete body."""
        at = self._held.rfind(self._end) if self._line_end else -1
        if at < 0 or self._held[at + len(self._end) :].strip(_BLANK):
            raise BadStorageRequest("the multipart body ends before its last boundary")
        return self._held[:at]

    @property
    def _end(self) -> bytes:
        return self._line_end + self._mark + b"--"

    def _read_head(self) -> bool:
        """Parse the body up to the first byte of the file; False if that has not arrived yet."""
        line_end, start = self._first_line()
        close = line_end + self._mark
        between = self._held.find(close, start) if start else -1
        if between < 0:
            return False
        second = _line(self._held, between + len(close), line_end)
        headers, at = _headers(self._held, second, line_end) if second else (b"", 0)
        if not at:
            return False
        _, json_at = _headers(self._held, start, line_end)
        if not 0 < json_at <= between + len(line_end):
            raise BadStorageRequest(
                "the first part of the upload must have a blank line after its headers"
            )
        self.document = document_of(self._held[json_at:between], "The first part")
        self.content_type = _header(_TYPE, headers)
        if _header(_ENCODING, headers).lower() not in ("", "binary", "8bit", "7bit"):
            raise BadStorageRequest(
                "the Content-Transfer-Encoding of the second part must be binary"
            )
        self._held, self._line_end = self._held[at:], line_end
        return True

    def _first_line(self) -> tuple[bytes, int]:
        """Return the line end of the body and the offset of the first part; 0 if incomplete."""
        text = self._held.lstrip(b"\r\n")
        skipped = len(self._held) - len(text)
        end = text.find(b"\n")
        if not self._mark.startswith(text[: len(self._mark)]):
            raise BadStorageRequest(
                "the multipart body must begin with the boundary of its Content-Type"
            )
        if end < 0:
            return b"", 0
        if text[len(self._mark) : end].strip(_BLANK):
            raise BadStorageRequest(
                "the multipart body must begin with the boundary of its Content-Type"
            )
        return (b"\r\n" if text[:end].endswith(b"\r") else b"\n"), skipped + end + 1


def _line(text: bytes, at: int, line_end: bytes) -> int:
    """Return the offset of the line after a delimiter; 0 if it has not arrived yet."""
    end = text.find(line_end, at)
    if text[at : max(end, at + 2)].lstrip(b" \t").startswith(b"--"):
        raise BadStorageRequest(
            "a multipart upload must have two parts: a JSON document, then the bytes"
        )
    return end + len(line_end) if end >= 0 else 0


def _headers(text: bytes, start: int, line_end: bytes) -> tuple[bytes, int]:
    """Return the headers of a part and the offset of its content; 0 if incomplete."""
    if text.startswith(line_end, start):
        return b"", start + len(line_end)
    end = text.find(line_end * 2, start)
    return (text[start:end], end + 2 * len(line_end)) if end >= 0 else (b"", 0)


def _header(pattern: re.Pattern[bytes], headers: bytes) -> str:
    match = pattern.search(headers)
    return match[1].decode("latin-1").strip() if match else ""
