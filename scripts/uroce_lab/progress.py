# SPDX-License-Identifier: BSD-3-Clause
"""How far long work is: one line that is redrawn on a terminal, nothing on a pipe or in a file."""

import shutil
import sys
import time

BAR = 20                    # columns of the bar
REDRAW_SECONDS = 0.1


class Progress:
    """Of work in `total` steps. Use it in a with block: the line goes at its end."""

    def __init__(self, total, out=None):
        self.total, self.done = total, 0
        self.out = out or sys.stderr
        self.shown = self.out.isatty()
        self.start = time.monotonic()
        self.drawn, self.width = None, 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.clear()

    def step(self, what):
        """The next step begins; `what` says which it is."""
        self.draw(what)
        self.done += 1

    def update(self, done, what):
        """`done` of `total` are done. May be called often."""
        self.done = done
        if self.drawn is None or time.monotonic() - self.drawn >= REDRAW_SECONDS or done >= self.total:
            self.draw(what)

    def left(self):
        """@return how long the rest takes if it goes on like this, as text; '' at the beginning"""
        seconds = time.monotonic() - self.start
        if not self.done or seconds < 1:
            return ''
        rest = round(seconds / self.done * (self.total - self.done))
        return f'{rest // 60}:{rest % 60:02d} left'

    def draw(self, what):
        if not self.shown:
            return
        full = BAR * min(self.done, self.total) // max(self.total, 1)
        line = f'[{"#" * full}{"." * (BAR - full)}] {min(self.done + 1, self.total)}/{self.total} {what}  {self.left()}'
        columns = shutil.get_terminal_size().columns - 1
        line = line.rstrip()[:columns]
        self.out.write('\r' + line.ljust(min(self.width, columns)))
        self.out.flush()
        self.width, self.drawn = len(line), time.monotonic()

    def clear(self):
        """Take the line away, before something else is printed."""
        if self.shown and self.width:
            self.out.write('\r' + ' ' * self.width + '\r')
            self.out.flush()
            self.width = 0
