#include <string.h>
#include "engine/base/clock.h"
#include "engine/remote/master_impl.h"
#include "engine/run/session_members.h"
td_status *td_remote_detach(td_remote *r, td_session *s, const char *task, bool drop) {
  td_member *w = NULL;
  td_remote_enter(r);
  for (size_t i = 0; i < r->masters.len; i++)
    if (r->masters.at[i]->session == s)
      for (size_t k = 0; k < r->masters.at[i]->members.len; k++) {
        td_member *m = r->masters.at[i]->members.at[k];
        if (m->state != TD_MEMBER_ENDED && strcmp(m->task, task) == 0) w = m;
      }
  if (w) td_member_retain(w);
  td_remote_leave(r);
  if (!w) return td_error(TD_NOT_FOUND, "%s takes no part in this session", task);
  td_status *st = td_session_leave(s, &w->base, drop);
  td_member_release(w);
  return st;
}
void td_remote_row_deinit(td_remote_row *row) {
  td_free(row->task); td_free(row->address); td_free(row->error);
}
void td_remote_rows(td_remote *r, td_session *s, void (*each)(void *arg, const td_remote_row *row), void *arg) {
  (void)s;
  td_remote_enter(r);
  for (size_t i = 0; i < r->peers.len; i++) {
    td_peer *p = r->peers.at[i];
    td_remote_row row = {.task = p->task, .address = p->control, .error = (char *)(p->error ? td_status_message(p->error) : ""),
      .state = td_health_name(p->health.state), .heard = (double)(td_clock_now() - p->health.heard) * 1e-9,
      .steps = p->steps, .memory = p->memory, .bytes_in = p->bytes_in, .bytes_out = p->bytes_out, .round_trip = p->round_trip, .clock = p->clock, .incarnation = p->incarnation, .pid = p->pid};
    each(arg, &row);
  }
  td_remote_leave(r);
}
