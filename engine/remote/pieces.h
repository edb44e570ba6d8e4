/* pieces.h - a graph's bytes as pieces that are known by what is in them.
 *
 * A graph goes to a worker once. What goes later is mostly the same graph, with
 * nodes appended or a few of them changed: it is split into pieces, named by
 * their hashes, and only those go that the worker lacks (piece_cache.h).
 *
 * Pieces end where their content says so, not at fixed places: after a node
 * whose hash has its lowest five bits zero, so that an insertion moves what
 * follows and changes only the piece it is in. A node of TD_PIECE_ALONE bytes
 * and more (a constant), the head of the library and each function in it are
 * pieces by themselves.
 *
 * The pieces one after the other are the bytes, in their order, whatever these
 * are: what is no GraphDef is one piece.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_PIECES_H
#define TD_PIECES_H

#include "engine/base/status.h"

TD_BEGIN

enum {
  TD_PIECE_LONG = 64 << 10, /* bytes: a piece of small nodes ends here */
  TD_PIECE_ALONE = 4 << 10, /* bytes of a node that is a piece */
};
#define TD_PIECE_MOST ((size_t)2 << 30) /* bytes of any piece */

/* BLAKE2b of 32 bytes: who does not hold the bytes cannot make others that
 * have it. */
typedef struct td_piece_hash {
  uint8_t at[32];
} td_piece_hash;

typedef struct td_piece {
  size_t offset, len; /* len > 0 */
  td_piece_hash hash;
} td_piece;

typedef struct td_pieces { /* a TD_VEC; {0} is empty */
  td_piece *at;
  size_t len, cap;
} td_pieces;

/* Replaces what is in `out`; it is empty after an error. */
td_status *td_pieces_split(const void *bytes, size_t len, td_pieces *out)
    TD_MUST_USE;
void td_pieces_free(td_pieces *p);

td_status *td_pieces_hash(const void *bytes, size_t len, td_piece_hash *out)
    TD_MUST_USE;

TD_END
#endif
