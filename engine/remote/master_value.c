/* master_value.c - values of members for steps of this process.
 *
 * As at a worker (worker_value.c): a value that was only offered is pulled when
 * its receiver begins to wait, one that rode along waits with the session for
 * that, as long as there is room for it. When half of the room is full, ROOM
 * tells the members to offer all, and the memory of what this process does not
 * take is theirs.
 *
 * What a portion sent is through when its receiver has it, or this process's
 * own portion is over, which then wants nothing more.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "engine/remote/master_impl.h"
#include "engine/remote/transfer_impl.h"

enum { PROMPT_MOST = 4096 /* bytes of a value that does not wait here */ };

/* A value for this process, on its way in. */
typedef struct td_far_value {
  td_transfer base; /* first */
  td_task task;
  struct td_far_value *prev, *next; /* its portion's */
  td_member *of;                    /* a share */
  td_far_portion
      *portion; /* whose list it is in; then used, while the task is */
  uint64_t step;
  td_key key;
  td_tensor value;
  bool dead, here;
  size_t charge; /* of the session's early bytes */
} td_far_value;

td_far_portion *td_portion_find(td_member *m, uint64_t step) {
  td_far_portion *n = m->running;
  while (n && n->start.step != step) n = n->next;
  return n;
}

/* ---- room ---------------------------------------------------------------- */

static void say_room(td_master *s, bool full) {
  td_head head;
  Td__Remote__Room body = TD__REMOTE__ROOM__INIT;
  s->full = full;
  body.full = full;
  for (size_t i = 0; i < s->members.len; i++) {
    if (s->members.at[i]->state != TD_MEMBER_OPEN) continue;
    td_head_init(&head, NULL);
    head.body_case = TD__REMOTE__MESSAGE__BODY_ROOM;
    head.room = &body;
    td_status_release(
        td_member_send(s->members.at[i], TD_LANE_CONTROL, &head, NULL, 0));
  }
}

/* Is there room for it, and `bytes`? Then it has that. */
static bool charge(td_far_value *in, uint64_t bytes) {
  td_master *s = in->of->master;
  size_t room = s->early_most - s->early_bytes;
  bool fits = sizeof *in <= room && bytes <= room - sizeof *in;
  if (fits) {
    in->charge = sizeof *in + (size_t)bytes;
    s->early_bytes += in->charge;
  }
  /* What was said may have been lost: once more when it was not heeded. */
  if (!fits || (!s->full && s->early_bytes > s->early_most / 2))
    say_room(s, true);
  return fits;
}

static void uncharge(td_far_value *in) {
  td_master *s = in->of->master;
  s->early_bytes -= in->charge;
  in->charge = 0;
  if (s->full && s->early_bytes < s->early_most / 4) say_room(s, false);
}

/* ---- keys ---------------------------------------------------------------- */

/* A key without holes, for maps. */
typedef struct value_key {
  int64_t edge;
  uint64_t frame;
  int64_t iteration;
} value_key;

static value_key flatten(td_key k) {
  return (value_key){k.edge, k.frame, k.iteration};
}

static bool is_slot(const td_far_portion *n, td_key k) {
  return k.frame == 0 && k.edge >= 0 && k.edge < n->of->n_edges;
}

static bool is_wanted(const td_far_portion *n, td_key k) {
  value_key flat = flatten(k);
  if (n->want_all) return true;
  return is_slot(n, k) ? n->wanted[k.edge]
                       : td_map_getn(&n->wants, &flat, sizeof flat) != 0;
}

static void note_wanted(td_far_portion *n, td_key k) {
  value_key flat = flatten(k);
  if (is_slot(n, k))
    n->wanted[k.edge] = true;
  else if (!td_map_putn(&n->wants, &flat, sizeof flat, n))
    n->want_all = true;
}

/* It was delivered. */
static void forget_wanted(td_far_portion *n, td_key k) {
  value_key flat = flatten(k);
  if (is_slot(n, k)) return;
  pthread_mutex_lock(&n->lock);
  (void)td_map_removen(&n->wants, &flat, sizeof flat);
  pthread_mutex_unlock(&n->lock);
}

