/* partial.c - one step that takes its feeds and gives its fetches bit by bit.
 *
 * Feeds and fetches are rendezvous edges of the plan: a feed is sent, a fetch
 * received, whenever the caller likes. What each fetch needs is worked out when
 * the handle is made, so that asking for one too early is an error at once and
 * not a wait for ever.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/run/partial.h"

#include <assert.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/mem.h"
#include "engine/run/session_impl.h"

struct td_partial {
  td_session *session;
  td_compiled *compiled;
  td_session_step *step;
  bool *fed, *fetched;
  bool *needs; /* [fetch * n_feeds + feed] */
  bool failed;
};

/* A fetch being waited for. */
typedef struct want {
  td_receiver base; /* first */
  struct gathering *all;
  td_tensor value;
  bool dead;
  td_status *status;
} want;

typedef struct gathering {
  pthread_mutex_t lock;
  td_waiter *waiter; /* the step's: it is waited for */
  int left;          /* lock: lock */
} gathering;

/* ---- which feeds a fetch needs ---- */

static int feed_index(const td_signature *sig, td_edge e) {
  for (int i = 0; i < sig->n_feeds; i++)
    if (sig->feeds[i].node == e.node && sig->feeds[i].port == e.port) return i;
  return -1;
}

static void visit(const td_signature *sig, td_edge e, bool *seen,
                  td_node **stack, int32_t *depth, bool *needs) {
  int f = feed_index(sig, e);
  if (f >= 0) {
    needs[f] = true;
  } else if (e.node && !seen[e.node->id]) {
    seen[e.node->id] = true;
    stack[(*depth)++] = e.node;
  }
}

static td_status *find_needs(td_partial *p, const td_signature *sig) {
  td_graph *g = p->session->graph;
  td_graph_lock(g);
  size_t n = (size_t)td_graph_size(g) + 1;
  bool *seen = td_calloc(n, sizeof *seen);
  td_node **stack = td_calloc(n, sizeof *stack);
  for (int k = 0; seen && stack && k < sig->n_fetches; k++) {
    bool *needs = p->needs + (size_t)k * (size_t)sig->n_feeds;
    int32_t depth = 0;
    memset(seen, 0, n);
    visit(sig, sig->fetches[k], seen, stack, &depth, needs);
    while (depth > 0) {
      const td_node *at = stack[--depth];
      for (int i = 0; i < at->n_in; i++)
        visit(sig, at->in[i], seen, stack, &depth, needs);
      for (int i = 0; i < at->n_control; i++)
        visit(sig, (td_edge){at->control[i], -1}, seen, stack, &depth, needs);
    }
  }
  td_graph_unlock(g);
  bool ok = seen && stack;
  td_free(seen);
  td_free(stack);
  return ok ? NULL : td_oom();
}

/* ---- the handle ---- */

static td_status *partial_init(td_partial *p, const td_signature *sig,
                               const td_step_options *o) {
  size_t feeds = (size_t)sig->n_feeds, fetches = (size_t)sig->n_fetches, all;
  if (!td_mul(feeds, fetches, &all)) return td_oom();
  p->fed = td_calloc(feeds + 1, sizeof *p->fed);
  p->fetched = td_calloc(fetches + 1, sizeof *p->fetched);
  p->needs = td_calloc(all + 1, sizeof *p->needs);
  if (!p->fed || !p->fetched || !p->needs) return td_oom();
  TD_TRY(find_needs(p, sig));
  TD_TRY(td_session_compile(p->session, sig, true, &p->compiled));
  TD_TRY(td_session_step_new(p->session, p->compiled, NULL, o, &p->step));
  td_session_step_start(p->step, true);
  return NULL;
}

td_status *td_partial_new(td_session *s, const td_signature *sig,
                          const td_step_options *options, td_partial **out) {
  td_partial *p = td_calloc(1, sizeof *p);
  if (!p) return td_oom();
  p->session = td_session_retain(s);
  td_status *st = partial_init(p, sig, options);
  if (!td_ok(st)) {
    td_partial_release(p);
    return st;
  }
  *out = p;
  return NULL;
}

void td_partial_release(td_partial *p) {
  if (!p) return;
  if (p->step && !td_session_step_over(p->step)) {
    td_session_step_cancel(
        p->step, td_error(TD_CANCELLED, "the partial run was given up"));
    td_status_release(td_session_step_wait(p->step, INT64_MAX, NULL, false));
  }
  td_session_step_release(p->step);
  td_compiled_release(p->compiled);
  td_session_release(p->session);
  td_free(p->fed);
  td_free(p->fetched);
  td_free(p->needs);
  td_free(p);
}

/* ---- one partial run ---- */

static td_status *check_feed(td_partial *p, int f, const td_tensor *t) {
  const td_compiled *c = p->compiled;
  if (f < 0 || f >= c->n_feeds)
    return td_error(TD_INVALID_ARGUMENT, "feed %d was not declared", f);
  td_edge e = c->feeds[f];
  if (p->fed[f])
    return td_error(TD_INVALID_ARGUMENT, "\"%s:%d\" has been fed already",
                    e.node->name, e.port);
  return td_compiled_check_feed(c, f, t);
}

static bool listed(const int *list, int n, int x) {
  for (int i = 0; i < n; i++)
    if (list[i] == x) return true;
  return false;
}

