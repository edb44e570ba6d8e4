/* reader_ops.c - the kinds of readers, and what is done with one of any kind:
 * TFRecordReaderV2, ReaderReadV2, ...
 *
 * What a reader is and how one waits for it: reader.h. Their states, which
 * TensorFlow keeps for readers of whole files only, hold the position in the
 * file here, so that all can be saved.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "kernels/cost.h"
#include "kernels/operand.h"
#include "kernels/reader.h"

/* ---- kinds --------------------------------------------------------------- */

typedef td_reader_options (*options_fn)(const td_node *n);

static td_reader_options whole_options(const td_node *n) {
  (void)n;
  return (td_reader_options){.name = "WholeFileReader",
                             .source = {.format = TD_SOURCE_WHOLE}};
}

static td_reader_options line_options(const td_node *n) {
  return (td_reader_options){
      .name = "TextLineReader",
      .source = {.format = TD_SOURCE_LINES,
                 .skip_lines = td_node_int(n, "skip_header_lines")}};
}

static td_reader_options fixed_options(const td_node *n) {
  return (td_reader_options){
      .name = "FixedLengthRecordReader",
      .source = {.format = TD_SOURCE_FIXED,
                 .compression = td_node_string(n, "encoding"),
                 .header = td_node_int(n, "header_bytes"),
                 .record = td_node_int(n, "record_bytes"),
                 .footer = td_node_int(n, "footer_bytes"),
                 .hop = td_node_int(n, "hop_bytes")}};
}

static td_reader_options record_options(const td_node *n) {
  return (td_reader_options){
      .name = "TFRecordReader",
      .source = {.compression = td_node_string(n, "compression_type")}};
}

static td_reader_options identity_options(const td_node *n) {
  (void)n;
  return (td_reader_options){.name = "IdentityReader", .identity = true};
}

/* A kind of reader: its handle op's three functions. */
#define READER(kind)                                                           \
  static td_status *kind##_make(const td_kernel *k, td_resource **out) {       \
    td_reader_options o = kind##_options(k->node);                             \
    return td_reader_new(&o, out);                                             \
  }                                                                            \
  static td_status *kind##_check(const td_node *n, const td_resource *r) {     \
    td_reader_options o = kind##_options(n);                                   \
    return td_reader_check(r, &o);                                             \
  }                                                                            \
  static td_status *kind##_run(td_kernel_ctx *c) {                             \
    static const td_handle_kind handle = {td_reader_type, kind##_make,         \
                                          kind##_check};                       \
    return td_handle_run(c, &handle);                                          \
  }

READER(whole)
READER(line)
READER(fixed)
READER(record)
READER(identity)

/* ---- reading ------------------------------------------------------------- */

static td_status *find(const td_kernel_ctx *c, td_reader **out) {
  return td_handle_in(c, 0, td_reader_type, "a reader", (td_resource **)out);
}

static bool failed(td_kernel_ctx *c, td_status *s) {
  if (td_ok(s)) return false;
  td_kernel_done(c, s);
  return true;
}

static void read_start(td_kernel_ctx *c) {
  td_reader *r;
  if (!failed(c, find(c, &r))) td_reader_read(r, c);
}

static td_status *read_most(const td_kernel_ctx *c, int64_t *n) {
  TD_TRY(td_operand_scalar(td_in(c, 2), "num_records", n));
  if (*n >= 0) return NULL;
  return td_error(TD_INVALID_ARGUMENT,
                  "num_records must not be negative, not %lld", (long long)*n);
}

static void read_up_to_start(td_kernel_ctx *c) {
  td_reader *r;
  int64_t n = 0;
  td_status *s = find(c, &r);
  if (td_ok(s)) s = read_most(c, &n);
  if (!failed(c, s)) td_reader_read_up_to(r, c, n);
}

/* ---- states -------------------------------------------------------------- */

static void reset_start(td_kernel_ctx *c) {
  td_reader *r;
  if (!failed(c, find(c, &r))) td_reader_restore(r, c, (td_reader_state){0});
}

