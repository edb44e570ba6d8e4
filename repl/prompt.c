/* prompt.c - the prompt: read a chunk, run it, and again.
 *
 * All of the prompt is on the main thread. keys.c reads a key, editor.c changes
 * its state by it, view.c lays that out as a frame, and screen.c writes to the
 * terminal what differs from the frame before. Enter runs the text: plain.c,
 * which asks the console (ask.c) to. On a pipe there is no editor: plain.c
 * reads lines.
 *
 * The prompt is "In [3]: ", the name by which tracebacks, %history and Out know
 * the chunk; further lines begin with dots below it. The terminal is raw from
 * the prompt to Enter and as it was while code runs.
 *
 * With TIDE_EDIT_DUMP=1, behind each draw the editor's state follows as JSON in
 * an escape sequence (OSC "tide;"), so that a test can compare it with what the
 * terminal shows at that moment.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "repl/prompt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/mem.h"
#include "repl/ask.h"
#include "repl/command.h"
#include "repl/interrupt.h"
#include "repl/plain.h"
#include "repl/term.h"
#include "repl/text.h"
#include "repl/view.h"

typedef struct prompt {
  td_line *line;
  td_editor editor;
  int count;   /* chunks run */
  td_str next; /* what the next one begins as */
  bool dump;   /* the state is written too, for tests */
  long keys;   /* read so far */
  int64_t ns;  /* that the keys since the last draw took */
} prompt;

/* ---- the state, for tests ---- */

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void dump(prompt *p) {
  const td_editor *e = &p->editor;
  const td_edit_buffer *b = &e->buffer;
  const char *grey = td_edit_view_suggestion(e);
  td_str s;
  if (!p->dump) return;
  td_str_init(&s);
  td_str_addf(&s, "\033]tide;{\"keys\": %ld, \"ns\": %lld, \"cursor\": %zu",
              p->keys, (long long)p->ns,
              td_edit_text_points(td_str_c(&b->text), b->cursor));
  td_str_addf(&s, ", \"menu\": %zu, \"search\": %s, \"note\": %s, \"text\": ",
              e->menu.active ? e->menu.items.len : 0,
              e->search.active ? "true" : "false",
              e->note.len ? "true" : "false");
  td_str_json(&s, td_str_c(&b->text), b->text.len);
  td_str_add(&s, ", \"prompt\": ");
  td_str_json(&s, td_str_c(&e->prompt), e->prompt.len);
  td_str_add(&s, ", \"suggestion\": ");
  td_str_json(&s, grey ? grey : "", grey ? strlen(grey) : 0);
  td_str_add(&s, "}\a");
  if (!s.failed) td_edit_term_write(s.at, s.len);
  td_str_deinit(&s);
}

/* ---- reading ---- */

/* Where code left a line without its end, ours begins on the next one: a mark
 * and as many spaces as the terminal is wide run into it, or do not. */
static void fresh_line(td_editor *e) {
  int columns, lines;
  td_edit_term_size(&columns, &lines);
  td_str s;
  td_str_init(&s);
  td_str_add(&s, "\033[90m\u23ce\033[0m");
  for (int i = 1; i < columns; i++) td_str_addc(&s, ' ');
  td_str_add(&s, "\r\033[K");
  td_edit_term_write(td_str_c(&s), s.len);
  td_str_deinit(&s);
  td_edit_screen_fresh(&e->screen);
}

/* vi shows its mode by the cursor: a block for commands. */
static void show_mode(const td_editor *e, bool leave) {
  const char *shape = leave          ? "\033[0 q"
                      : e->vi.normal ? "\033[2 q"
                                     : "\033[6 q";
  if (e->vi.on) td_edit_term_write(shape, strlen(shape));
}

static void draw(prompt *p) {
  int64_t start = now();
  td_edit_view_draw(&p->editor);
  p->ns += now() - start;
  show_mode(&p->editor, false);
  dump(p);
  p->ns = 0;
}

