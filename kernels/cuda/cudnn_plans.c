/* cudnn_plans.c - plans that were made, kept in memory and in files.
 *
 * To ask for engines costs a millisecond, the first time seconds, in which the
 * library reads what it knows of all cards; a plan that was written down is
 * there in a tenth of one. A file is one plan, under a hash of what it is for:
 * the version of cuDNN, the card, the convolution. All of that stands in it
 * again, and a check sum before it, since the library trusts what it reads.
 *
 * What there is no plan for is kept, too.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "engine/base/crc32c.h"
#include "engine/base/file.h"
#include "engine/base/map.h"
#include "engine/base/mem.h"
#include "kernels/cuda/cudnn.h"

enum {
  KEPT = 512,
  LARGEST = 1 << 22, /* bytes of a file */
  SUM = 9,           /* a check sum in hexadecimal, and a new line */
};

typedef struct entry {
  td_cudnn_conv of;
  td_cudnn_plan plan;
  bool none;
  uint64_t used; /* when, last */
} entry;

struct td_cudnn_plans {
  const td_cudnn_card *card;
  td_map of;    /* of td_cudnn_conv: entries, owned */
  char *folder; /* owned; NULL: no files */
  uint64_t now;
  td_cudnn_stats stats;
};

td_status *td_cudnn_plans_new(const td_cudnn_card *card, const char *folder,
                              td_cudnn_plans **out) {
  td_cudnn_plans *p = td_calloc(1, sizeof *p);
  if (!p) return td_oom();
  p->card = card;
  p->folder = folder ? td_strdup(folder) : NULL;
  if (folder && !p->folder) {
    td_free(p);
    return td_oom();
  }
  td_map_init(&p->of);
  *out = p;
  return NULL;
}

static void free_entry(td_cudnn_plans *p, entry *e) {
  td_cudnn_plan_deinit(p->card, &e->plan);
  td_free(e);
}

void td_cudnn_plans_free(td_cudnn_plans *p) {
  const td_map_entry *e;
  if (!p) return;
  for (size_t i = 0; td_map_next(&p->of, &i, &e);) free_entry(p, e->value);
  td_map_deinit(&p->of);
  td_free(p->folder);
  td_free(p);
}

td_cudnn_stats td_cudnn_plans_read_stats(const td_cudnn_plans *p) {
  td_cudnn_stats s = p->stats;
  s.kept = (int64_t)p->of.count;
  return s;
}

/* ---- files --------------------------------------------------------------- */

/* What a plan is for, with a new line behind it. */
static void add_purpose(const td_cudnn_plans *p, const td_cudnn_conv *v,
                        td_str *out) {
  const int64_t *at = (const int64_t *)v;
  td_str_addf(out, "cuDNN %zu\n%s\n", p->card->api->GetVersion(),
              p->card->json);
  for (size_t i = 0; i < offsetof(td_cudnn_conv, axes) / sizeof *at; i++)
    td_str_addf(out, "%lld ", (long long)at[i]);
  td_str_addf(out, "%d %d %d %d\n", v->axes, v->pass, v->dtype, v->precision);
}

/* Both are the caller's to end. False: no files, or no memory. */
static bool name_file(const td_cudnn_plans *p, const td_cudnn_conv *v,
                      td_str *purpose, td_str *path) {
  td_str_init(purpose);
  td_str_init(path);
  if (!p->folder) return false;
  add_purpose(p, v, purpose);
  if (purpose->failed) return false;
  td_str_addf(path, "%s/%016llx.plan", p->folder,
              (unsigned long long)td_hash(purpose->at, purpose->len, 0));
  return !path->failed;
}

static bool is_whole(const char *bytes, size_t n, const td_str *purpose) {
  char sum[SUM + 1];
  if (n <= SUM + purpose->len || memchr(bytes, '\0', n)) return false;
  snprintf(sum, sizeof sum, "%08x\n", td_crc32c(bytes + SUM, n - SUM));
  return memcmp(bytes, sum, SUM) == 0 &&
         memcmp(bytes + SUM, purpose->at, purpose->len) == 0;
}

static bool read_file(td_cudnn_plans *p, const char *path,
                      const td_str *purpose, size_t room, td_cudnn_plan *out) {
  char *bytes = NULL;
  size_t n = 0;
  td_status *s = td_file_read(path, LARGEST, &bytes, &n);
  bool whole = td_ok(s) && is_whole(bytes, n, purpose);
  if (whole) s = td_cudnn_plan_read(p->card, bytes + SUM + purpose->len, out);
  td_free(bytes);
  bool read = whole && td_ok(s);
  td_status_release(s);
  if (!read || out->workspace <= room) return read;
  td_cudnn_plan_deinit(p->card, out);
  return false;
}

