/* stage_count.c - stages that count: repeat, first, skip, prefetch.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/pipeline/stage.h"

typedef struct counting {
  td_stage base; /* first */
  int64_t n;     /* < 0: no end */
} counting;

static td_status *add(td_pipeline *p, const td_stage_kind *kind, int64_t n) {
  counting *c = NULL;
  TD_TRY(td_stage_add(p, kind, sizeof *c, NULL, 0, &c));
  c->n = n;
  return NULL;
}

/* Calls pass(stage, element) while there are elements and room. */
static bool pass_all(td_stage *s, void (*pass)(counting *c, td_element e)) {
  bool changed = false;
  for (; td_stage_has_input(s) && td_stage_has_room(s); changed = true)
    pass((counting *)s, td_stage_take(s));
  return changed;
}

/* ---- repeat --------------------------------------------------------------
 *
 * at[0]: epochs that were joined so far, at[1]: has this one had elements? One
 * without any ends it: there would be no end to looking. Its epoch k begins
 * with epoch first_of(k) of the stages before it: what comes earlier, when it
 * was cut or looks no further, is dropped. */

static int64_t first_of(const counting *c, int64_t epoch) {
  return c->n >= 0 ? epoch * c->n : epoch << 32;
}

/* Goes on with epoch s->wanted, once it is there. */
static void pass_over(counting *c) {
  td_stage *s = &c->base;
  int64_t first = first_of(c, s->wanted);
  td_stage_skip_to(s, first);
  if (s->now.in_epoch >= first) td_stage_put_end(s, s->wanted);
}

static void repeat_pass(counting *c, td_element e) {
  td_stage *s = &c->base;
  if (td_stage_is_unwanted(s)) {
    td_element_drop(&e);
  } else if (!e.end) {
    s->now.at[1] = 1;
    td_stage_put(s, e);
  } else {
    bool empty = s->now.at[1] == 0;
    s->now.at[0]++;
    s->now.at[1] = 0;
    if (empty || (c->n >= 0 && s->now.at[0] >= c->n))
      s->wanted = s->now.epoch + 1;
  }
  if (td_stage_is_unwanted(s)) pass_over(c);
}

static bool repeat_advance(td_stage *s) {
  counting *c = (counting *)s;
  if (c->n == 0) { /* never anything */
    bool changed = td_stage_has_room(s);
    if (changed) td_stage_put_end(s, td_stage_next_epoch(s));
    return changed;
  }
  if (td_stage_is_unwanted(s)) td_stage_skip_to(s, first_of(c, s->wanted));
  return pass_all(s, repeat_pass);
}

static const td_stage_kind repeat_kind = {
    .name = "repeat", .light = true, .joins = true, .advance = repeat_advance};

td_status *td_pipeline_repeat(td_pipeline *p, int64_t epochs) {
  return add(p, &repeat_kind, epochs);
}

/* ---- first ---------------------------------------------------------------
 *
 * at[0]: elements given in this epoch. */

static void first_pass(counting *c, td_element e) {
  td_stage *s = &c->base;
  if (e.end) {
    td_stage_put(s, e);
  } else if (s->now.at[0] >= c->n) {
    td_element_drop(&e);
  } else {
    s->now.at[0]++;
    td_stage_put(s, e);
  }
}

static bool first_advance(td_stage *s) {
  counting *c = (counting *)s;
  bool changed = pass_all(s, first_pass);
  if (s->now.at[0] >= c->n) td_stage_skip_to(s, s->now.in_epoch + 1);
  return changed;
}

static const td_stage_kind first_kind = {
    .name = "take", .light = true, .advance = first_advance};

td_status *td_pipeline_first(td_pipeline *p, int64_t n) {
  if (n < 0)
    return td_error(TD_INVALID_ARGUMENT, "take(n) needs n >= 0, not %lld",
                    (long long)n);
  return add(p, &first_kind, n);
}

/* ---- skip ----------------------------------------------------------------
 *
 * at[0]: elements left out in this epoch. */

static void skip_pass(counting *c, td_element e) {
  td_stage *s = &c->base;
  if (!e.end && s->now.at[0] < c->n) {
    s->now.at[0]++;
    td_element_drop(&e);
  } else {
    td_stage_put(s, e);
  }
}

static bool skip_advance(td_stage *s) {
  return pass_all(s, skip_pass);
}

static const td_stage_kind skip_kind = {
    .name = "skip", .light = true, .advance = skip_advance};

td_status *td_pipeline_skip(td_pipeline *p, int64_t n) {
  if (n < 0)
    return td_error(TD_INVALID_ARGUMENT, "skip(n) needs n >= 0, not %lld",
                    (long long)n);
  return add(p, &skip_kind, n);
}

/* ---- prefetch ------------------------------------------------------------ */

static void prefetch_pass(counting *c, td_element e) {
  td_stage_put(&c->base, e);
}

static bool prefetch_advance(td_stage *s) {
  return pass_all(s, prefetch_pass);
}

static void prefetch_why(td_stage *s, td_str *out) {
  td_str_addf(out, "prefetch has %zu of %zu", s->ready.len - s->ready_at,
              s->room);
}

static const td_stage_kind prefetch_kind = {
    .name = "prefetch", .advance = prefetch_advance, .why = prefetch_why};

td_status *td_pipeline_prefetch(td_pipeline *p, int64_t n) {
  enum { MOST = 1 << 20 };
  if (n < 1 || n > MOST)
    return td_error(TD_INVALID_ARGUMENT,
                    "prefetch(n) needs n from 1 to %d, not %lld", MOST,
                    (long long)n);
  TD_TRY(add(p, &prefetch_kind, n));
  td_pipeline_last(p)->room = (size_t)n;
  return NULL;
}
