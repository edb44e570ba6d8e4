/* rendezvous.c - mailboxes for the edges of one step.
 *
 * There are two kinds, for speed. In the root frame every edge is used once a
 * step, so it has a slot in an array, whose `state` says who came: nobody, a
 * receiver (the pointer itself), or a value; one compare-and-swap each. The
 * sender writes the value before it says so. Inside a loop an edge is used once
 * an iteration, and how many there will be nobody knows: those mailboxes are
 * made when the first of both comes, in a hash table under a lock. A value that
 * came first is kept there in a parcel that looks like a receiver, so that a
 * bucket is one list.
 *
 * An abort closes every slot that waits and makes later ones fail; a value
 * that nobody will fetch any more is dropped then.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/device/rendezvous.h"

#include <pthread.h>
#include <string.h>

#include "engine/base/mem.h"

/* What a slot's state is when it is no receiver. */
enum { EMPTY, FULL, MET, CLOSED, FIRST_RECEIVER };

typedef struct slot {
  uintptr_t state; /* atomic */
  td_tensor value; /* while FULL; invalid when dead */
} slot;

typedef struct parcel {
  td_receiver node; /* first; `got` NULL */
  td_tensor value;  /* invalid when dead */
} parcel;

struct td_rendezvous {
  int32_t edges;
  slot *slots;
  pthread_mutex_t mutex;
  td_status *aborted;    /* under the mutex; set once until reset */
  td_receiver **buckets; /* under the mutex */
  size_t n_buckets;      /* a power of two, 0 before the first key */
  size_t count;          /* under the mutex; keys in the table */
  const bool *far;       /* by edge, or NULL: see td_rendezvous_route */
  td_status *(*send_far)(void *arg, td_key key, td_tensor *value, bool dead);
  void *send_arg;
  const bool *from_far; /* by edge, or NULL: see td_rendezvous_expect */
  void (*wanted)(void *arg, td_key key);
  void *wanted_arg;
};

enum { MIN_BUCKETS = 64 };

/* ---- life ---------------------------------------------------------------- */

td_status *td_rendezvous_new(int32_t edges, td_rendezvous **out) {
  td_rendezvous *r = td_calloc(1, sizeof *r);
  if (!r) return td_oom();
  r->slots = td_calloc((size_t)edges, sizeof *r->slots);
  if (!r->slots) {
    td_free(r);
    return td_oom();
  }
  r->edges = edges;
  pthread_mutex_init(&r->mutex, NULL);
  *out = r;
  return NULL;
}

static void drop_parcel(td_receiver *node) {
  td_tensor_release(&((parcel *)node)->value);
  td_free(node);
}

static void drop_parcels(td_rendezvous *r) {
  for (size_t b = 0; r->count && b < r->n_buckets; b++) {
    for (td_receiver *at = r->buckets[b], *next; at; at = next) {
      next = at->next;
      if (!at->got) drop_parcel(at); /* else its owner's */
    }
    r->buckets[b] = NULL;
  }
  r->count = 0;
}

void td_rendezvous_reset(td_rendezvous *r) {
  for (int32_t i = 0; i < r->edges; i++) {
    slot *s = &r->slots[i];
    if (__atomic_load_n(&s->state, __ATOMIC_ACQUIRE) == FULL)
      td_tensor_release(&s->value);
    __atomic_store_n(&s->state, EMPTY, __ATOMIC_RELAXED);
  }
  drop_parcels(r);
  td_status_release(r->aborted);
  r->aborted = NULL;
}

void td_rendezvous_free(td_rendezvous *r) {
  if (!r) return;
  td_rendezvous_reset(r);
  pthread_mutex_destroy(&r->mutex);
  td_free(r->buckets);
  td_free(r->slots);
  td_free(r);
}

static td_status *cause_of(td_rendezvous *r) {
  pthread_mutex_lock(&r->mutex);
  td_status *s = td_status_retain(r->aborted);
  pthread_mutex_unlock(&r->mutex);
  return s;
}

/* ---- slots: the root frame ----------------------------------------------- */

