/* field.h - the fields of a small protobuf message, one after the other.
 *
 *   for (td_field f; from.len > 0;)
 *     if (!td_field_take(&from, &f)) return broken();
 *
 * No message is built, and nothing takes memory: bytes are those of the message.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_FIELD_H
#define TD_FIELD_H

#include "engine/base/str.h"

TD_BEGIN

typedef struct td_field {
  int number;
  uint64_t v;     /* of a number */
  td_bytes bytes; /* of text, or a message within */
} td_field;

/* Takes the next field of a message that is not at its end; false when it is cut
 * off, or of no kind. */
bool td_field_take(td_bytes *from, td_field *f);

/* Appends a number; a text or a message. */
void td_field_put(td_str *out, int number, uint64_t v);
void td_field_put_bytes(td_str *out, int number, td_bytes bytes);

TD_END
#endif
