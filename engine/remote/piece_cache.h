/* piece_cache.h - the pieces of graphs that a worker has, by their hashes.
 *
 * A registration names its pieces; they are *pinned*, so that none goes while
 * others come, those that are missing are asked for, and arrive in parts of any
 * size, twice or out of order. When all are there they are joined. Unpinned
 * pieces are kept for the next registration, the one used last longest, up to
 * `keep` bytes; whatever is pinned, or has begun to come, is never more than
 * `most` together with them.
 *
 * What comes is another's: sizes are checked before memory is taken, a part of
 * a piece that nobody pinned is refused, and a piece is one when its hash is
 * right. Not locked: it belongs to who owns the channel.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PIECE_CACHE_H
#define TD_PIECE_CACHE_H

#include "engine/remote/pieces.h"

TD_BEGIN

typedef struct td_piece_cache td_piece_cache;

typedef struct td_piece_cache_stats {
  size_t pieces;  /* whole ones */
  size_t kept;    /* bytes of those that nobody pinned */
  size_t held;    /* of everything, with what an entry takes */
  int64_t hits;   /* pieces that were there when they were pinned */
  int64_t misses;
} td_piece_cache_stats;

/* Of `keep` 0: 256 MiB; of `most` 0: 4 GiB. Caller owns the result (free);
 * NULL: no memory. */
td_piece_cache *td_piece_cache_new(size_t keep, size_t most);
void td_piece_cache_free(td_piece_cache *c);

/* All of the `n` or, after an error, none. A piece named twice is pinned twice;
 * those that are not there yet may come from now on. */
td_status *td_piece_cache_pin(td_piece_cache *c, const td_piece_hash *hash,
                              size_t n) TD_MUST_USE;
/* A piece that has only begun to come goes with its last pin. */
void td_piece_cache_unpin(td_piece_cache *c, const td_piece_hash *hash,
                          size_t n);
/* Of pinned pieces those that are not whole: their places in `hash`, each piece
 * once, into `at` (room for n). Returns how many. */
size_t td_piece_cache_missing(td_piece_cache *c, const td_piece_hash *hash,
                              size_t n, size_t *at);

/* A whole piece, pinned or not. DATA_LOSS when it is not what the hash says. */
td_status *td_piece_cache_add(td_piece_cache *c, const td_piece_hash *hash,
                              const void *bytes, size_t len) TD_MUST_USE;
/* Bytes [offset, offset + n) of a pinned piece of `size` bytes. *whole: it is
 * there now. DATA_LOSS when all came and the hash is wrong: it has to come
 * again from the start. */
td_status *td_piece_cache_part(td_piece_cache *c, const td_piece_hash *hash,
                               uint64_t size, uint64_t offset,
                               const void *bytes, size_t n, bool *whole)
    TD_MUST_USE;

/* The pieces one after the other, at most `most` bytes. NOT_FOUND when one is
 * missing. Caller owns *out (td_free). */
td_status *td_piece_cache_join(td_piece_cache *c, const td_piece_hash *hash,
                               size_t n, size_t most, char **out, size_t *len)
    TD_MUST_USE;

td_piece_cache_stats td_piece_cache_read_stats(const td_piece_cache *c);

TD_END
#endif