/* The text as it stays on the screen, with `mark` behind it. */
static void leave_text(td_editor *e, const char *mark) {
  int columns, lines;
  td_edit_term_size(&columns, &lines);
  td_edit_view_layout(e, columns, lines, true);
  if (mark)
    td_edit_frame_text(&e->frame, TD_EDIT_STYLE_GREY, mark, strlen(mark));
  td_edit_screen_leave(&e->screen, &e->frame);
}

/* The file becomes the text, without its last newline: editors add one. */
static void read_back(td_editor *e, FILE *f) {
  td_str raw, clean;
  char part[4096];
  size_t n;
  td_str_init(&raw);
  td_str_init(&clean);
  while ((n = fread(part, 1, sizeof part, f)) > 0) td_str_addn(&raw, part, n);
  td_edit_text_clean(&clean, td_str_c(&raw), raw.len);
  if (clean.len && clean.at[clean.len - 1] == '\n') clean.len--;
  if (!raw.failed && !clean.failed)
    td_edit_command_set(e, td_str_c(&clean), clean.len, clean.len);
  td_str_deinit(&raw);
  td_str_deinit(&clean);
}

/* Runs the user's editor on the file; its exit status. */
static int run_outside(const char *path) {
  const char *visual = getenv("VISUAL"), *editor = getenv("EDITOR");
  const char *which = visual && *visual ? visual : editor;
  td_str command;
  td_str_init(&command);
  td_str_addf(&command, "%s '", which && *which ? which : "vi");
  for (; *path; path++) {
    if (*path == '\'')
      td_str_add(&command, "'\\''");
    else
      td_str_addc(&command, *path);
  }
  td_str_addc(&command, '\'');
  int rc = command.failed ? -1 : system(td_str_c(&command));
  td_str_deinit(&command);
  return rc;
}

/* Takes ownership of `f`, which is open for writing, and removes the file. */
static void edit_file(td_editor *e, FILE *f, const char *path) {
  bool ok = fwrite(td_str_c(&e->buffer.text), 1, e->buffer.text.len, f) ==
            e->buffer.text.len;
  fputc('\n', f);
  ok = fclose(f) == 0 && ok;
  td_edit_screen_wipe(&e->screen);
  td_edit_term_cooked();
  if (ok && run_outside(path) == 0 && (f = fopen(path, "r"))) {
    read_back(e, f);
    fclose(f);
  }
  unlink(path);
  td_edit_term_raw();
  fresh_line(e);
}

static void edit_outside(td_editor *e) {
  td_str path;
  td_str_init(&path);
  td_status *s = td_file_temp(".lua", &path);
  FILE *f = td_ok(s) ? fopen(td_str_c(&path), "w") : NULL;
  if (f) edit_file(e, f, td_str_c(&path));
  td_status_release(s);
  td_str_deinit(&path);
}

/* What a key asked of the terminal. */
static void act(td_editor *e, td_edit_outcome what) {
  static const char clear[] = "\033[H\033[2J";
  if (what == TD_EDIT_CLEAR) {
    td_edit_term_write(clear, sizeof clear - 1);
    td_edit_screen_fresh(&e->screen);
  } else if (what == TD_EDIT_STOP) {
    td_edit_term_stop();
    fresh_line(e);
  } else if (what == TD_EDIT_OUTSIDE) {
    edit_outside(e);
  }
}

/* The terminal has another size, or was given to others for a while. */
static void start_over(td_editor *e) {
  int columns, lines;
  td_edit_term_raw();
  td_edit_term_size(&columns, &lines);
  if (columns < e->screen.shown.columns && td_edit_term_wraps())
    td_edit_screen_wrapped(&e->screen, columns);
  td_edit_screen_wipe(&e->screen);
}

/* Keys until the text is to be run, or not. Draws when no key waits; then what
 * the history lacks is read. */
static td_edit_outcome read_keys(prompt *p) {
  td_editor *e = &p->editor;
  for (;;) {
    td_edit_key key;
    while (!e->search.active && !td_edit_keys_pending(&e->keys))
      if (!td_ask_history(p->line, &e->history)) break;
    td_edit_keys_event event = td_edit_keys_read(&e->keys, &key);
    if (event == TD_EDIT_KEYS_ENDED) return TD_EDIT_END;
    if (event == TD_EDIT_KEYS_SIGNAL) {
      start_over(e);
      draw(p);
      continue;
    }
    int64_t start = now();
    td_edit_outcome what = td_editor_key(e, &key);
    p->keys++;
    p->ns += now() - start;
    if (what == TD_EDIT_ACCEPT || what == TD_EDIT_CANCEL || what == TD_EDIT_END)
      return what;
    act(e, what);
    if (!td_edit_keys_pending(&e->keys)) draw(p);
  }
}

