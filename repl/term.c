/* term.c - the terminal's modes, size and signals.
 *
 * A handler only writes a byte to a pipe that td_edit_term_wait also looks at,
 * or puts the terminal back and lets the signal kill.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "repl/term.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static struct termios before; /* as it was found, valid while `raw` */
static volatile sig_atomic_t raw;
static int bell[2] = {-1, -1}; /* the pipe of signals */

static const char paste_on[] = "\033[?2004h", paste_off[] = "\033[?2004l";

bool td_edit_term_able(void) {
  const char *term = getenv("TERM");
  return isatty(0) && isatty(1) && term && *term && strcmp(term, "dumb");
}

void td_edit_term_write(const char *bytes, size_t len) {
  while (len) {
    ssize_t n = write(1, bytes, len);
    if (n < 0 && errno == EAGAIN) {
      struct pollfd p = {.fd = 1, .events = POLLOUT};
      poll(&p, 1, 1000);
    } else if (n < 0 && errno != EINTR) {
      return;
    } else if (n > 0) {
      bytes += n;
      len -= (size_t)n;
    }
  }
}

/* ---- modes ---- */

bool td_edit_term_raw(void) {
  struct termios t;
  if (raw) return true;
  if (tcgetattr(0, &t)) return false;
  before = t;
  t.c_iflag &= ~(tcflag_t)(BRKINT | INLCR | IGNCR | INPCK | ISTRIP | IXON);
  t.c_iflag |= ICRNL; /* what is typed ahead may be read as lines later */
  t.c_oflag &= ~(tcflag_t)OPOST;
  t.c_lflag &= ~(tcflag_t)(ECHO | ICANON | IEXTEN | ISIG);
  t.c_lflag |= NOFLSH;
  t.c_cflag |= CS8;
  t.c_cc[VQUIT] = t.c_cc[VSUSP] = _POSIX_VDISABLE;
  t.c_cc[VMIN] = 1;
  t.c_cc[VTIME] = 0;
  raw = 1;
  if (tcsetattr(0, TCSADRAIN, &t)) {
    raw = 0;
    return false;
  }
  td_edit_term_write(paste_on, sizeof paste_on - 1);
  return true;
}

void td_edit_term_interruptible(bool on) {
  struct termios t;
  if (!raw || tcgetattr(0, &t)) return;
  if (on)
    t.c_lflag |= ISIG;
  else
    t.c_lflag &= ~(tcflag_t)ISIG;
  tcsetattr(0, TCSANOW, &t);
}

/* Async-signal-safe. */
static void restore(void) {
  if (!raw) return;
  raw = 0;
  ssize_t ignored = write(1, paste_off, sizeof paste_off - 1);
  (void)ignored;
  tcsetattr(0, TCSADRAIN, &before);
}

void td_edit_term_cooked(void) {
  restore();
}

void td_edit_term_size(int *columns, int *lines) {
  struct winsize w;
  bool known = !ioctl(1, TIOCGWINSZ, &w);
  *columns = known && w.ws_col ? w.ws_col : 80;
  *lines = known && w.ws_row ? w.ws_row : 24;
}

/* Nobody can be asked: by the marks that such terminals leave. */
bool td_edit_term_wraps(void) {
  static const char *const marks[] = {"TMUX",
                                      "VTE_VERSION",
                                      "KITTY_WINDOW_ID",
                                      "ALACRITTY_WINDOW_ID",
                                      "WEZTERM_PANE",
                                      "KONSOLE_VERSION",
                                      "ITERM_SESSION_ID",
                                      "WT_SESSION",
                                      "TERM_PROGRAM",
                                      "GHOSTTY_RESOURCES_DIR"};
  const char *term = getenv("TERM");
  for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
    if (getenv(marks[i])) return true;
  return term && !strncmp(term, "foot", 4);
}

/* ---- signals ---- */

static void ring(char what) {
  int saved = errno;
  ssize_t ignored = write(bell[1], &what, 1);
  (void)ignored; /* full: it has been rung */
  errno = saved;
}

void td_edit_term_poke(void) {
  if (raw && bell[1] >= 0) ring('i');
}

static void on_change(int number) {
  (void)number;
  ring('s');
}

static void on_fatal(int number) {
  restore();
  signal(number, SIG_DFL);
  raise(number); /* delivered once this returns */
}

bool td_edit_term_listen(void) {
  static const int fatal[] = {SIGTERM, SIGHUP,  SIGQUIT, SIGSEGV,
                              SIGBUS,  SIGABRT, SIGFPE,  SIGILL};
  if (bell[0] >= 0) return true;
  if (pipe2(bell, O_CLOEXEC | O_NONBLOCK)) return false;
  struct sigaction a;
  memset(&a, 0, sizeof a);
  a.sa_flags = SA_RESTART;
  a.sa_handler = on_change;
  sigaction(SIGWINCH, &a, NULL);
  sigaction(SIGCONT, &a, NULL);
  a.sa_handler = on_fatal;
  for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) {
    struct sigaction old;
    if (!sigaction(fatal[i], NULL, &old) && old.sa_handler == SIG_DFL)
      sigaction(fatal[i], &a, NULL);
  }
  atexit(restore);
  return true;
}

/* Takes what the pipe holds. */
static int rung(void) {
  char what[64];
  ssize_t n = read(bell[0], what, sizeof what);
  int got = 0;
  for (ssize_t i = 0; i < n; i++)
    got |= what[i] == 'i' ? TD_EDIT_TERM_INTERRUPT : TD_EDIT_TERM_SIGNAL;
  return got;
}

int td_edit_term_wait(int timeout_ms) {
  struct pollfd p[2] = {{.fd = 0, .events = POLLIN},
                        {.fd = bell[0], .events = POLLIN}};
  int n;
  do n = poll(p, 2, timeout_ms);
  while (n < 0 && errno == EINTR);
  int got = n > 0 && p[1].revents ? rung() : 0;
  if (n > 0 && p[0].revents) got |= TD_EDIT_TERM_INPUT;
  return got;
}

bool td_edit_term_ready(void) {
  struct pollfd p = {.fd = 0, .events = POLLIN};
  return poll(&p, 1, 0) > 0;
}

void td_edit_term_stop(void) {
  td_edit_term_cooked();
  kill(0, SIGTSTP);
  td_edit_term_raw();
}