static bool change(slot *s, uintptr_t *from, uintptr_t to) {
  return __atomic_compare_exchange_n(&s->state, from, to, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static td_tensor take(td_tensor *value) {
  td_tensor t = *value;
  *value = (td_tensor){0};
  return t;
}

static td_status *sent_twice(td_key key) {
  return td_error(
      TD_INTERNAL, "edge %d, frame %llx, iteration %lld was sent twice",
      key.edge, (unsigned long long)key.frame, (long long)key.iteration);
}

/* A dead value is one that is invalid. */
static td_status *send_slot(td_rendezvous *r, td_key key, td_tensor *value) {
  slot *s = &r->slots[key.edge];
  uintptr_t state = __atomic_load_n(&s->state, __ATOMIC_ACQUIRE);
  if (state == EMPTY) {
    s->value = *value;
    if (change(s, &state, FULL)) {
      *value = (td_tensor){0};
      return NULL;
    }
    s->value = (td_tensor){0};
  }
  if (state == CLOSED) return cause_of(r);
  if (state == FULL || state == MET) return sent_twice(key);
  if (!change(s, &state, MET)) return cause_of(r);
  td_receiver *who = (td_receiver *)state;
  td_tensor t = take(value);
  who->got(who, t, !td_tensor_valid(&t), NULL);
  return NULL;
}

static void receive_slot(td_rendezvous *r, td_receiver *who) {
  slot *s = &r->slots[who->key.edge];
  uintptr_t state = EMPTY;
  if (change(s, &state, (uintptr_t)who)) return;
  if (state == FULL && change(s, &state, MET)) {
    td_tensor t = take(&s->value);
    who->got(who, t, !td_tensor_valid(&t), NULL);
    return;
  }
  td_status *why =
      state == CLOSED
          ? cause_of(r)
          : td_error(TD_INTERNAL, "edge %d was received twice", who->key.edge);
  who->got(who, (td_tensor){0}, false, why);
}

static void close_slot(slot *s, td_status *why) {
  uintptr_t state = __atomic_load_n(&s->state, __ATOMIC_ACQUIRE);
  while (state != MET && state != CLOSED)
    if (change(s, &state, CLOSED)) {
      if (state == FULL) td_tensor_release(&s->value);
      if (state < FIRST_RECEIVER) return;
      td_receiver *who = (td_receiver *)state;
      who->got(who, (td_tensor){0}, false, td_status_retain(why));
      return;
    }
}

/* ---- the table: frames; under the mutex ---------------------------------- */

static size_t bucket_of(const td_rendezvous *r, td_key key) {
  uint64_t h = key.frame ^ (uint64_t)key.iteration * 0x9e3779b97f4a7c15u ^
               (uint64_t)(uint32_t)key.edge * 0xc2b2ae3d27d4eb4fu;
  h ^= h >> 32;
  h *= 0xd6e8feb86659fd93u;
  return (size_t)(h >> 32) & (r->n_buckets - 1);
}

static bool same_key(td_key a, td_key b) {
  return a.edge == b.edge && a.frame == b.frame && a.iteration == b.iteration;
}

/* Where the key is linked, or NULL. */
static td_receiver **find(td_rendezvous *r, td_key key) {
  if (r->n_buckets == 0) return NULL;
  td_receiver **at = &r->buckets[bucket_of(r, key)];
  while (*at && !same_key((*at)->key, key)) at = &(*at)->next;
  return *at ? at : NULL;
}

static void link_node(td_rendezvous *r, td_receiver *node) {
  td_receiver **bucket = &r->buckets[bucket_of(r, node->key)];
  node->next = *bucket;
  *bucket = node;
}

/* Room for one more; only the very first buckets are indispensable. */
static bool grow(td_rendezvous *r) {
  if (r->n_buckets && r->count < r->n_buckets * 2) return true;
  size_t old_n = r->n_buckets, n = old_n ? old_n * 4 : MIN_BUCKETS;
  td_receiver **old = r->buckets, **fresh = td_calloc(n, sizeof *fresh);
  if (!fresh) return old_n > 0;
  r->buckets = fresh;
  r->n_buckets = n;
  for (size_t b = 0; b < old_n; b++)
    for (td_receiver *at = old[b], *next; at; at = next) {
      next = at->next;
      link_node(r, at);
    }
  td_free(old);
  return true;
}

static bool insert(td_rendezvous *r, td_receiver *node) {
  if (!grow(r)) return false;
  link_node(r, node);
  r->count++;
  return true;
}

static td_receiver *unlink_node(td_rendezvous *r, td_receiver **at) {
  td_receiver *node = *at;
  *at = node->next;
  r->count--;
  return node;
}

static td_status *keep_parcel(td_rendezvous *r, td_key key, td_tensor *value) {
  parcel *p = td_malloc(sizeof *p);
  if (!p) return td_oom();
  *p = (parcel){.node.key = key};
  if (!insert(r, &p->node)) {
    td_free(p);
    return td_oom();
  }
  p->value = take(value);
  return NULL;
}

static td_status *send_table(td_rendezvous *r, td_key key, td_tensor *value) {
  td_status *s = NULL;
  td_receiver *who = NULL;
  pthread_mutex_lock(&r->mutex);
  td_receiver **at = find(r, key);
  if (r->aborted)
    s = td_status_retain(r->aborted);
  else if (!at)
    s = keep_parcel(r, key, value);
  else if ((*at)->got)
    who = unlink_node(r, at);
  else
    s = sent_twice(key);
  pthread_mutex_unlock(&r->mutex);
  if (who) {
    td_tensor t = take(value);
    who->got(who, t, !td_tensor_valid(&t), NULL);
  }
  return s;
}

static void receive_table(td_rendezvous *r, td_receiver *who) {
  td_status *s = NULL;
  parcel *p = NULL;
  pthread_mutex_lock(&r->mutex);
  td_receiver **at = find(r, who->key);
  if (r->aborted)
    s = td_status_retain(r->aborted);
  else if (!at)
    s = insert(r, who) ? NULL : td_oom();
  else if ((*at)->got)
    s = td_error(TD_INTERNAL, "edge %d was received twice", who->key.edge);
  else
    p = (parcel *)unlink_node(r, at);
  pthread_mutex_unlock(&r->mutex);
  if (!p && !s) return; /* it waits, or is gone already */
  td_tensor t = p ? p->value : (td_tensor){0};
  td_free(p);
  who->got(who, t, !s && !td_tensor_valid(&t), s);
}

/* All that is in the table, receivers and parcels, unlinked: a list by `next`.
 */
static td_receiver *unlink_all(td_rendezvous *r) {
  td_receiver *list = NULL;
  for (size_t b = 0; r->count && b < r->n_buckets; b++)
    while (r->buckets[b]) {
      td_receiver *node = unlink_node(r, &r->buckets[b]);
      node->next = list;
      list = node;
    }
  return list;
}

/* ---- the interface ------------------------------------------------------- */

static bool is_root(td_key key) {
  return key.frame == 0;
}

static td_status *check_edge(const td_rendezvous *r, td_key key) {
  if (key.edge >= 0 && key.edge < r->edges) return NULL;
  return td_error(TD_INTERNAL, "edge %d of a step that has %d", key.edge,
                  r->edges);
}

void td_rendezvous_route(td_rendezvous *r, const bool *far,
                         td_status *(*send)(void *arg, td_key key,
                                            td_tensor *value, bool dead),
                         void *arg) {
  r->far = far;
  r->send_far = send;
  r->send_arg = arg;
}

void td_rendezvous_expect(td_rendezvous *r, const bool *from_far,
                          void (*wanted)(void *arg, td_key key), void *arg) {
  r->from_far = from_far;
  r->wanted = wanted;
  r->wanted_arg = arg;
}

/* Has it neither come nor been given up? */
static bool is_awaited(td_rendezvous *r, td_key key) {
  if (is_root(key))
    return __atomic_load_n(&r->slots[key.edge].state, __ATOMIC_ACQUIRE) ==
           EMPTY;
  pthread_mutex_lock(&r->mutex);
  bool awaited = !r->aborted && !find(r, key);
  pthread_mutex_unlock(&r->mutex);
  return awaited;
}

td_status *td_rendezvous_send(td_rendezvous *r, td_key key, td_tensor *value,
                              bool dead) {
  td_status *s = check_edge(r, key);
  if (TD_UNLIKELY(r->far != NULL) && td_ok(s) && r->far[key.edge])
    return r->send_far(r->send_arg, key, value, dead);
  if (dead) td_tensor_release(value);
  if (td_ok(s))
    s = is_root(key) ? send_slot(r, key, value) : send_table(r, key, value);
  td_tensor_release(value);
  return s;
}

void td_rendezvous_receive(td_rendezvous *r, td_key key, td_receiver *who) {
  td_status *s = check_edge(r, key);
  who->key = key;
  who->next = NULL;
  /* Asked for first: once it waits, its owner and the step may be gone. */
  if (TD_UNLIKELY(r->from_far != NULL) && td_ok(s) && r->from_far[key.edge] &&
      is_awaited(r, key))
    r->wanted(r->wanted_arg, key);
  if (!td_ok(s))
    who->got(who, (td_tensor){0}, false, s);
  else if (is_root(key))
    receive_slot(r, who);
  else
    receive_table(r, who);
}

void td_rendezvous_abort(td_rendezvous *r, td_status *s) {
  pthread_mutex_lock(&r->mutex);
  bool first = !r->aborted;
  if (first) r->aborted = td_status_retain(s);
  td_receiver *list = first ? unlink_all(r) : NULL;
  pthread_mutex_unlock(&r->mutex);
  if (!first) return;
  for (int32_t i = 0; i < r->edges; i++) close_slot(&r->slots[i], s);
  for (td_receiver *who = list, *next; who; who = next) {
    next = who->next;
    if (who->got)
      who->got(who, (td_tensor){0}, false, td_status_retain(s));
    else
      drop_parcel(who);
  }
}