/* Does somebody wait for it? Else it is to be found by who does. */
static bool is_awaited(td_far_value *in, td_far_portion *n) {
  value_key flat = flatten(in->key);
  pthread_mutex_lock(&n->lock);
  bool wanted = is_wanted(n, in->key) ||
                !td_map_putn(&n->offered, &flat, sizeof flat, in);
  pthread_mutex_unlock(&n->lock);
  return wanted;
}

static void forget_offer(td_far_portion *n, const td_far_value *in) {
  value_key flat = flatten(in->key);
  pthread_mutex_lock(&n->lock);
  if (td_map_getn(&n->offered, &flat, sizeof flat) == in)
    (void)td_map_removen(&n->offered, &flat, sizeof flat);
  pthread_mutex_unlock(&n->lock);
}

/* ---- lists --------------------------------------------------------------- */

static void list(td_far_value *in, td_far_portion *n) {
  in->portion = n;
  in->prev = NULL;
  in->next = n->values;
  if (in->next) in->next->prev = in;
  n->values = in;
  __atomic_fetch_add(&n->n_values, 1, __ATOMIC_SEQ_CST);
}

static void unlist(td_far_value *in) {
  td_far_portion *n = in->portion;
  if (!n) return;
  if (in->charge) uncharge(in);
  if (in->prev)
    in->prev->next = in->next;
  else
    n->values = in->next;
  if (in->next) in->next->prev = in->prev;
  __atomic_fetch_sub(&n->n_values, 1, __ATOMIC_SEQ_CST);
  in->portion = NULL;
}

/* Its end, when it was not handed over. */
static void drop(td_far_value *in) {
  if (in->portion) forget_offer(in->portion, in);
  unlist(in);
  td_transfer_stop(&in->base);
  td_tensor_release(&in->value);
  td_member_release(in->of);
  td_free(in);
}

/* ---- handing over -------------------------------------------------------- */

/* After the turn. */
static void pass_on(td_task *task) {
  td_far_value *in =
      (td_far_value *)((char *)task - offsetof(td_far_value, task));
  td_far_portion *n = in->portion;
  td_member *m = in->of;
  td_remote *r = td_member_remote(m);
  td_status *s = n->base.send(n->base.send_arg, in->key, &in->value, in->dead);
  forget_wanted(n, in->key);
  td_remote_enter(r);
  n->users--;
  n->came++;
  if (td_ok(s))
    n->hooks->rest(n);
  else
    n->hooks->fail(n, s);
  td_member_release(m);
  td_remote_leave(r);
  td_remote_release(r);
  td_free(in);
}

static void hand(td_far_value *in, td_far_portion *n) {
  unlist(in);
  in->portion = n;
  in->task.run = pass_on;
  n->users++;
  td_remote_retain(td_member_remote(in->of));
  td_remote_after(td_member_remote(in->of), &in->task);
}

/* Nobody will want it. */
static void pass_over(td_far_value *in, td_far_portion *n) {
  drop(in);
  n->came++;
}

static bool is_deaf(const td_far_portion *n) {
  return __atomic_load_n(&n->deaf, __ATOMIC_SEQ_CST) != 0;
}

/* It is here. What is small goes at once. */
static void give(td_far_value *in, td_far_portion *n) {
  size_t bytes = in->dead ? 0 : td_tensor_bytes(&in->value);
  if (bytes > PROMPT_MOST && !is_awaited(in, n)) {
    if (charge(in, bytes)) {
      list(in, n);
      if (is_deaf(n)) {
        pass_over(in, n);
        n->hooks->rest(n);
      }
      return;
    }
    forget_offer(n, in);
  }
  hand(in, n);
}

/* It is only offered. A member that offers more than the session may have,
 * though it was told to wait, ends its step. */
static void offer(td_far_value *in, td_far_portion *n) {
  td_master *s = in->of->master;
  if (!charge(in, 0)) {
    td_status *why =
        td_error(TD_RESOURCE_EXHAUSTED,
                 "values of %s that nobody waits for yet take more than %zu "
                 "bytes here",
                 in->of->task, s->early_most);
    drop(in);
    n->hooks->fail(n, why);
    return;
  }
  list(in, n);
  if (is_deaf(n)) {
    pass_over(in, n);
    n->hooks->rest(n);
  } else if (is_awaited(in, n) || s->of->transfers->no_wanted) {
    td_transfer_go(&in->base);
  }
}

