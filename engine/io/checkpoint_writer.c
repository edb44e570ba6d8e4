/* checkpoint_writer.c - data beside, then under their name, then the index.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "engine/io/checkpoint_writer.h"

#include <string.h>

#include "engine/base/bytes.h"
#include "engine/base/crc32c.h"
#include "engine/base/file.h"
#include "engine/base/file_stream.h"
#include "engine/base/mem.h"
#include "engine/io/checkpoint_entry.h"
#include "engine/io/checkpoint_index.h"
#include "engine/io/checkpoint_place.h"

enum {
  PIECE = 1 << 20,      /* bytes written at once */
  SYNC_EVERY = 8 << 20, /* so many are sent on their way to the disk */
};

struct td_checkpoint_writer {
  td_checkpoint_place place;
  td_checkpoint_index *index;
  td_str data_path; /* of the file beside; "" once it is renamed */
  td_file *data;
  uint64_t size;             /* of the data so far */
  uint64_t sent;             /* of them on their way to the disk */
  bool failed;               /* a file's error: nothing is taken any more */
  td_checkpoint_go_on go_on; /* or NULL */
  void *arg;                 /* for it */
};

/* ---- opening ------------------------------------------------------------- */

static td_status *open_data(td_checkpoint_writer *w) {
  td_str_addf(&w->data_path, "%s.data.tempstate", w->place.prefix);
  if (w->data_path.failed) return td_oom();
  return td_file_open(w->data_path.at, TD_FILE_WRITE, &w->data);
}

td_status *td_checkpoint_writer_open(const char *prefix,
                                     td_checkpoint_writer **out) {
  td_checkpoint_writer *w = td_calloc(1, sizeof *w);
  if (!w) return td_oom();
  td_status *s = td_checkpoint_place_take(prefix, &w->place);
  if (td_ok(s)) s = td_checkpoint_index_new(prefix, &w->index);
  if (td_ok(s)) s = open_data(w);
  if (td_ok(s))
    *out = w;
  else
    td_checkpoint_writer_close(w);
  return s;
}

void td_checkpoint_writer_close(td_checkpoint_writer *w) {
  if (!w) return;
  if (w->data) td_status_release(td_file_close(w->data));
  if (w->data_path.len > 0 && td_file_exists(w->data_path.at))
    td_status_release(td_file_remove(w->data_path.at));
  td_str_deinit(&w->data_path);
  td_checkpoint_index_free(w->index);
  td_checkpoint_place_leave(&w->place);
  td_free(w);
}

/* ---- tensors ------------------------------------------------------------- */

void td_checkpoint_writer_ask(td_checkpoint_writer *w,
                              td_checkpoint_go_on go_on, void *arg) {
  w->go_on = go_on;
  w->arg = arg;
}

static td_status *ask(const td_checkpoint_writer *w, bool last) {
  if (!w->go_on || w->go_on(w->arg, last)) return NULL;
  return td_error(TD_CANCELLED, "writing checkpoint '%s' was stopped",
                  w->place.prefix);
}

static td_status *append(td_checkpoint_writer *w, const void *bytes, size_t n,
                         uint32_t *crc) {
  for (size_t done = 0; done < n;) {
    size_t piece = n - done < PIECE ? n - done : PIECE;
    const char *at = (const char *)bytes + done;
    TD_TRY(ask(w, false));
    *crc = td_crc32c_add(*crc, at, piece);
    TD_TRY(td_file_append(w->data, at, piece));
    done += piece;
    w->size += piece;
    if (w->size - w->sent < SYNC_EVERY) continue;
    td_file_start_sync(w->data);
    w->sent = w->size;
  }
  return NULL;
}

/* Lengths, their check, and the text, which lies in one piece. */
static td_status *append_strings(td_checkpoint_writer *w, const td_tensor *t,
                                 uint32_t *crc) {
  int64_t n = td_tensor_count(t);
  td_str head = {0};
  size_t len, total = 0, first;
  for (int64_t i = 0; i < n; i++) {
    (void)td_tensor_str(t, i, &len);
    td_varint_put(&head, len);
    *crc = td_checkpoint_length_crc(*crc, len);
    total += len;
  }
  size_t lengths = head.len;
  td_bytes_put(&head, td_crc32c_mask(*crc), 4);
  td_status *s = head.failed ? td_oom() : NULL;
  uint32_t unused = 0;
  if (td_ok(s)) s = append(w, head.at, lengths, &unused);
  if (td_ok(s)) s = append(w, head.at + lengths, 4, crc);
  td_str_deinit(&head);
  if (td_ok(s) && total > 0)
    s = append(w, td_tensor_str(t, 0, &first), total, crc);
  return s;
}

