/* stage_shuffle.c - each time one of n elements at hand, drawn by a seed.
 *
 * An epoch's first element is given when n are at hand or the epoch is at its
 * end, so that the order does not depend on when elements come. Draw k of an
 * epoch is a function of seed, epoch and k.
 *
 * The state is which inputs, by number, lie in which place. That is large, so
 * it is kept after some outputs only, and after each end of an epoch, as the
 * next time nobody may cut this one short: what was given behind it is drawn
 * once more and dropped. The elements themselves are taken again, from the
 * oldest on: until the place where the state stood those that are in no place
 * were given before, and are dropped.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "engine/base/mem.h"
#include "engine/pipeline/stage.h"

/* at[0]: draws in this epoch. */

typedef struct place {
  int64_t number; /* of the input */
  td_element e;
  bool empty; /* it is to be taken again */
} place;

/* The state after output `out`. */
typedef struct snapshot {
  int64_t out;
  td_mark mark;
  int64_t *number; /* of what lay in the places, `n` of them */
  size_t n;
  bool draining;
} snapshot;

/* Where an input that is taken again belongs. */
typedef struct missing {
  int64_t number;
  size_t place;
} missing;

typedef struct shuffling {
  td_stage base; /* first */
  size_t n;
  uint64_t seed;
  TD_VEC(place) places;
  bool draining;           /* the end of the epoch was taken */
  TD_VEC(missing) missing; /* by their numbers; from missing_at on still so */
  size_t missing_at;
  TD_VEC(snapshot) snapshots;
  uint64_t drawn; /* draw `drawn_of` of epoch drawn_in */
  int64_t drawn_of, drawn_in;
} shuffling;

/* ---- states -------------------------------------------------------------- */

static void snapshot_free(snapshot *s) {
  td_free(s->number);
}

static size_t between(const shuffling *h) {
  return h->places.len < 64 ? 64 : h->places.len;
}

/* The state of now, after `in` inputs. */
static td_status *keep_state(shuffling *h, int64_t in) {
  td_stage *s = &h->base;
  snapshot x = {.out = s->out,
                .mark = s->now,
                .number = td_calloc(h->places.len + 1, sizeof *x.number),
                .n = h->places.len,
                .draining = h->draining};
  if (!x.number || !td_vec_reserve(&h->snapshots, 1)) {
    snapshot_free(&x);
    return td_oom();
  }
  x.mark.in = in;
  for (size_t i = 0; i < x.n; i++) x.number[i] = h->places.at[i].number;
  h->snapshots.at[h->snapshots.len++] = x;
  return NULL;
}

static bool is_due(const shuffling *h) {
  const snapshot *x = &h->snapshots.at[h->snapshots.len - 1];
  return h->base.out - x->out >= (int64_t)between(h);
}

/* The first is never behind what is asked for. */
static const snapshot *last_before(const shuffling *h, int64_t upto) {
  size_t i = h->snapshots.len;
  while (i > 1 && h->snapshots.at[i - 1].out > upto) i--;
  return &h->snapshots.at[i - 1];
}

/* From which input on it has to take again. */
static int64_t oldest(const snapshot *x) {
  int64_t first = x->mark.in;
  for (size_t i = 0; i < x->n; i++)
    if (x->number[i] < first) first = x->number[i];
  return first;
}

static td_status *shuffle_save(td_stage *s, int64_t upto, td_str *out,
                               int64_t *at, td_mark *mark) {
  const snapshot *x = last_before((shuffling *)s, upto);
  *at = x->out;
  *mark = x->mark;
  mark->in = oldest(x);
  td_stage_write(out, x->mark.in);
  td_stage_write(out, x->draining);
  td_stage_write(out, (int64_t)x->n);
  for (size_t i = 0; i < x->n; i++) td_stage_write(out, x->number[i]);
  return NULL;
}

static td_status *damaged(void) {
  return td_error(TD_DATA_LOSS, "the state of the shuffle is damaged");
}

static int by_number(const void *a, const void *b) {
  int64_t x = ((const missing *)a)->number, y = ((const missing *)b)->number;
  return (x > y) - (x < y);
}

static td_status *shuffle_load(td_stage *s, const char **at, const char *end) {
  shuffling *h = (shuffling *)s;
  int64_t to, draining, n;
  TD_TRY(td_stage_read(at, end, &to));
  TD_TRY(td_stage_read(at, end, &draining));
  TD_TRY(td_stage_read(at, end, &n));
  if (n < 0 || (uint64_t)n > h->n || to < s->now.in)
    return td_error(TD_INVALID_ARGUMENT,
                    "the state is that of a shuffle of another size");
  if (n > (end - *at) / (ptrdiff_t)sizeof(int64_t)) return damaged();
  if (!td_vec_reserve(&h->places, n) || !td_vec_reserve(&h->missing, n))
    return td_oom();
  for (int64_t i = 0; i < n; i++) {
    place p = {.empty = true};
    TD_TRY(td_stage_read(at, end, &p.number));
    if (p.number < s->now.in || p.number >= to) return damaged();
    h->places.at[h->places.len++] = p;
    h->missing.at[h->missing.len++] = (missing){p.number, (size_t)i};
  }
  if (n > 0)
    qsort(h->missing.at, h->missing.len, sizeof *h->missing.at, by_number);
  h->base.refill_to = to;
  h->draining = draining != 0;
  snapshot_free(&h->snapshots.at[0]);
  h->snapshots.len = 0;
  return keep_state(h, to);
}

