/* reader_state.c - a reader's state in protobuf's wire form; see
 * reader_state.h.
 *
 *   1 work_started  2 work_finished  3 num_records_produced  4 current_work
 *   5 offset  6 number  7 skipped: of td_source_position
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/reader_state.h"

#include <string.h>

#include "engine/base/mem.h"

enum { VARINT = 0, BYTES = 2, WORK = 4, FIELDS = 8 };

void td_reader_state_clear(td_reader_state *s) {
  td_free(s->work);
  *s = (td_reader_state){0};
}

/* ---- writing ------------------------------------------------------------- */

static void add_varint(td_str *out, uint64_t v) {
  for (; v >= 128; v >>= 7) td_str_addc(out, (char)((v & 127) | 128));
  td_str_addc(out, (char)v);
}

static void add_number(td_str *out, int field, uint64_t v) {
  if (v == 0) return;
  add_varint(out, (uint64_t)field << 3 | VARINT);
  add_varint(out, v);
}

void td_reader_state_save(const td_reader_state *s, td_str *out) {
  add_number(out, 1, (uint64_t)s->started);
  add_number(out, 2, (uint64_t)s->finished);
  add_number(out, 3, (uint64_t)s->produced);
  if (s->work_len > 0) {
    add_varint(out, WORK << 3 | BYTES);
    add_varint(out, s->work_len);
    td_str_addn(out, s->work, s->work_len);
  }
  if (!td_reader_state_within(s)) return;
  add_number(out, 5, s->at.offset);
  add_number(out, 6, (uint64_t)s->at.number);
  add_number(out, 7, (uint64_t)s->at.skipped);
}

/* ---- reading ------------------------------------------------------------- */

static bool take_varint(td_bytes *from, uint64_t *v) {
  *v = 0;
  for (int shift = 0; shift < 70 && from->len > 0; shift += 7) {
    uint8_t b = (uint8_t)*from->at++;
    from->len--;
    if (shift < 64) *v |= (uint64_t)(b & 127) << shift;
    if (b < 128) return true;
  }
  return false;
}

/* One field, into number[field] or `work`. */
static bool take_field(td_bytes *from, uint64_t *number, td_bytes *work) {
  uint64_t tag, v;
  if (!take_varint(from, &tag)) return false;
  uint64_t field = tag >> 3, wire = tag & 7;
  if (wire == VARINT && field != WORK && field > 0 && field < FIELDS)
    return take_varint(from, &number[field]);
  if (wire != BYTES || field != WORK) return false;
  if (!take_varint(from, &v) || v > from->len) return false;
  *work = (td_bytes){from->at, (size_t)v};
  from->at += v;
  from->len -= (size_t)v;
  return true;
}

static td_status *bad(const char *why) {
  return td_error(TD_INVALID_ARGUMENT, "these bytes are no reader's state: %s",
                  why);
}

static td_status *check(const uint64_t *number, td_bytes work) {
  for (int i = 1; i < FIELDS; i++)
    if (number[i] > INT64_MAX) return bad("a number in it is negative");
  uint64_t open = number[1] - number[2];
  if (number[1] < number[2] || open > 1)
    return td_error(TD_INVALID_ARGUMENT,
                    "these bytes are no reader's state: of %llu files begun "
                    "%llu are over",
                    (unsigned long long)number[1],
                    (unsigned long long)number[2]);
  if (open && work.len == 0) return bad("the file that is open has no name");
  if (memchr(work.at, 0, work.len)) return bad("the file's name holds a NUL");
  return NULL;
}

td_status *td_reader_state_load(td_reader_state *s, td_bytes from) {
  uint64_t number[FIELDS] = {0};
  td_bytes work = {"", 0};
  while (from.len > 0)
    if (!take_field(&from, number, &work))
      return bad("they are cut short, or of something else");
  TD_TRY(check(number, work));
  char *name = td_strndup(work.at, work.len);
  if (!name) return td_oom();
  td_reader_state_clear(s);
  *s = (td_reader_state){.started = (int64_t)number[1],
                         .finished = (int64_t)number[2],
                         .produced = (int64_t)number[3],
                         .work = name,
                         .work_len = work.len,
                         .at = {.offset = number[5],
                                .number = (int64_t)number[6],
                                .skipped = (int64_t)number[7]}};
  return NULL;
}
