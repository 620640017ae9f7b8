/* SPDX-License-Identifier: BSD-3-Clause */
/* uroce top on a terminal. */
#include <curses.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "top.h"

enum {
	LINE_BYTES = 512,
	HEAD_LINES = 4,
	NARROW = 120,       /* columns that the long form of the first line needs */
	KEY_ESCAPE = 27,
	KEY_RUBOUT = 127,
};

struct screen {
	struct top *top;
	size_t first;       /* row at the top */
	bool paused, typing, help;
	char filter[TOP_NAME_BYTES]; /* while it is typed */
	char err[256];      /* why there is nothing new */
	bool blocks;        /* the terminal can show block elements */
};

/* The history as bars of eight heights; each row has a scale of its own. */
static void
draw_history(const struct screen *s, const struct top_row *r, int bars_shown)
{
	static const char *const bars[] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	static const char ascii[] = " ..--==##";
	float most = 0;

	for (int i = 0; i < TOP_HISTORY; i++)
		most = fmaxf(most, r->history[i]);
	for (int i = TOP_HISTORY - bars_shown; i < TOP_HISTORY; i++) {
		int level = most > 0 ? (int)ceilf(r->history[i] / most * 8) : 0;

		if (s->blocks)
			addstr(bars[level]);
		else
			addch((chtype)ascii[level]);
	}
}

static void
draw_sum(const struct screen *s)
{
	const struct top *t = s->top;
	double tx = 0, rx = 0, losses = 0, again = 0;
	char a[16], b[16];
	size_t busy = 0;

	for (size_t i = 0; i < t->n; i++) {
		tx += t->rows[i].value[TOP_TX_BPS];
		rx += t->rows[i].value[TOP_RX_BPS];
		losses += t->rows[i].value[TOP_LOSSES];
		again += t->rows[i].value[TOP_RETRANSMITTED];
		busy += t->rows[i].value[TOP_TX_BPS] + t->rows[i].value[TOP_RX_BPS] > 0 || t->rows[i].value[TOP_LOAD] > 0;
	}
	mvprintw(0, 0, COLS < NARROW ? "uroce top: %zu %s%s, %zu busy  TX %.3f  RX %.3f Gb/s  lost %s/s  resent %s/s"
				     : "uroce top: %zu %s%s, %zu busy   TX %.3f Gb/s   RX %.3f Gb/s   losses %s/s   retransmitted %s/s   (%.0f ms)", t->n,
		 t->view == TOP_QP ? "QP" : top_views[t->view], t->n == 1 ? "" : "s", busy, tx / 1e9, rx / 1e9, with_prefix(losses, a, sizeof(a)),
		 with_prefix(again, b, sizeof(b)), t->fetch_ms);
	clrtoeol();
}

static const char *
sort_name(const struct top *t)
{
	for (size_t i = 0; i < top_nb_columns; i++)
		if (top_columns[i].value == t->sort)
			return top_columns[i].head;
	return "";
}

static void
draw_state(const struct screen *s)
{
	const struct top *t = s->top;

	move(1, 0);
	if (s->err[0] != '\0')
		printw("%s", s->err);
	else if (s->typing)
		printw("filter: %s_", s->filter);
	else if (s->help)
		printw("v view, < > sort, / filter, space pause, arrows scroll, q quit");
	else
		printw("by %s%s%s%s   v: next view   h: keys   q: quit", sort_name(t), t->filter[0] != '\0' ? ", only " : "", t->filter, s->paused ? "   PAUSED" : "");
	clrtoeol();
	move(2, 0);
	clrtoeol();
}

/* A line of text with the history of @p r, or its head, behind the name. */
static void
draw_line(const struct screen *s, int y, const char *line, const struct top_layout *l, const struct top_row *r)
{
	int name = (int)(l->number + 1 + l->program);

	mvaddnstr(y, 0, line, COLS < name ? COLS : name);
	if (l->history > 0) {
		addch(' ');
		if (r != NULL)
			draw_history(s, r, (int)l->history);
		else
			printw("%*s", (int)l->history, "HISTORY");
	}
	if (COLS > getcurx(stdscr) && getcury(stdscr) == y && (int)strlen(line) > name)
		addnstr(line + name, COLS - getcurx(stdscr));
}

static void
draw(struct screen *s)
{
	struct top *t = s->top;
	struct top_layout l;
	char line[LINE_BYTES];
	int y = HEAD_LINES;
	size_t skipped = 0;

	top_lay_out(t, (unsigned int)COLS, TOP_HISTORY, &l);
	erase();
	draw_sum(s);
	draw_state(s);
	top_head(t, &l, line, sizeof(line));
	attron(A_REVERSE);
	draw_line(s, HEAD_LINES - 1, line, &l, NULL);
	attroff(A_REVERSE);
	for (size_t i = 0; i < t->n && y < LINES; i++) {
		if (!top_shows(t, &t->rows[i]) || skipped++ < s->first)
			continue;
		top_line(t, &t->rows[i], &l, line, sizeof(line));
		draw_line(s, y++, line, &l, &t->rows[i]);
	}
	refresh();
}

