/* keys.h - who is who: key pairs, lists of keys, and the public keys that
 * workers of this machine leave.
 *
 * A process is known by a pair of CURVE (ZeroMQ's; X25519). Whoever has a
 * public key can tell that it speaks with its owner, and a worker lets in only
 * the keys on its list. A key is 32 bytes, and 40 characters as text (Z85).
 *
 * A folder holds a pair: tide.key is the secret half, which only its owner may
 * read, tide.pub the public one, a line that can be put on a list as it is. A
 * list has a public key a line, with a name behind it; # begins a comment:
 *
 *   rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7  anna@lab
 *
 * On one machine nobody need tell his other processes a worker's public key: it
 * leaves it in a folder that only its user may enter, and who dials it looks
 * there.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_KEYS_H
#define TD_KEYS_H

#include "engine/base/status.h"
#include "engine/base/str.h"

TD_BEGIN

enum { TD_KEY_BYTES = 32, TD_KEY_TEXT = 40 };

typedef struct td_keys_key {
  uint8_t bytes[TD_KEY_BYTES];
} td_keys_key;

typedef struct td_keys_pair {
  td_keys_key pub, secret;
} td_keys_pair;

/* ---- one key ------------------------------------------------------------- */

/* The key that the `len` characters stand for; false where they are none. */
bool td_keys_parse(const char *text, size_t len, td_keys_key *out);
void td_keys_print(const td_keys_key *key, char text[TD_KEY_TEXT + 1]);

/* ---- pairs --------------------------------------------------------------- */

/* A new pair. The caller wipes it (td_keys_wipe), as every pair it has read. */
td_status *td_keys_generate(td_keys_pair *out) TD_MUST_USE;
void td_keys_wipe(td_keys_pair *pair);
/* Where a user's pair is: $XDG_CONFIG_HOME/tide, or .config/tide at home. */
td_status *td_keys_folder(td_str *path) TD_MUST_USE;
/* Writes tide.key and tide.pub, each whole or not at all; makes the folder.
 * `name` stands behind the public key. ALREADY_EXISTS where a pair is there,
 * unless `force`. */
td_status *td_keys_write(const char *folder, const td_keys_pair *pair,
                         const char *name, bool force) TD_MUST_USE;
/* The pair of a folder; `pub` follows from the secret. PERMISSION_DENIED where
 * others may read the secret. */
td_status *td_keys_read(const char *folder, td_keys_pair *out) TD_MUST_USE;

/* ---- lists --------------------------------------------------------------- */

typedef struct td_keys_list td_keys_list;

/* Caller owns the result. PERMISSION_DENIED where anybody may write the file.
 */
td_status *td_keys_list_read(const char *path, td_keys_list **out) TD_MUST_USE;
/* Of `len` bytes, which messages call `what`. Caller owns the result. */
td_status *td_keys_list_parse(const char *text, size_t len, const char *what,
                              td_keys_list **out) TD_MUST_USE;
/* The name behind the key, "" where it has none; NULL where the key is not on
 * the list. Borrowed; valid while `list` lives. */
const char *td_keys_list_find(const td_keys_list *list, const td_keys_key *key);
size_t td_keys_list_count(const td_keys_list *list);
/* The i-th by its bytes, and its name. Borrowed, as above. */
const char *td_keys_list_at(const td_keys_list *list, size_t i,
                            td_keys_key *key);
void td_keys_list_free(td_keys_list *list); /* NULL is ok. */

/* ---- on this machine ----------------------------------------------------- */

/* The folder of keys that workers leave: $XDG_RUNTIME_DIR/tide, else
 * /tmp/tide-UID; made where it is not there. PERMISSION_DENIED unless it is
 * this user's alone, and no link. */
td_status *td_keys_runtime_folder(td_str *path) TD_MUST_USE;
/* A worker that listens at `address` ("tcp://host:port", "ipc:///path") leaves
 * its public key, in place of one that was left before. Those of workers that
 * were killed go. */
td_status *td_keys_leave(const char *address,
                         const td_keys_key *pub) TD_MUST_USE;
/* The key left for the address, NOT_FOUND where there is none. A host that is
 * not this machine has none here. */
td_status *td_keys_find(const char *address, td_keys_key *out) TD_MUST_USE;
/* Takes it away, if it is still `pub`: another worker may be there by now. */
td_status *td_keys_remove(const char *address,
                          const td_keys_key *pub) TD_MUST_USE;

TD_END
#endif
