/* decode_compressed.c - DecodeCompressed: strings that zlib or gzip made small.
 *
 * A few bytes can stand for gigabytes: what they become grows in memory of the
 * device, whose limit holds, and twice as much at a time. Bytes behind the end
 * of a zlib stream are left alone; gzip's may be several streams, one after the
 * other. Strings are split into pieces, for several threads; a piece ends at
 * its first bad string.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <string.h>
#include <zlib.h>

#include "engine/base/mem.h"
#include "kernels/cost.h"
#include "kernels/cpu.h"
#include "kernels/text.h"

enum { FIRST = 4096 /* bytes of room */, GZIP_HEADER = 16 };

/* Text that grows. */
typedef struct grown {
  td_kernel_ctx *ctx;
  td_tensor memory;
  size_t len, room;
} grown;

static td_status *more_room(grown *g) {
  size_t room = g->room ? 2 * g->room : FIRST;
  td_shape shape = td_shape_vector((int64_t)room);
  td_tensor wider;
  if (room > INT64_MAX / 2) return td_oom();
  TD_TRY(td_temp(g->ctx, TD_UINT8, &shape, &wider));
  if (g->len) memcpy(wider.data, g->memory.data, g->len);
  td_tensor_release(&g->memory);
  g->memory = wider;
  g->room = room;
  return NULL;
}

static td_status *broken(int64_t i, const z_stream *z, int rc) {
  return td_error(TD_DATA_LOSS, "string %lld: %s", (long long)i,
                  z->msg              ? z->msg
                  : rc == Z_BUF_ERROR ? "it ends too early"
                                      : "its compressed data are broken");
}

/* One call of inflate, with as much of `from` as it takes. */
static int inflate_some(z_stream *z, td_bytes *from, grown *g) {
  size_t in = from->len < UINT_MAX ? from->len : UINT_MAX;
  size_t out = g->room - g->len < UINT_MAX ? g->room - g->len : UINT_MAX;
  z->next_in = (Bytef *)(uintptr_t)from->at;
  z->avail_in = (uInt)in;
  z->next_out = (Bytef *)g->memory.data + g->len;
  z->avail_out = (uInt)out;
  int rc = inflate(z, Z_NO_FLUSH);
  from->at += in - z->avail_in;
  from->len -= in - z->avail_in;
  g->len += out - z->avail_out;
  return rc;
}

static td_status *inflate_all(z_stream *z, td_bytes from, bool gzip, int64_t i,
                              grown *g) {
  for (;;) {
    if (td_stopped(g->ctx))
      return td_status_derive(td_error(TD_CANCELLED, "the step was cancelled"));
    if (g->len == g->room) TD_TRY(more_room(g));
    bool starved = from.len == 0;
    int rc = inflate_some(z, &from, g);
    if (rc == Z_MEM_ERROR) return td_oom();
    if (rc == Z_STREAM_END && (!gzip || from.len == 0)) return NULL;
    if (rc == Z_STREAM_END) rc = inflateReset(z);
    bool stuck = rc == Z_BUF_ERROR || (starved && g->len < g->room);
    if (stuck) return broken(i, z, Z_BUF_ERROR);
    if (rc != Z_OK) return broken(i, z, rc);
  }
}

static td_status *decompress(td_bytes from, bool gzip, int64_t i, grown *g) {
  z_stream z = {0};
  if (from.len == 0) return NULL;
  if (inflateInit2(&z, MAX_WBITS + (gzip ? GZIP_HEADER : 0)) != Z_OK)
    return td_oom();
  td_status *s = inflate_all(&z, from, gzip, i, g);
  inflateEnd(&z);
  return s;
}

/* ---- the op -------------------------------------------------------------- */

static td_status *check_type(const char *type) {
  if (!*type || strcmp(type, "ZLIB") == 0 || strcmp(type, "GZIP") == 0)
    return NULL;
  if (strcmp(type, "ZSTD") == 0)
    return td_error(TD_UNIMPLEMENTED,
                    "compression_type \"ZSTD\" is not supported: \"ZLIB\", "
                    "\"GZIP\" and \"\" are");
  return td_error(TD_INVALID_ARGUMENT,
                  "compression_type must be \"ZLIB\", \"GZIP\" or \"\", not "
                  "\"%.60s\"",
                  type);
}

static td_status *infer(td_infer *c) {
  TD_TRY(check_type(td_infer_string(c, "compression_type")));
  return td_infer_same(c);
}

/* The strings [begin, end), and where each of what they became ends. */
typedef struct piece {
  const td_tensor *x;
  bool gzip;
  int64_t begin, end;
  grown g;
  uint64_t *ends;
  td_status *status;
} piece;

