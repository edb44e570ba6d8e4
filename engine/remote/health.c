/* health.c - four states and what leads from one to another.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/remote/health.h"

#include "engine/remote/cells.h"

void td_health_init(td_health *h, int64_t now) {
  *h = (td_health){TD_JOINING, now, now, 0, 0};
}

const char *td_health_name(td_health_state s) {
  static const char *const names[] = {"joining", "up", "suspect", "dead"};
  return names[s];
}

static td_health_state heard(td_health *h, int64_t now) {
  if (h->state == TD_DEAD) return TD_DEAD;
  h->heard = now;
  h->excused = 0;
  return TD_UP;
}

static td_health_state suspect(const td_health *h) {
  return h->state == TD_UP ? TD_SUSPECT : h->state;
}

static td_health_state next(td_health *h, td_health_event e, int64_t now) {
  switch (e) {
  case TD_HEARD:
    return heard(h, now);
  case TD_BROKEN:
  case TD_SILENT:
    return suspect(h);
  case TD_VERY_SILENT:
    return h->state == TD_JOINING ? TD_JOINING : TD_DEAD;
  case TD_RESTARTED:
  case TD_REFUSED:
  case TD_ENDED:
    return TD_DEAD;
  case TD_STALLED:
    return h->state;
  }
  return h->state;
}

bool td_health_on(td_health *h, td_health_event e, int64_t now) {
  td_health_state was = h->state;
  td_cell(TD_CELLS_PEER, was, e);
  h->state = next(h, e, now);
  if (h->state == was) return false;
  h->since = now;
  h->suspected += h->state == TD_SUSPECT;
  return true;
}

void td_health_excuse(td_health *h, int64_t now, int64_t ns) {
  int64_t silent = now - h->heard - h->excused;
  h->excused += ns < silent ? ns : silent > 0 ? silent : 0;
}

bool td_health_tick(td_health *h, int64_t now, int64_t patient, double scale) {
  int64_t silent = (int64_t)((double)(now - h->heard - h->excused) / scale);
  if (now < patient || h->state == TD_DEAD) return false;
  if (silent >= TD_HEALTH_DEAD) return td_health_on(h, TD_VERY_SILENT, now);
  if (silent >= TD_HEALTH_SUSPECT && h->state != TD_SUSPECT)
    return td_health_on(h, TD_SILENT, now);
  return false;
}