static td_status *append_tensor(td_checkpoint_writer *w, const td_tensor *t,
                                td_checkpoint_entry *e) {
  uint32_t crc = 0;
  e->offset = w->size;
  td_status *s = t->dtype == TD_STRING
                     ? append_strings(w, t, &crc)
                     : append(w, t->data, td_tensor_bytes(t), &crc);
  e->size = w->size - e->offset;
  e->crc = crc;
  if (!td_ok(s)) w->failed = true;
  return s;
}

static td_status *check_tensor(const td_checkpoint_writer *w, const char *name,
                               const td_tensor *t) {
  if (w->failed)
    return td_error(TD_FAILED_PRECONDITION,
                    "checkpoint '%s' takes no more: writing it failed before",
                    w->place.prefix);
  if (!*name)
    return td_error(TD_INVALID_ARGUMENT,
                    "a tensor of a checkpoint has no name");
  if (!td_dtype_is_plain(t->dtype) && t->dtype != TD_STRING)
    return td_error(TD_UNIMPLEMENTED,
                    "tensor \"%s\" of dtype %s cannot be saved: it is no value",
                    name, td_dtype_name(t->dtype));
  if (!td_tensor_on_host(t))
    return td_error(TD_INTERNAL, "tensor \"%s\" is not in host memory", name);
  return NULL;
}

td_status *td_checkpoint_writer_add(td_checkpoint_writer *w, const char *name,
                                    const td_tensor *t) {
  td_checkpoint_entry *e;
  TD_TRY(check_tensor(w, name, t));
  TD_TRY(td_checkpoint_index_add(w->index, name, t->dtype, &t->shape, &e));
  return append_tensor(w, t, e);
}

td_status *td_checkpoint_writer_add_slice(td_checkpoint_writer *w,
                                          const char *name,
                                          const td_shape *whole,
                                          const td_slice *slice,
                                          const td_tensor *t) {
  td_shape part;
  td_shape_text a, b;
  td_checkpoint_entry *e;
  TD_TRY(check_tensor(w, name, t));
  TD_TRY(td_slice_shape(whole, slice, &part));
  if (!td_shape_equal(&part, &t->shape))
    return td_error(TD_INVALID_ARGUMENT,
                    "tensor \"%s\" of shape %s is not a slice of %s", name,
                    td_shape_str(&t->shape, &a), td_shape_str(&part, &b));
  TD_TRY(td_checkpoint_index_add_slice(w->index, name, t->dtype, whole, slice,
                                       &e));
  return append_tensor(w, t, e);
}

/* ---- committing ---------------------------------------------------------- */

static td_status *put_data(td_checkpoint_writer *w, const char *to) {
  td_status *s = td_file_sync(w->data);
  if (td_ok(s)) s = ask(w, true);
  s = td_status_first(s, td_file_close(w->data));
  w->data = NULL;
  if (td_ok(s)) s = td_file_rename(w->data_path.at, to);
  if (td_ok(s)) td_str_clear(&w->data_path);
  return s;
}

static td_status *put_index(td_checkpoint_writer *w, const char *data,
                            const td_str *index, int shards) {
  bool begun;
  td_status *s = td_checkpoint_place_commit(&w->place, index, shards, &begun);
  if (!td_ok(s) && !begun) td_status_release(td_file_remove(data));
  return s;
}

static td_status *commit(td_checkpoint_writer *w) {
  int first, shards;
  td_str bytes = {0}, data = {0};
  TD_TRY(td_checkpoint_place_choose(&w->place, 1, &first, &shards));
  td_checkpoint_place_shard(&w->place, first, shards, &data);
  td_status *s = data.failed ? td_oom() : NULL;
  if (td_ok(s)) s = td_checkpoint_index_bytes(w->index, first, shards, &bytes);
  if (td_ok(s)) s = put_data(w, data.at);
  if (td_ok(s)) s = put_index(w, data.at, &bytes, shards);
  td_str_deinit(&bytes);
  td_str_deinit(&data);
  return s;
}

td_status *td_checkpoint_writer_commit(td_checkpoint_writer *w) {
  if (w->failed || !w->data)
    return td_error(TD_FAILED_PRECONDITION,
                    "checkpoint '%s' cannot be ended: it was before, or "
                    "writing it failed",
                    w->place.prefix);
  td_status *s = commit(w);
  if (!td_ok(s)) w->failed = true;
  return s;
}