static td_status *check_fetch(td_partial *p, int k, const int *feeds,
                              int n_feeds) {
  const td_compiled *c = p->compiled;
  if (k < 0 || k >= c->n_fetches)
    return td_error(TD_INVALID_ARGUMENT, "fetch %d was not declared", k);
  td_edge e = c->fetches[k];
  if (p->fetched[k])
    return td_error(TD_INVALID_ARGUMENT, "\"%s:%d\" has been fetched already",
                    e.node->name, e.port);
  for (int f = 0; f < c->n_feeds; f++)
    if (p->needs[(size_t)k * (size_t)c->n_feeds + (size_t)f] && !p->fed[f] &&
        !listed(feeds, n_feeds, f))
      return td_error(TD_INVALID_ARGUMENT,
                      "fetch \"%s:%d\" needs \"%s:%d\", which has not been fed",
                      e.node->name, e.port, c->feeds[f].node->name,
                      c->feeds[f].port);
  return NULL;
}

static void got(td_receiver *r, td_tensor value, bool dead, td_status *s) {
  want *w = (want *)r;
  gathering *all = w->all;
  pthread_mutex_lock(&all->lock);
  w->value = value;
  w->dead = dead;
  w->status = s;
  if (--all->left == 0) td_waiter_wake(all->waiter);
  pthread_mutex_unlock(&all->lock);
}

static bool all_came(void *arg) {
  gathering *w = arg;
  pthread_mutex_lock(&w->lock);
  bool came = w->left == 0;
  pthread_mutex_unlock(&w->lock);
  return came;
}

/* Waits until every fetch came; a deadline or interrupt cancels the step, which
 * brings them all. */
static void wait_all(td_partial *p, gathering *w, const td_step_options *o) {
  bool limited = o && o->timeout > 0;
  int64_t until = limited ? td_clock_now() + o->timeout : INT64_MAX;
  const int *interrupt = o ? o->interrupt : NULL;
  td_waited why = td_waiter_wait(w->waiter, until, interrupt, all_came, w);
  if (why == TD_WAITED_READY) return;
  td_session_step_cancel(
      p->step, why == TD_WAITED_INTERRUPT
                   ? td_error(TD_CANCELLED, "interrupted")
                   : td_error(TD_DEADLINE_EXCEEDED,
                              "the fetches did not come within %.3f s",
                              (double)o->timeout * 1e-9));
  why = td_waiter_wait(w->waiter, INT64_MAX, NULL, all_came, w);
  assert(why == TD_WAITED_READY);
}

static td_status *take(td_partial *p, int k, want *w, td_tensor *out) {
  td_edge e = p->compiled->fetches[k];
  if (!td_ok(w->status)) return td_compiled_blame(p->compiled, w->status);
  p->fetched[k] = true;
  if (w->dead)
    return td_node_blame(td_error(TD_INVALID_ARGUMENT,
                                  "fetch \"%s:%d\" is dead: it comes from a "
                                  "branch that was not taken",
                                  e.node->name, e.port),
                         e.node);
  *out = w->value;
  return NULL;
}

static td_status *receive(td_partial *p, const int *index, td_tensor *fetches,
                          int n, const td_step_options *o) {
  want *wants = td_calloc((size_t)n + 1, sizeof *wants);
  if (!wants) return td_oom();
  gathering w = {.left = n, .waiter = &p->step->waiter};
  pthread_mutex_init(&w.lock, NULL);
  for (int i = 0; i < n; i++) {
    wants[i].base.got = got;
    wants[i].all = &w;
    td_key key = {.edge = p->compiled->n_feeds + index[i]};
    td_rendezvous_receive(td_session_step_mailboxes(p->step), key,
                          &wants[i].base);
  }
  wait_all(p, &w, o);
  td_status *st = NULL;
  for (int i = 0; i < n; i++)
    st = td_status_first(st, take(p, index[i], &wants[i], &fetches[i]));
  for (int i = 0; i < n && !td_ok(st); i++) td_tensor_release(&fetches[i]);
  pthread_mutex_destroy(&w.lock);
  td_free(wants);
  return st;
}

td_status *td_partial_run(td_partial *p, const int *feed_index_,
                          const td_tensor *feeds, int n_feeds,
                          const int *fetch_index, td_tensor *fetches,
                          int n_fetches, const td_step_options *options) {
  for (int i = 0; i < n_fetches; i++) fetches[i] = (td_tensor){0};
  if (p->failed)
    return td_error(TD_FAILED_PRECONDITION,
                    "an earlier call of this partial run failed");
  for (int i = 0; i < n_feeds; i++)
    TD_TRY(check_feed(p, feed_index_[i], &feeds[i]));
  for (int i = 0; i < n_fetches; i++)
    TD_TRY(check_fetch(p, fetch_index[i], feed_index_, n_feeds));
  td_status *st = NULL;
  td_rendezvous *mailboxes = td_session_step_mailboxes(p->step);
  for (int i = 0; i < n_feeds && td_ok(st); i++) {
    td_tensor share;
    p->fed[feed_index_[i]] = true;
    if (!mailboxes) continue; /* nothing needs it */
    td_tensor_retain(&feeds[i], &share);
    st = td_rendezvous_send(mailboxes, (td_key){.edge = feed_index_[i]}, &share,
                            false);
  }
  if (td_ok(st)) st = receive(p, fetch_index, fetches, n_fetches, options);
  p->failed = !td_ok(st);
  return st;
}