/* ---- the loop ---- */

static void begin(prompt *p) {
  char text[32];
  snprintf(text, sizeof text, "In [%d]: ", p->count + 1);
  td_edit_term_raw();
  fresh_line(&p->editor);
  td_editor_begin(&p->editor, text);
  if (p->next.len)
    td_edit_command_set(&p->editor, p->next.at, p->next.len, p->next.len);
  td_str_clear(&p->next);
  draw(p);
}

/* False when the code asked to leave. */
static bool execute(prompt *p) {
  td_ask_result result;
  clearerr(stdin); /* Ctrl-D at an io.read ended that one only */
  td_plain_execute(p->line, &p->editor.buffer.text, &result);
  if (result.count >= 0) p->count = result.count;
  td_str_deinit(&p->next);
  p->next = result.next;
  td_str_init(&result.next);
  bool leave = result.leave;
  td_ask_result_deinit(&result);
  return !leave;
}

static bool is_blank(const td_str *s) {
  return strspn(td_str_c(s), " \t\n") == s->len;
}

/* One chunk; false when the user leaves. */
static bool turn(prompt *p) {
  td_editor *e = &p->editor;
  td_edit_outcome what = read_keys(p);
  leave_text(e, what == TD_EDIT_CANCEL ? "^C" : NULL);
  show_mode(e, true);
  td_edit_term_cooked();
  if (what == TD_EDIT_CANCEL || what == TD_EDIT_END)
    return what == TD_EDIT_CANCEL;
  if (is_blank(&e->buffer.text)) return true;
  if (td_plain_leaves(&e->buffer.text)) return false;
  td_edit_history_add(&e->history, e->buffer.text.at, e->buffer.text.len);
  return execute(p);
}

static void greet(td_line *line) {
  td_str text;
  td_str_init(&text);
  td_ask_banner(line, &text);
  fputs(td_str_c(&text), stdout);
  fflush(stdout);
  td_str_deinit(&text);
}

static void edited(td_line *line) {
  prompt *p = td_calloc(1, sizeof *p);
  if (!p) return;
  p->line = line;
  p->dump = getenv("TIDE_EDIT_DUMP") != NULL;
  td_editor_init(&p->editor, line);
  setvbuf(stdin, NULL, _IONBF, 0); /* io.read leaves what it does not take */
  greet(line);
  begin(p);
  td_ask_history(line, &p->editor.history); /* before keys add to it */
  while (turn(p)) begin(p);
  td_str_deinit(&p->next);
  td_editor_deinit(&p->editor);
  td_str_deinit(&p->next);
  td_free(p);
}

void td_prompt_run(td_line *line) {
  td_ask_start(line);
  if (td_edit_term_able() && td_edit_term_listen())
    edited(line);
  else
    td_plain_run(line);
}

/* ---- input while code runs ---- */

/* Without echo; true when it was on. */
static bool hide(struct termios *before) {
  struct termios t;
  if (tcgetattr(0, before)) return false;
  t = *before;
  t.c_lflag &= ~(tcflag_t)ECHO;
  t.c_lflag |= ECHONL;
  return !tcsetattr(0, TCSADRAIN, &t);
}

td_host_outcome td_prompt_input(void *arg, td_line *line, const char *label,
                                bool password, td_str *out) {
  struct termios before;
  bool cancelled;
  (void)arg;
  bool hidden = password && hide(&before);
  bool got = td_plain_line(label, out, &cancelled);
  if (hidden) tcsetattr(0, TCSADRAIN, &before);
  if (cancelled && td_line_interrupted(line)) return TD_HOST_INTERRUPTED;
  if (got && !cancelled) return TD_HOST_OK;
  td_str_add(out, "the input has ended");
  return TD_HOST_ERROR;
}
