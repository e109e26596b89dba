"""Reads recordings line by line, plain or gzip, also such as were cut in the middle; a file of any size."""

from __future__ import annotations

import os
import select
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .lines import LINE_BYTES_MAX, Header, Line, RecordingError, decode

CHUNK_BYTES = 1 << 18
GZIP_MAGIC = b"\x1f\x8b"
_GZIP = 31
"""zlib's `wbits` of a gzip stream."""


class Reader:
    """The reader of a recording's file; ``-`` is the standard input.

    ``header`` is known after the first line, ``cut`` after the last.

    ``cut``: the file ends within a line, or within what is compressed, as that of a recorder that was killed does. All
    whole lines before it are read. ``idle`` is called again and again while a pipe has nothing to be read; when it
    answers no, that was the end.
    """

    def __init__(self, path: str, idle: Callable[[], bool] | None = None) -> None:
        self.path = path
        self._idle = idle
        self.header: Header | None = None
        self.cut = False
        self._line = 0

    def __iter__(self) -> Iterator[Line]:
        """Yield every line after the header; raise RecordingError, which names file and line."""
        for data in self._lines():
            self._line += 1
            try:
                line = decode(data)
            except RecordingError as error:
                raise self._error(str(error)) from None
            if self._line == 1:
                if not isinstance(line, Header):
                    raise self._error("the first line is no header of a recording")
                self.header = line
            elif not isinstance(line, Header):
                yield line
            # Recordings that were joined with `cat` have headers in the middle.
        if self.header is None:
            raise RecordingError(f"{self.path} is empty: it has no header of a recording")

    def _lines(self) -> Iterator[bytes]:
        rest: list[bytes] = []
        size = 0
        for data in self._plain():
            head, *others = data.split(b"\n")
            rest.append(head)
            size += len(head)
            if size > LINE_BYTES_MAX:
                raise self._error(f"more than {LINE_BYTES_MAX} bytes without an end: this is no recording", ahead=1)
            if others:
                yield b"".join(rest)
                *whole, last = others
                yield from whole
                rest, size = [last], len(last)
        self.cut = self.cut or size > 0

    def _plain(self) -> Iterator[bytes]:
        """Yield the file's bytes, unpacked where they are packed."""
        chunks = self._chunks()
        first = next(chunks, b"")
        if not first.startswith(GZIP_MAGIC):
            yield first
            yield from chunks
            return
        unpacker = zlib.decompressobj(_GZIP)
        data = first
        while True:
            try:
                # Little packed may be much unpacked: it is taken a piece at a time.
                piece = unpacker.decompress(data, CHUNK_BYTES)
            except zlib.error as error:
                raise self._error(f"what is compressed is damaged: {error}", ahead=1) from None
            if piece:
                yield piece
            data = unpacker.unconsumed_tail or unpacker.unused_data
            if unpacker.eof:
                data = data or next(chunks, b"")
                if not data:
                    return
                unpacker = zlib.decompressobj(_GZIP)
            elif not data and not piece:
                data = next(chunks, b"")
                if not data:
                    self.cut = True
                    return

    def _chunks(self) -> Iterator[bytes]:
        with self._opened() as fd:
            while True:
                while self._idle is not None and not select.select([fd], [], [], 0)[0]:
                    if not self._idle():
                        return
                try:
                    data = os.read(fd, CHUNK_BYTES)
                except OSError as error:
                    raise RecordingError(f"{self.path}: {error.strerror}") from None
                if not data:
                    return
                yield data

    @contextmanager
    def _opened(self) -> Iterator[int]:
        if self.path == "-":
            yield sys.stdin.fileno()
            return
        try:
            fd = os.open(self.path, os.O_RDONLY)
        except OSError as error:
            raise RecordingError(f"{self.path}: {error.strerror}") from None
        try:
            yield fd
        finally:
            os.close(fd)

    def _error(self, why: str, ahead: int = 0) -> RecordingError:
        return RecordingError(f"{self.path}, line {self._line + ahead}: {why}")