/* From a file, which need not be there. */
static bool read_plan(td_cudnn_plans *p, const td_cudnn_conv *v, size_t room,
                      td_cudnn_plan *out) {
  td_str purpose, path;
  bool read = name_file(p, v, &purpose, &path) && td_file_exists(path.at) &&
              read_file(p, path.at, &purpose, room, out);
  p->stats.read += read;
  td_str_deinit(&purpose);
  td_str_deinit(&path);
  return read;
}

static td_status *write_file(const td_cudnn_plans *p, const char *path,
                             const td_cudnn_plan *plan, const td_str *purpose) {
  td_str text;
  td_str_init(&text);
  td_str_addf(&text, "%08x\n%s", 0, td_str_c(purpose));
  td_status *s = td_cudnn_plan_write(p->card, plan, &text);
  if (td_ok(s)) {
    char sum[SUM + 1];
    snprintf(sum, sizeof sum, "%08x\n",
             td_crc32c(text.at + SUM, text.len - SUM));
    memcpy(text.at, sum, SUM);
    s = td_file_mkdirs(p->folder);
  }
  if (td_ok(s)) s = td_file_write(path, text.at, text.len);
  td_str_deinit(&text);
  return s;
}

static void write_plan(td_cudnn_plans *p, const td_cudnn_conv *v,
                       const td_cudnn_plan *plan) {
  td_str purpose, path;
  if (name_file(p, v, &purpose, &path)) {
    td_status *s = write_file(p, path.at, plan, &purpose);
    p->stats.written += td_ok(s);
    td_status_release(s);
  }
  td_str_deinit(&purpose);
  td_str_deinit(&path);
}

/* ---- finding ------------------------------------------------------------- */

/* What was used longest ago goes. */
static void make_room(td_cudnn_plans *p) {
  const td_map_entry *e;
  entry *oldest = NULL;
  if (p->of.count < KEPT) return;
  for (size_t i = 0; td_map_next(&p->of, &i, &e);) {
    entry *one = e->value;
    if (!oldest || one->used < oldest->used) oldest = one;
  }
  (void)td_map_removen(&p->of, &oldest->of, sizeof oldest->of);
  free_entry(p, oldest);
}

/* A plan, or none; an error only where there is no memory. */
static td_status *plan_from(td_cudnn_plans *p, entry *e, int place,
                            size_t room) {
  td_status *s = td_cudnn_plan_make(p->card, &e->of, place, room, &e->plan);
  bool short_of_memory =
      !td_ok(s) && td_status_code(s) == TD_RESOURCE_EXHAUSTED;
  if (short_of_memory) return s;
  e->none = !td_ok(s);
  td_status_release(s);
  p->stats.made += !e->none;
  if (!e->none) write_plan(p, &e->of, &e->plan);
  return NULL;
}

static td_status *add(td_cudnn_plans *p, const td_cudnn_conv *v, size_t room,
                      entry **out) {
  entry *e = td_calloc(1, sizeof *e);
  td_status *s = NULL;
  if (!e) return td_oom();
  e->of = *v;
  make_room(p);
  if (!read_plan(p, v, room, &e->plan)) s = plan_from(p, e, 0, room);
  if (td_ok(s) && !td_map_putn(&p->of, v, sizeof *v, e)) s = td_oom();
  if (!td_ok(s)) {
    free_entry(p, e);
    return s;
  }
  *out = e;
  return NULL;
}

td_status *td_cudnn_plans_find(td_cudnn_plans *p, const td_cudnn_conv *v,
                               size_t room, const td_cudnn_plan **out) {
  entry *e = td_map_getn(&p->of, v, sizeof *v);
  if (TD_UNLIKELY(!e)) TD_TRY(add(p, v, room, &e));
  e->used = ++p->now;
  *out = e->none ? NULL : &e->plan;
  return NULL;
}

/* A plan from a file has no place: what runs may come again behind it. */
td_status *td_cudnn_plans_next(td_cudnn_plans *p, const td_cudnn_conv *v,
                               size_t room, const td_cudnn_plan **out) {
  entry *e = td_map_getn(&p->of, v, sizeof *v);
  *out = NULL;
  if (!e || e->none) return NULL;
  int place = e->plan.config ? e->plan.place + 1 : 0;
  td_cudnn_plan_deinit(p->card, &e->plan);
  e->none = true; /* where it ends with an error */
  TD_TRY(plan_from(p, e, place, room));
  *out = e->none ? NULL : &e->plan;
  return NULL;
}
