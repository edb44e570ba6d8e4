/* sorted_table.h - a file of keys and values, sorted by key.
 *
 * LevelDB's table, as checkpoints use it for their index: blocks of entries,
 * whose keys leave out what they share with the one before; behind each block
 * its check; then a block of where the blocks are, and a foot of 48 bytes that
 * says where that one is. Blocks are not packed.
 *
 * Here a table is made, and read, in memory as a whole: indices are small.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_SORTED_TABLE_H
#define TD_SORTED_TABLE_H

#include "engine/base/status.h"
#include "engine/base/str.h"

TD_BEGIN

typedef struct td_sorted_entry {
  td_bytes key, value;
} td_sorted_entry;

/* Of two keys, by their bytes: below 0, 0, above 0. */
int td_sorted_compare(td_bytes a, td_bytes b);

/* Appends a table of n entries, whose keys ascend and differ; the same bytes
 * that TensorFlow writes for them. */
td_status *td_sorted_table_write(const td_sorted_entry *entries, size_t n,
                                 td_str *out) TD_MUST_USE;

/* Calls `each` with every entry of a table, in order, until it fails. Nothing of
 * `file` is trusted: DATA_LOSS for a block whose check does not hold, that is cut
 * off or whose keys do not ascend. Key and value are borrowed during the call,
 * the key without a NUL. */
typedef td_status *(*td_sorted_each)(void *arg, td_bytes key, td_bytes value);
td_status *td_sorted_table_read(td_bytes file, td_sorted_each each,
                                void *arg) TD_MUST_USE;

TD_END
#endif
