/* records.c - libFuzzer: no bytes may break the reading of records. The first
 * byte chooses the format, how it is packed and what is passed over.
 *
 * Whatever they are, records lie within the file, a position leads to what
 * came there, and who passes over all errors meets none.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stdio.h>

#include "engine/base/crc32c.h"
#include "engine/io/source.h"
#include "tests/engine/base/mem_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char path[] = "mem://f";

static td_source_options options_of(uint8_t how) {
  static const char *const packed[] = {"", "", "ZLIB", "GZIP"};
  return (td_source_options){.format = (td_source_format)(how & 3),
                             .compression = packed[how >> 2 & 3],
                             .limit = 1 << 20,
                             .skip_errors = how & 16 ? -1 : how >> 5 & 1,
                             .skip_lines = how >> 6,
                             .header = how >> 6,
                             .record = 1 + (how >> 4 & 3),
                             .hop = how >> 5 & 3,
                             .footer = how >> 7};
}

/* Where the n-th record begins must be where it comes from again. */
static void check_again(td_source_position at, const td_source_options *o,
                        uint32_t crc, size_t len) {
  td_record_source *s;
  td_source_record r;
  bool more;
  if (td_source_open(path, o, &s)) __builtin_trap();
  if (td_source_seek(s, at)) __builtin_trap();
  if (td_source_next(s, &r, &more) || !more) __builtin_trap();
  if (r.len != len || td_crc32c(r.at, r.len) != crc) __builtin_trap();
  td_source_close(s);
}

static void read_all(td_record_source *s, const td_source_options *o) {
  td_source_record r;
  bool more = true;
  for (int n = 0; more; n++) {
    td_source_position at = td_source_tell(s);
    td_status *failed = td_source_next(s, &r, &more);
    bool sure = o->format == TD_SOURCE_RECORDS && o->skip_errors < 0;
    if (failed && sure) __builtin_trap();
    if (!failed && more && n % 16 == 3)
      check_again(at, o, td_crc32c(r.at, r.len), r.len);
    if (failed) more = false;
    td_status_release(failed);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  td_record_source *s;
  if (size == 0 || !mem_files_only(path, data + 1, size - 1)) return 0;
  td_source_options o = options_of(data[0]);
  if (td_source_open(path, &o, &s)) __builtin_trap();
  read_all(s, &o);
  td_source_close(s);
  return 0;
}