static td_status *read_state(const td_kernel_ctx *c, td_reader_state *out) {
  size_t len;
  if (td_in(c, 1)->shape.rank != 0)
    return td_error(TD_INVALID_ARGUMENT, "state must be a scalar");
  const char *at = td_tensor_str(td_in(c, 1), 0, &len);
  return td_reader_state_load(out, (td_bytes){at, len});
}

static void restore_start(td_kernel_ctx *c) {
  td_reader *r;
  td_reader_state state = {0};
  td_status *s = find(c, &r);
  if (td_ok(s)) s = read_state(c, &state);
  if (!failed(c, s)) td_reader_restore(r, c, state);
}

static td_status *save_run(td_kernel_ctx *c) {
  td_reader *r;
  td_str bytes = {0};
  td_shape scalar = td_shape_scalar();
  TD_TRY(find(c, &r));
  td_reader_save(r, &bytes);
  const char *at = td_str_c(&bytes);
  td_status *s = bytes.failed
                     ? td_oom()
                     : td_tensor_strings(&scalar, &at, &bytes.len, &c->out[0]);
  td_str_deinit(&bytes);
  return s;
}

/* ---- counts -------------------------------------------------------------- */

static td_status *produced_run(td_kernel_ctx *c) {
  td_reader *r;
  TD_TRY(find(c, &r));
  return td_tensor_scalar_i(TD_INT64, td_reader_produced(r), &c->out[0]);
}

static td_status *finished_run(td_kernel_ctx *c) {
  td_reader *r;
  TD_TRY(find(c, &r));
  return td_tensor_scalar_i(TD_INT64, td_reader_finished(r), &c->out[0]);
}

/* ---- those who wait ------------------------------------------------------ */

static void cancel(td_kernel_ctx *c) {
  td_reader *r;
  td_status *s = find(c, &r);
  if (td_ok(s)) td_reader_cancel(r, c);
  td_status_release(s);
}

static void why(const td_kernel_ctx *c, td_str *out) {
  td_reader *r;
  td_status *s = find(c, &r);
  if (td_ok(s)) td_reader_why(r, c, out);
  td_status_release(s);
}

/* ---- shapes -------------------------------------------------------------- */

static td_status *read_up_to_infer(td_infer *c) {
  td_shape some = {.rank = 1, .dim = {-1}};
  TD_TRY(td_infer_rank(c, 2, 0, "num_records", NULL));
  for (int i = 0; i < 2; i++) td_infer_out(c, i, some);
  return NULL;
}

static td_status *restore_infer(td_infer *c) {
  return td_infer_rank(c, 1, 0, "state", NULL);
}

/* ---- rows ---------------------------------------------------------------- */

#define FLAGS TD_STATEFUL | TD_NO_GRADIENT | TD_CHEAP
#define NAMES "container: string = \"\"; shared_name: string = \"\""
#define MAKES                                                                  \
  .shape = td_infer_scalars, .cost = td_cost_none, .lua = "", .flags = FLAGS,  \
  .section = "I/O: readers, checkpoints, files"
#define USES                                                                   \
  .cost = td_cost_none, .lua = "", .host = "*", .flags = FLAGS,                \
  .section = "I/O: readers, checkpoints, files"

