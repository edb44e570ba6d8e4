/* pipeline_state.c - where a pipeline stands, as bytes, and going on from
 * there.
 *
 * The bytes begin with the names of the stages. Then comes, from the last stage
 * to the source, where each stood after the output that the one behind it needs
 * next: its number, how many outputs are to be dropped behind it, the mark, and
 * what the stage adds.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/pipeline/pipeline_impl.h"

void td_stage_write(td_str *out, int64_t v) {
  td_str_addn(out, (const char *)&v, sizeof v);
}

td_status *td_stage_read(const char **at, const char *end, int64_t *v) {
  if (end - *at < (ptrdiff_t)sizeof *v)
    return td_error(TD_DATA_LOSS, "the state of the pipeline is cut short");
  memcpy(v, *at, sizeof *v);
  *at += sizeof *v;
  return NULL;
}

static td_status *save_stage(td_stage *s, int64_t upto, td_str *out,
                             int64_t *in) {
  td_mark m;
  int64_t at = upto;
  td_str own;
  td_str_init(&own);
  td_status *st = NULL;
  if (s->kind->save)
    st = s->kind->save(s, upto, &own, &at, &m);
  else
    m = s->marks.at[upto - s->first_mark];
  if (td_ok(st)) {
    td_stage_write(out, at);
    td_stage_write(out, upto - at);
    td_stage_write(out, m.in);
    td_stage_write(out, m.in_epoch);
    td_stage_write(out, m.epoch);
    for (int i = 0; i < TD_MARK_OWN; i++) td_stage_write(out, m.at[i]);
    td_stage_write(out, (int64_t)own.len);
    td_str_addn(out, td_str_c(&own), own.len);
    *in = m.in;
  }
  td_str_deinit(&own);
  return st;
}

static const char magic[] = "tide.pipeline.1";

/* Names and columns, so that the state of another pipeline is refused. */
static void write_shape_of(const td_pipeline *p, td_str *out) {
  td_str_addn(out, magic, sizeof magic);
  for (td_stage *s = p->last; s; s = s->before)
    td_str_addf(out, "%s/%d;", s->kind->name, s->n_columns);
  td_str_addc(out, '\0');
}

td_status *td_pipeline_save(td_pipeline *p, td_str *out) {
  td_status *st = NULL;
  td_pipeline_seize(p);
  write_shape_of(p, out);
  td_stage_write(out, p->over);
  int64_t upto = p->last->given;
  /* After no output a stage stands at the very beginning, as do all before. */
  for (td_stage *s = p->last; td_ok(st) && s && upto > 0; s = s->before)
    st = save_stage(s, upto, out, &upto);
  td_pipeline_leave(p);
  if (td_ok(st) && out->failed) st = td_oom();
  return st;
}

static td_status *load_stage(td_stage *s, const char **at, const char *end) {
  int64_t out = 0, skip = 0, own = 0;
  td_mark m = {0};
  TD_TRY(td_stage_read(at, end, &out));
  TD_TRY(td_stage_read(at, end, &skip));
  TD_TRY(td_stage_read(at, end, &m.in));
  TD_TRY(td_stage_read(at, end, &m.in_epoch));
  TD_TRY(td_stage_read(at, end, &m.epoch));
  for (int i = 0; i < TD_MARK_OWN; i++)
    TD_TRY(td_stage_read(at, end, &m.at[i]));
  TD_TRY(td_stage_read(at, end, &own));
  if (out < 0 || skip < 0 || m.in < 0 || m.in_epoch < 0 || m.epoch < 0 ||
      own < 0 || own > end - *at || (!s->kind->load && own > 0))
    return td_error(TD_DATA_LOSS, "the state of the %s is damaged",
                    s->kind->name);
  s->out = s->given = s->first_mark = out;
  s->skip = skip;
  s->now = m;
  s->marks.at[0] = m;
  s->marks.len = 1;
  const char *stop = *at + own;
  if (s->kind->load) TD_TRY(s->kind->load(s, at, stop));
  if (*at != stop)
    return td_error(TD_DATA_LOSS, "the state of the %s is damaged",
                    s->kind->name);
  return NULL;
}

static td_status *load_all(td_pipeline *p, const char *at, const char *end) {
  int64_t over = 0;
  TD_TRY(td_stage_read(&at, end, &over));
  for (td_stage *s = p->last; s && at != end; s = s->before)
    TD_TRY(load_stage(s, &at, end));
  if (at != end)
    return td_error(TD_DATA_LOSS,
                    "the state of the pipeline has %lld bytes "
                    "too many",
                    (long long)(end - at));
  p->over = over != 0;
  return NULL;
}

td_status *td_pipeline_load(td_pipeline *p, td_bytes from) {
  td_str want;
  td_str_init(&want);
  write_shape_of(p, &want);
  bool same = !want.failed && from.len >= want.len &&
              memcmp(from.at, want.at, want.len) == 0;
  size_t begin = want.len;
  td_str_deinit(&want);
  if (!same)
    return td_error(TD_INVALID_ARGUMENT,
                    "the state is not that of a pipeline of these stages");
  pthread_mutex_lock(&p->lock);
  bool used = p->asked > 0;
  pthread_mutex_unlock(&p->lock);
  if (used)
    return td_error(TD_FAILED_PRECONDITION,
                    "a state is restored before the first element is taken");
  td_pipeline_seize(p);
  td_status *st = load_all(p, from.at + begin, from.at + from.len);
  td_pipeline_leave(p);
  return st;
}
