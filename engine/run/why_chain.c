/* why_chain.c - see why_chain.h.
 *
 * A chain begins at a _Recv that waits, goes on at the _Send of the same edge
 * in the task that it names, from there along inputs that have not come, and
 * ends at a kernel that has started: at another _Recv it goes on in that one's
 * task. The text is a picture of several moments, and another process's word: a
 * chain may break off, or lead into a circle, and is of no more than CHAIN_MOST
 * steps.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/why_chain.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/base/vec.h"

enum { CHAINS_MOST = 8, HOPS_MOST = 16, CHAIN_MOST = 64 };

/* A piece of the text. */
typedef struct span {
  const char *at;
  size_t len;
} span;

/* A node's line. */
typedef struct waiting {
  span task, node, op;
  span what;    /* what it waits for, as it says it */
  bool started; /* its kernel runs: `what` is its own word */
  bool awaited; /* another receiver waits for what it holds up */
  bool reached; /* a chain went through it */
} waiting;

typedef TD_VEC(waiting) waitings;

/* ---- reading ------------------------------------------------------------- */

static bool is(span s, const char *text) {
  return s.len == strlen(text) && memcmp(s.at, text, s.len) == 0;
}

static bool same(span a, span b) {
  return a.len == b.len && memcmp(a.at, b.at, a.len) == 0;
}

static span until(span s, const char *stop) {
  const char *end = memmem(s.at, s.len, stop, strlen(stop));
  if (end) s.len = (size_t)(end - s.at);
  return s;
}

/* What is behind `mark`; nothing when it is not there. */
static span behind(span s, const char *mark) {
  size_t n = until(s, mark).len + strlen(mark);
  return n <= s.len ? (span){s.at + n, s.len - n} : (span){s.at + s.len, 0};
}

/* "NAME (OP) has started and waits for WHAT", "NAME (OP) waits for A:0 B:1
 * [..]"
 */
static bool read_line(span line, waiting *w) {
  while (line.len && *line.at == ' ') line = (span){line.at + 1, line.len - 1};
  span rest = behind(line, " (");
  w->node = until(line, " (");
  w->op = until(rest, ")");
  rest = behind(rest, ")");
  w->started = until(rest, " has started").len < rest.len;
  w->what = until(behind(rest, " waits for "), "  [");
  return rest.len > 0 && w->node.len > 0 && (w->started || w->what.len > 0);
}

static bool is_head(span line) {
  return line.len > 5 && memcmp(line.at, "/job:", 5) == 0;
}

static bool read_all(const char *text, const char *here, waitings *out) {
  span task = {here, strlen(here)};
  while (*text) {
    span line = {text, strcspn(text, "\n")};
    waiting w = {0};
    text += line.len + (text[line.len] == '\n');
    if (is_head(line)) {
      task = until(line, " ");
    } else if (read_line(line, &w)) {
      w.task = task;
      if (!td_vec_push(out, w)) return false;
    }
  }
  return true;
}

/* ---- following ----------------------------------------------------------- */

static bool receives(const waiting *w) {
  return w->started && (is(w->op, "_Recv") || is(w->op, "_HostRecv"));
}

static bool sends(const waiting *w) {
  return is(w->op, "_Send") || is(w->op, "_HostSend");
}

static waiting *find(waitings *all, span task, span node) {
  for (size_t i = 0; i < all->len; i++)
    if (same(all->at[i].task, task) && same(all->at[i].node, node))
      return &all->at[i];
  return NULL;
}

/* The first input that a node lacks, without its port. */
static span input_of(const waiting *w) {
  span s = until(w->what, " ");
  if (s.len && *s.at == '^') return (span){s.at + 1, s.len - 1};
  return until(s, ":");
}

/* "edge_3_x from DEVICE": the value's name, and whose it is. */
static void read_receipt(const waiting *w, span *value, span *task) {
  *value = behind(behind(until(w->what, " from "), "_"), "_");
  *task = until(behind(w->what, " from "), "/device:");
}

/* The sender of that edge: its node is named by the edge's number. */
static waiting *sender_of(waitings *all, const waiting *receiver, span task) {
  span number = until(behind(receiver->what, "_"), "_");
  for (size_t i = 0; i < all->len; i++) {
    waiting *w = &all->at[i];
    if (sends(w) && same(w->task, task) &&
        same(behind(behind(w->node, "_"), "_"), number))
      return w;
  }
  return NULL;
}

/* What holds `w` up in its own task: itself, when its kernel has started, or
 * nobody knows what it lacks. */
static waiting *holder_of(waitings *all, waiting *w) {
  for (int i = 0; i < CHAIN_MOST && !w->started; i++) {
    waiting *next = find(all, w->task, input_of(w));
    if (!next || next == w) break;
    w = next;
  }
  return w;
}

static void mark_awaited(waitings *all) {
  for (size_t i = 0; i < all->len; i++) {
    waiting *w = &all->at[i];
    span value, task;
    if (!receives(w)) continue;
    read_receipt(w, &value, &task);
    waiting *sender = sender_of(all, w, task);
    if (sender) holder_of(all, sender)->awaited = true;
  }
}

/* ---- telling ------------------------------------------------------------- */

static void add(td_str *out, span s) {
  td_str_addn(out, s.at, s.len);
}

/* Without "/replica:0". */
static void add_task(td_str *out, span task) {
  span head = until(task, "/replica:0");
  add(out, head);
  if (head.len < task.len) add(out, behind(task, "/replica:0"));
}

/* Why the value that the sender lacks does not come; the receiver that the
 * chain goes on at, or NULL: it ends. */
static waiting *tell_hop(waitings *all, waiting *sender, td_str *out) {
  waiting *w = sender ? holder_of(all, sender) : NULL;
  if (!w || w == sender) {
    td_str_add(out, sender ? ", which is computing it"
                           : ", which does not say why it is late");
    return NULL;
  }
  td_str_add(out, ", whose ");
  if (receives(w)) return w;
  add(out, w->node);
  td_str_add(out, " (");
  add(out, w->op);
  td_str_add(out, ")");
  if (w->what.len) {
    td_str_add(out, " waits for ");
    add(out, w->what);
  } else {
    td_str_add(out, " has started");
  }
  return NULL;
}

static void tell(waitings *all, waiting *w, td_str *out) {
  span value, task;
  add_task(out, w->task);
  for (int i = 0; w && i < HOPS_MOST; i++) {
    bool again = w->reached;
    w->reached = true;
    read_receipt(w, &value, &task);
    td_str_add(out, i ? "own part waits for " : " waits for ");
    add(out, value);
    td_str_add(out, " of ");
    add_task(out, task);
    if (again) td_str_add(out, ", which is told of");
    if (again) break;
    w = tell_hop(all, sender_of(all, w, task), out);
  }
  td_str_addc(out, '\n');
}

/* Those for which nobody waits come first; then circles. */
void td_why_chain(const char *text, const char *here, td_str *out) {
  waitings all = {0};
  int told = 0;
  bool ok = read_all(text, here, &all);
  if (ok) mark_awaited(&all);
  for (int circles = 0; ok && circles < 2; circles++)
    for (size_t i = 0; told < CHAINS_MOST && i < all.len; i++) {
      waiting *w = &all.at[i];
      if (!receives(w) || w->reached || (w->awaited && !circles)) continue;
      tell(&all, w, out);
      told++;
    }
  td_vec_free(&all);
}