static const td_op_def ops[] = {
    {.type = "WholeFileReaderV2",
     .old = "WholeFileReader",
     .sig = "-> reader_handle: resource; " NAMES,
     .doc = "A reader of whole files: the key is the name, the value the "
            "contents.",
     MAKES},
    {.type = "TextLineReaderV2",
     .old = "TextLineReader",
     .sig = "-> reader_handle: resource; skip_header_lines: int = 0; " NAMES,
     .doc = "A reader of lines, without their ends; keys are \"file:line\".",
     MAKES},
    {.type = "FixedLengthRecordReaderV2",
     .old = "FixedLengthRecordReader",
     .sig = "-> reader_handle: resource; header_bytes: int = 0; "
            "record_bytes: int; footer_bytes: int = 0; hop_bytes: int = 0; "
            "container: string = \"\"; shared_name: string = \"\"; "
            "encoding: string = \"\"",
     .doc = "A reader of records of one size between a header and a footer; "
            "keys are \"file:number\".",
     MAKES},
    {.type = "TFRecordReaderV2",
     .old = "TFRecordReader",
     .sig = "-> reader_handle: resource; container: string = \"\"; "
            "shared_name: string = \"\"; compression_type: string = \"\"",
     .doc = "A reader of TFRecord files; keys are \"file:offset\".",
     MAKES},
    {.type = "IdentityReaderV2",
     .old = "IdentityReader",
     .sig = "-> reader_handle: resource; " NAMES,
     .doc = "A reader that gives the names themselves, as key and value.",
     MAKES},
    {.type = "ReaderReadV2",
     .old = "ReaderRead",
     .sig = "reader_handle: resource, queue_handle: resource -> key: string, "
            "value: string",
     .shape = td_infer_scalars,
     .doc = "The next record of a reader, which takes names of files from the "
            "queue.",
     USES},
    {.type = "ReaderReadUpToV2",
     .old = "ReaderReadUpTo",
     .sig = "reader_handle: resource, queue_handle: resource, "
            "num_records: int64 -> keys: string, values: string",
     .shape = read_up_to_infer,
     .doc = "The next records of a reader, fewer at the end of a file.",
     USES},
    {.type = "ReaderNumRecordsProducedV2",
     .old = "ReaderNumRecordsProduced",
     .sig = "reader_handle: resource -> records_produced: int64",
     .shape = td_infer_scalars,
     .doc = "How many records a reader has given.",
     USES},
    {.type = "ReaderNumWorkUnitsCompletedV2",
     .old = "ReaderNumWorkUnitsCompleted",
     .sig = "reader_handle: resource -> units_completed: int64",
     .shape = td_infer_scalars,
     .doc = "How many files a reader has read to their end.",
     USES},
    {.type = "ReaderSerializeStateV2",
     .old = "ReaderSerializeState",
     .sig = "reader_handle: resource -> state: string",
     .shape = td_infer_scalars,
     .doc = "Where a reader is, as bytes.",
     USES},
    {.type = "ReaderRestoreStateV2",
     .old = "ReaderRestoreState",
     .sig = "reader_handle: resource, state: string ->",
     .shape = restore_infer,
     .doc = "Has a reader go on where another was.",
     USES},
    {.type = "ReaderResetV2",
     .old = "ReaderReset",
     .sig = "reader_handle: resource ->",
     .shape = td_infer_none,
     .doc = "Has a reader begin anew: the file it is in is left.",
     USES},
    {0},
};

#define CPU .device = "CPU", .flags = TD_KERNEL_INLINE
#define WAITS .device = "CPU", .cancel = cancel, .why = why

static const td_kernel_def kernels[] = {
    {.op = "WholeFileReaderV2", .run = whole_run, CPU, TD_HANDLE_STATE},
    {.op = "TextLineReaderV2", .run = line_run, CPU, TD_HANDLE_STATE},
    {.op = "FixedLengthRecordReaderV2", .run = fixed_run, CPU, TD_HANDLE_STATE},
    {.op = "TFRecordReaderV2", .run = record_run, CPU, TD_HANDLE_STATE},
    {.op = "IdentityReaderV2", .run = identity_run, CPU, TD_HANDLE_STATE},
    {.op = "ReaderReadV2", .start = read_start, WAITS},
    {.op = "ReaderReadUpToV2", .start = read_up_to_start, WAITS},
    {.op = "ReaderNumRecordsProducedV2", .run = produced_run, CPU},
    {.op = "ReaderNumWorkUnitsCompletedV2", .run = finished_run, CPU},
    {.op = "ReaderSerializeStateV2", .run = save_run, CPU},
    {.op = "ReaderRestoreStateV2", .start = restore_start, WAITS},
    {.op = "ReaderResetV2", .start = reset_start, WAITS},
    {0},
};

TD_MODULE(reader_ops, ops, kernels)