/* ---- arriving ------------------------------------------------------------ */

/* A derived error is of one that was taken back, or came before: who takes it
 * back tells why. */
static void got_value(td_transfer *t, td_tensor *value, bool dead,
                      td_status *s) {
  td_far_value *in = (td_far_value *)t;
  td_far_portion *n = td_portion_find(in->of, in->step);
  in->value = *value;
  in->dead = dead;
  in->here = true;
  if (n) forget_offer(n, in);
  unlist(in);
  if (n && td_ok(s)) {
    give(in, n);
    return;
  }
  drop(in);
  if (n && !td_status_derived(s))
    n->hooks->fail(n, s);
  else
    td_status_release(s);
}

void td_portion_value(td_member *m, td_message *msg) {
  const Td__Remote__Tensor *t = msg->head->tensor;
  td_far_value *in = td_calloc(1, sizeof *in);
  if (!in || !t->value) {
    td_free(in);
    return;
  }
  td_member_retain(m);
  in->base.got = got_value;
  in->base.later = true;
  in->of = m;
  in->step = t->step;
  in->key = (td_key){t->edge, t->frame, t->iteration};
  if (!td_transfer_in(m->peer, t->value, msg, &in->base)) return;
  td_far_portion *n = td_portion_find(m, t->step);
  if (n && n->state == TD_PORTION_RUNNING)
    offer(in, n);
  else
    drop(in);
}

/* ---- who waits ----------------------------------------------------------- */

static void pull(td_far_portion *n, td_key key) {
  value_key flat = flatten(key);
  td_remote *r = td_remote_retain(td_member_remote(n->of->of));
  td_remote_enter(r);
  pthread_mutex_lock(&n->lock);
  td_far_value *in = td_map_removen(&n->offered, &flat, sizeof flat);
  pthread_mutex_unlock(&n->lock);
  if (in && in->here)
    hand(in, n);
  else if (in)
    td_transfer_go(&in->base);
  td_remote_leave(r);
  td_remote_release(r);
}

void td_member_wanted(td_portion *p, td_key key) {
  td_far_portion *n = (td_far_portion *)p;
  value_key flat = flatten(key);
  pthread_mutex_lock(&n->lock);
  note_wanted(n, key);
  bool offered = td_map_getn(&n->offered, &flat, sizeof flat) != NULL;
  pthread_mutex_unlock(&n->lock);
  if (offered) pull(n, key);
}

void td_member_unwanted(td_portion *p) {
  td_far_portion *n = (td_far_portion *)p;
  __atomic_store_n(&n->deaf, 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&n->n_values, __ATOMIC_SEQ_CST) == 0) return;
  td_remote *r = td_remote_retain(td_member_remote(n->of->of));
  td_remote_enter(r);
  bool some = n->values != NULL;
  while (n->values) pass_over(n->values, n);
  if (some) n->hooks->rest(n);
  td_remote_leave(r);
  td_remote_release(r);
}

/* ---- of a portion -------------------------------------------------------- */

td_status *td_portion_values_init(td_far_portion *n) {
  pthread_mutex_init(&n->lock, NULL);
  td_map_init(&n->wants);
  td_map_init(&n->offered);
  n->wanted = td_calloc((size_t)n->of->n_edges + 1, sizeof *n->wanted);
  return n->wanted ? NULL : td_oom();
}

void td_portion_values_deinit(td_far_portion *n) {
  td_map_deinit(&n->wants);
  td_map_deinit(&n->offered);
  td_free(n->wanted);
  pthread_mutex_destroy(&n->lock);
}

void td_portion_values_reset(td_far_portion *n) {
  memset(n->wanted, 0, (size_t)n->of->n_edges * sizeof *n->wanted);
  if (n->wants.count) {
    td_map_deinit(&n->wants);
    td_map_init(&n->wants);
  }
  n->want_all = false;
  __atomic_store_n(&n->deaf, 0, __ATOMIC_RELAXED);
}

void td_portion_values_stop(td_far_portion *n) {
  while (n->values) drop(n->values);
}