/* Sort by the next column of the view in one direction. */
static void
change_sort(struct top *t, int step)
{
	size_t at = 0;

	while (at < top_nb_columns && top_columns[at].value != t->sort)
		at++;
	do
		at = (at + top_nb_columns + (size_t)step) % top_nb_columns;
	while ((top_columns[at].views & 1u << t->view) == 0 || top_columns[at].name == NULL);
	t->sort = top_columns[at].value;
	top_sort(t);
}

static void
change_view(struct screen *s)
{
	struct top *t = s->top;

	top_clear(t);
	t->view = (enum top_view)((t->view + 1) % TOP_VIEWS);
	t->sort = t->view == TOP_ENGINE ? TOP_LOAD : TOP_TX_BPS;
	s->first = 0;
}

static void
type(struct screen *s, int key)
{
	size_t n = strlen(s->filter);

	if (key == '\n' || key == KEY_ENTER) {
		s->typing = false;
		snprintf(s->top->filter, sizeof(s->top->filter), "%s", s->filter);
	} else if (key == KEY_ESCAPE) {
		s->typing = false;
	} else if ((key == KEY_BACKSPACE || key == KEY_RUBOUT || key == '\b') && n > 0) {
		s->filter[n - 1] = '\0';
	} else if (key >= ' ' && key <= '~' && n + 1 < sizeof(s->filter)) {
		s->filter[n] = (char)key;
		s->filter[n + 1] = '\0';
	}
}

/* @return false: the user wants to end. @p now  Set if the rows have to be fetched at once. */
static bool
on_key(struct screen *s, int key, bool *now)
{
	if (s->typing) {
		type(s, key);
		return true;
	}
	switch (key) {
	case 'q':
		return false;
	case 'v':
	case '\t':
		change_view(s);
		*now = true;
		break;
	case '<':
	case KEY_LEFT:
		change_sort(s->top, -1);
		break;
	case '>':
	case KEY_RIGHT:
		change_sort(s->top, 1);
		break;
	case '/':
		s->typing = true;
		s->filter[0] = '\0';
		break;
	case ' ':
	case 'p':
		s->paused = !s->paused;
		break;
	case 'h':
	case '?':
		s->help = !s->help;
		break;
	case KEY_DOWN:
		s->first += s->first + 1 < s->top->n;
		break;
	case KEY_UP:
		s->first -= s->first > 0;
		break;
	case KEY_NPAGE:
		s->first += s->first + (size_t)LINES < s->top->n ? (size_t)LINES : 0;
		break;
	case KEY_PPAGE:
		s->first -= s->first > (size_t)LINES ? (size_t)LINES : s->first;
		break;
	case 'L' & 0x1f: /* as everywhere: the terminal shows something else */
		clearok(stdscr, TRUE);
		break;
	case KEY_HOME:
		s->first = 0;
		break;
	default:
		break;
	}
	return true;
}

static int64_t
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static volatile sig_atomic_t ended;

static void
on_signal(int sig)
{
	ended = 1;
}

int
top_screen(struct top *t)
{
	struct screen s = { .top = t };
	int64_t next = 0, wait;
	unsigned int screens = 0;
	int key;
	bool now;

	s.blocks = setlocale(LC_ALL, "") != NULL && strcasestr(setlocale(LC_CTYPE, NULL), "UTF-8") != NULL;
	/* A first look: if there is no daemon, the terminal stays as it is. */
	if (!top_update(t, s.err, sizeof(s.err)))
		return s.err[0] != '\0' ? fail("%s", s.err) : EXIT_FAILED;
	if (newterm(NULL, stdout, stdin) == NULL)
		return fail("this terminal ($TERM) is unknown; --batch works without");
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	cbreak();
	noecho();
	curs_set(0);
	keypad(stdscr, TRUE);
	set_escdelay(25);
	do {
		now = false;
		if (now_ms() >= next) {
			if (!s.paused && top_update(t, s.err, sizeof(s.err)))
				s.err[0] = '\0';
			next = now_ms() + (int64_t)(options.delay * 1000);
			if (options.count > 0 && ++screens >= options.count)
				ended = 1;
		}
		draw(&s);
		wait = next - now_ms();
		timeout(wait > 0 ? (int)wait : 0);
		key = getch();
		if (key != ERR && !on_key(&s, key, &now))
			break;
		if (now)
			next = 0;
	} while (!ended);
	endwin();
	return 0;
}
