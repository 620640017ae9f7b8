# SPDX-License-Identifier: BSD-3-Clause
"""Plots as SVG, and pages of them: HTML files that need nothing beside them, neither scripts nor the network.

Matplotlib draws: of what Debian has, it alone makes the axes, legends and text of an SVG without a line of our own, and gnuplot would need a
language of its own in strings. It is optional; need() says which package has it.
"""

import contextlib
import html
import io
import os
import re

from . import LabError

PACKAGE = 'python3-matplotlib'
# Colours that people with any colour vision tell apart (Okabe and Ito), the same thing in the same colour on all pages.
BLUE, ORANGE, GREEN, PURPLE, RED, SKY, YELLOW, GREY = ('#0072b2', '#d55e00', '#009e73', '#a5568c', '#b2182b', '#56b4e9', '#b79f00', '#6f7a85')
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW, RED, GREY)
MARKS = 'osD^vPX*'
WIDTH, HEIGHT = 8.4, 3.4     # inches
STYLE = {'font.size': 10, 'axes.grid': True, 'grid.color': '#dfe4e9', 'axes.edgecolor': '#8496a8', 'axes.axisbelow': True,
         'axes.spines.top': False, 'axes.spines.right': False, 'legend.frameon': False, 'svg.fonttype': 'none', 'svg.hashsalt': 'uroce',
         'font.family': 'sans-serif', 'font.sans-serif': ['DejaVu Sans'], 'axes.titlesize': 11, 'figure.facecolor': 'white'}
PAGE = '''<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --ink: #1b2733; --soft: #52616f; --page: #fff; --line: #d5dce3; }}
@media (prefers-color-scheme: dark) {{ :root {{ --ink: #e4ebf2; --soft: #a5b4c2; --page: #0f161d; --line: #33414e; }} }}
body {{ font: 16px/1.5 system-ui, "DejaVu Sans", sans-serif; color: var(--ink); background: var(--page); max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
h1 {{ line-height: 1.2; }} h2 {{ margin-top: 2.5rem; }}
p.note, figcaption {{ color: var(--soft); }}
figure {{ margin: 1rem 0; }} figure svg {{ background: #fff; border-radius: 8px; width: 100%; height: auto; }}
div.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; font-variant-numeric: tabular-nums; }}
th, td {{ text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--line); }} td.number {{ text-align: right; }}
</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
'''


def need():
    """@return matplotlib, which draws without a display; LabError if it isn't installed"""
    try:
        import matplotlib
    except ImportError as e:
        raise LabError(f'a report needs matplotlib: apt-get install {PACKAGE}') from e
    matplotlib.use('svg')
    import matplotlib.pyplot
    return matplotlib


@contextlib.contextmanager
def figure(columns=1, rows=1, height=HEIGHT, **more):
    """A figure of several plots side by side. @return it and its plots"""
    matplotlib = need()
    with matplotlib.rc_context(STYLE):
        made, axes = matplotlib.pyplot.subplots(rows, columns, figsize=(WIDTH, height), layout='constrained', squeeze=False, **more)
        try:
            yield made, list(axes.flat)
        finally:
            matplotlib.pyplot.close(made)


def svg(made, title):
    """@return the figure as an SVG element, with `title` for those who don't see it"""
    out = io.StringIO()
    made.savefig(out, format='svg', metadata={'Date': None, 'Creator': None})
    text = out.getvalue()
    text = text[text.index('<svg'):]
    text = re.sub(r' <metadata>.*?</metadata>\n', '', text, flags=re.S)
    head, _, rest = text.partition('>')
    return f'{head} role="img">\n <title>{html.escape(title)}</title>{rest}'


class Page:
    """A page, part by part."""

    def __init__(self, title):
        self.title, self.parts, self.pictures = title, [], {}

    def heading(self, text):
        self.parts.append(f'<h2>{html.escape(text)}</h2>')

    def text(self, text, kind=''):
        self.parts.append(f'<p{" class=" + chr(34) + kind + chr(34) if kind else ""}>{html.escape(text)}</p>')

    def note(self, text):
        self.text(text, 'note')

    def picture(self, name, made, title, caption=''):
        """A plot; write() puts it also into NAME.svg."""
        drawn = svg(made, title)
        self.pictures[name] = drawn
        # Two SVGs on a page must not have the same ids.
        unique = re.sub(r'(\bid="|url\(#|href="#)', rf'\1{name}-', drawn)
        below = f'<figcaption>{html.escape(caption)}</figcaption>' if caption else ''
        self.parts.append(f'<figure id="plot-{name}">{unique}{below}</figure>')

    def table(self, head, rows):
        def cell(value):
            return f'<td class="number">{value}</td>' if isinstance(value, (int, float)) else f'<td>{html.escape(str(value))}</td>'

        body = ''.join(f'<tr>{"".join(map(cell, row))}</tr>' for row in rows)
        self.parts.append(f'<div class="wide"><table><thead><tr>{"".join(f"<th>{html.escape(word)}</th>" for word in head)}</tr></thead>'
                          f'<tbody>{body}</tbody></table></div>')

    def write(self, folder):
        """Write index.html and a file for each picture. @return the path of the page"""
        os.makedirs(folder, exist_ok=True)
        for name, drawn in self.pictures.items():
            with open(os.path.join(folder, f'{name}.svg'), 'w', encoding='utf-8') as f:
                f.write('<?xml version="1.0" encoding="UTF-8"?>\n' + drawn)
        path = os.path.join(folder, 'index.html')
        with open(path, 'w', encoding='utf-8') as f:
            f.write(PAGE.format(title=html.escape(self.title), body='\n'.join(self.parts)))
        return path
