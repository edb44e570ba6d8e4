/* master_print.c - lines that a member printed, shown here.
 *
 * They go to the function that the step was given, after the turn, since it may
 * do anything, and in the order in which they came: one thread at a time is
 * with a portion's lines. Those that come meanwhile wait, a megabyte of them at
 * most; of what is beyond, here or at the member, the number of lines is told.
 * The portion is not over before its lines are through.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "engine/remote/master_impl.h"

enum { WAITING_MOST = 1 << 20 /* bytes */ };

/* Says who printed it, before each line. Returns how many found no room. */
static uint64_t add_lines(td_str *out, const char *task, const char *text) {
  uint64_t left_out = 0;
  while (*text) {
    const char *stop = strchr(text, '\n');
    size_t len = stop ? (size_t)(stop - text) : strlen(text);
    if (out->len + len > WAITING_MOST)
      left_out++;
    else
      td_str_addf(out, "%s: %.*s\n", task, (int)len, text);
    text += stop ? len + 1 : len;
  }
  return left_out;
}

static void show(const td_far_portion *n, const char *text, size_t len) {
  if (n->start.print)
    n->start.print(n->start.print_arg, text, len);
  else
    fwrite(text, 1, len, stderr);
}

/* Inside of the turn: what is to be shown now; false: nothing. */
static bool take(td_far_portion *n, td_str *out) {
  td_printed *p = &n->printed;
  *out = p->text;
  p->text = (td_str){0};
  if (p->dropped)
    td_str_addf(out, "%s: %llu lines more were not kept\n", n->of->of->task,
                (unsigned long long)p->dropped);
  p->dropped = 0;
  if (out->len && !n->cancelled) return true;
  td_str_deinit(out);
  return false;
}

/* After the turn. */
static void print_later(td_task *task) {
  td_far_portion *n =
      (td_far_portion *)((char *)task - offsetof(td_far_portion, printed.task));
  td_member *m = n->of->of;
  td_remote *r = td_member_remote(m);
  td_str text;
  td_remote_enter(r);
  while (take(n, &text)) {
    td_remote_leave(r);
    show(n, td_str_c(&text), text.len);
    td_str_deinit(&text);
    td_remote_enter(r);
  }
  n->printed.going = false;
  td_portion_unuse(n);
  td_member_release(m);
  td_remote_leave(r);
  td_remote_release(r);
}

void td_portion_printed(td_member *m, const Td__Remote__Text *t) {
  td_far_portion *n = td_portion_find(m, t->step);
  if (!n || n->cancelled) return;
  td_printed *p = &n->printed;
  p->dropped += add_lines(&p->text, m->task, t->text) + t->dropped;
  if (p->going || (!p->text.len && !p->dropped)) return;
  p->going = true;
  p->task.run = print_later;
  n->users++;
  td_member_retain(m);
  td_remote_retain(td_member_remote(m));
  td_remote_after(td_member_remote(m), &p->task);
}