static int64_t shuffle_forget(td_stage *s, int64_t upto) {
  shuffling *h = (shuffling *)s;
  size_t kept = 0, n = h->snapshots.len;
  while (kept + 1 < n && h->snapshots.at[kept + 1].out <= upto)
    snapshot_free(&h->snapshots.at[kept++]);
  memmove(h->snapshots.at, h->snapshots.at + kept,
          (n - kept) * sizeof *h->snapshots.at);
  h->snapshots.len -= kept;
  s->marks.len = 0; /* of no use here */
  s->first_mark = s->out;
  return oldest(&h->snapshots.at[0]);
}

/* ---- elements ------------------------------------------------------------ */

/* An input that was taken before the state was saved. */
static void take_again(shuffling *h, int64_t number, td_element e) {
  bool here = h->missing_at < h->missing.len &&
              h->missing.at[h->missing_at].number == number;
  if (!here || e.end) {
    td_element_drop(&e);
    return;
  }
  place *p = &h->places.at[h->missing.at[h->missing_at++].place];
  p->e = e;
  p->empty = false;
}

static void take_one(shuffling *h) {
  td_stage *s = &h->base;
  int64_t number = s->now.in, epoch = s->now.in_epoch;
  td_element e = td_stage_take(s);
  if (number < h->base.refill_to) {
    s->now.in_epoch = epoch; /* it was seen then */
    take_again(h, number, e);
  } else if (e.end) {
    h->draining = true;
  } else if (e.status) {
    td_stage_put(s, e);
  } else if (!td_vec_push(&h->places, ((place){.number = number, .e = e}))) {
    td_element_drop(&e);
    td_stage_break(s);
  }
}

/* The next draw of this epoch. */
static uint64_t draw(shuffling *h) {
  const td_mark *m = &h->base.now;
  if (h->drawn_of != m->at[0] || h->drawn_in != m->epoch) {
    h->drawn = td_stage_draw(h->seed, m->epoch, m->at[0]);
    h->drawn_of = m->at[0];
    h->drawn_in = m->epoch;
  }
  return h->drawn;
}

/* Where that is going to look comes into the caches meanwhile, and so does what
 * was given: others look at it soon. */
static void fetch_ahead(shuffling *h, const td_element *given) {
  size_t n = h->draining ? h->places.len : h->n;
  if (n > 0) __builtin_prefetch(&h->places.at[draw(h) % n], 1);
  __builtin_prefetch(given->at);
}

static void give_one(shuffling *h) {
  td_stage *s = &h->base;
  size_t n = h->places.len;
  uint64_t k = draw(h) % n;
  td_element e = h->places.at[k].e;
  if (h->places.at[k].empty) e.status = damaged(); /* it did not come again */
  h->places.at[k] = h->places.at[n - 1];
  h->places.len--;
  s->now.at[0]++;
  fetch_ahead(h, &e);
  td_stage_put(s, e);
}

static void end_epoch(shuffling *h) {
  td_stage *s = &h->base;
  h->draining = false;
  td_stage_put_end(s, s->now.in_epoch);
  td_status *st = keep_state(h, s->now.in);
  if (!td_ok(st)) td_stage_break(s);
  td_status_release(st);
}

/* One move; false when there is none. */
static bool step(shuffling *h) {
  td_stage *s = &h->base;
  bool full = h->places.len == h->n || h->draining;
  if (s->now.in < h->base.refill_to || !full) {
    if (!td_stage_has_input(s)) return false;
    take_one(h);
    return true;
  }
  if (!td_stage_has_room(s)) return false;
  td_status *st = is_due(h) ? keep_state(h, s->now.in) : NULL;
  if (!td_ok(st)) {
    td_stage_put_error(s, st);
  } else if (h->places.len > 0) {
    give_one(h);
  } else {
    end_epoch(h);
  }
  return true;
}

static bool shuffle_advance(td_stage *s) {
  bool changed = false;
  while (step((shuffling *)s)) changed = true;
  return changed;
}

static void shuffle_free(td_stage *s) {
  shuffling *h = (shuffling *)s;
  for (size_t i = 0; i < h->places.len; i++)
    td_element_drop(&h->places.at[i].e);
  for (size_t i = 0; i < h->snapshots.len; i++)
    snapshot_free(&h->snapshots.at[i]);
  td_vec_free(&h->places);
  td_vec_free(&h->missing);
  td_vec_free(&h->snapshots);
}

static void shuffle_why(td_stage *s, td_str *out) {
  const shuffling *h = (const shuffling *)s;
  td_str_addf(out, "shuffle has %zu of %zu", h->places.len, h->n);
}

static const td_stage_kind shuffle_kind = {.name = "shuffle",
                                           .advance = shuffle_advance,
                                           .free = shuffle_free,
                                           .save = shuffle_save,
                                           .load = shuffle_load,
                                           .forget = shuffle_forget,
                                           .why = shuffle_why};

td_status *td_pipeline_shuffle(td_pipeline *p, int64_t n, uint64_t seed) {
  enum { MOST = 1 << 28 };
  shuffling *h = NULL;
  if (n < 1 || n > MOST)
    return td_error(TD_INVALID_ARGUMENT,
                    "shuffle(n) needs n from 1 to %d, not %lld", MOST,
                    (long long)n);
  TD_TRY(td_stage_add(p, &shuffle_kind, sizeof *h, NULL, 0, &h));
  h->n = (size_t)n;
  h->seed = seed;
  h->drawn_of = -1;
  if (h->base.room < h->n) /* it holds more anyway */
    h->base.room = h->n < TD_STAGE_MANY ? h->n : TD_STAGE_MANY;
  return keep_state(h, 0);
}