enum { PIECES = 64 /* at most */, COST = 16 /* of a byte */ };

static td_status *decompress_piece(piece *p) {
  for (int64_t i = p->begin; i < p->end; i++) {
    TD_TRY(decompress(td_text_at(p->x, i), p->gzip, i, &p->g));
    p->ends[i] = p->g.len;
  }
  return NULL;
}

static void decompress_pieces(void *arg, int64_t begin, int64_t end) {
  piece *pieces = arg;
  for (int64_t k = begin; k < end; k++)
    pieces[k].status = decompress_piece(&pieces[k]);
}

static td_status *put_together(td_kernel_ctx *c, const piece *pieces, int n) {
  const td_shape *shape = &td_in(c, 0)->shape;
  size_t len = 0, at = 0;
  uint64_t *offsets;
  char *text;
  td_tensor y;
  for (int k = 0; k < n; k++)
    if (!td_add(len, pieces[k].g.len, &len)) return td_oom();
  TD_TRY(td_tensor_strings_new(shape, len, &y, &offsets, &text));
  for (int k = 0; k < n; k++) {
    const piece *p = &pieces[k];
    if (p->g.len) memcpy(text + at, p->g.memory.data, p->g.len);
    for (int64_t i = p->begin; i < p->end; i++)
      offsets[i + 1] = offsets[0] + at + p->ends[i];
    at += p->g.len;
  }
  td_out_set(c, 0, &y);
  td_tensor_release(&y);
  return NULL;
}

static td_status *decompress_all(td_kernel_ctx *c, piece *pieces, int n) {
  td_status *s = NULL;
  td_for(c, n, 1, decompress_pieces, pieces);
  for (int k = 0; k < n; k++) {
    if (td_ok(s))
      s = pieces[k].status;
    else
      td_status_release(pieces[k].status);
  }
  if (td_ok(s) && td_stopped(c))
    s = td_status_derive(td_error(TD_CANCELLED, "the step was cancelled"));
  return td_ok(s) ? put_together(c, pieces, n) : s;
}

/* Strings in a piece. */
static int64_t piece_of(const td_tensor *x, int64_t count) {
  int64_t each = count ? (int64_t)td_tensor_bytes(x) / count : 0;
  int64_t grain = td_grain_of(COST * each);
  int64_t least = (count + PIECES - 1) / PIECES;
  return grain > least ? grain : least;
}

static td_status *split(td_kernel_ctx *c, bool gzip, uint64_t *ends) {
  const td_tensor *x = td_in(c, 0);
  int64_t count = td_tensor_count(x), each = piece_of(x, count);
  int n = (int)((count + each - 1) / each);
  piece *pieces = td_calloc((size_t)n + 1, sizeof *pieces);
  if (!pieces) return td_oom();
  for (int64_t k = 0; k < n; k++)
    pieces[k] = (piece){.x = x,
                        .gzip = gzip,
                        .begin = k * each,
                        .end = k == n - 1 ? count : (k + 1) * each,
                        .g.ctx = c,
                        .ends = ends};
  td_status *s = decompress_all(c, pieces, n);
  for (int k = 0; k < n; k++) td_tensor_release(&pieces[k].g.memory);
  td_free(pieces);
  return s;
}

static td_status *run(td_kernel_ctx *c) {
  const char *type = td_node_string(td_ctx_node(c), "compression_type");
  int64_t count = td_tensor_count(td_in(c, 0));
  size_t bytes;
  if (!*type) {
    td_out_pass(c, 0, 0);
    return NULL;
  }
  if (!td_mul((size_t)count + 1, sizeof(uint64_t), &bytes)) return td_oom();
  uint64_t *ends = td_malloc(bytes);
  if (!ends) return td_oom();
  td_status *s = split(c, strcmp(type, "GZIP") == 0, ends);
  td_free(ends);
  return s;
}

static const td_op_def ops[] = {
    {.type = "DecodeCompressed",
     .sig = "bytes: string -> output: string; compression_type: string = \"\"",
     .shape = infer,
     .cost = td_cost_move,
     .doc = "Each string decompressed: compression_type is ZLIB, GZIP or none.",
     .example = "td.decode_compressed(\"as it is\")  --> as it is",
     .flags = TD_NO_GRADIENT,
     .section = "I/O: readers, checkpoints, files"},
    {0},
};

static const td_kernel_def kernels[] = {
    {.op = "DecodeCompressed", .device = "CPU", .run = run},
    {0},
};

TD_MODULE(decode_compressed, ops, kernels)
