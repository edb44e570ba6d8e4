/* request.h - a message from a client.
 *
 * Its frames are kept as they came: what is sent back (the identities, its
 * header as the reply's parent) is the very bytes that were received. Its JSON
 * is parsed once; whoever serves it asks for single members. Counted: who
 * answers later keeps it. Read-only once parsed, so any thread may read it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_JUPYTER_REQUEST_H
#define TD_JUPYTER_REQUEST_H

#include "engine/base/status.h"
#include "engine/base/str.h"

#define TD_JUPYTER_DELIMITER "<IDS|MSG>" /* a frame, behind the identities */

/* The frames behind the delimiter, as numbers of td_jupyter_request_part;
 * buffers follow. The signature is that of the four parts behind it. */
typedef enum td_jupyter_part {
  TD_JUPYTER_PART_SIGNATURE = 1,
  TD_JUPYTER_PART_HEADER,
  TD_JUPYTER_PART_PARENT,
  TD_JUPYTER_PART_METADATA,
  TD_JUPYTER_PART_CONTENT,
} td_jupyter_part;

typedef struct td_jupyter_request td_jupyter_request;

/* Takes the frames of one whole message from the socket, unparsed; without a
 * message, TD_UNAVAILABLE. Caller owns *out, which is NULL on errors. */
td_status *td_jupyter_request_receive(void *socket,
                                      td_jupyter_request **out) TD_MUST_USE;
/* The message of these frames, unparsed; copies them. Caller owns *out. */
td_status *td_jupyter_request_make(const td_bytes *frames, int n,
                                   td_jupyter_request **out) TD_MUST_USE;
/* Once, and before what follows is asked. TD_DATA_LOSS: its header cannot be
 * read, so that there is nobody to be answered. */
td_status *td_jupyter_request_parse(td_jupyter_request *r) TD_MUST_USE;
td_jupyter_request *td_jupyter_request_retain(td_jupyter_request *r);
void td_jupyter_request_release(td_jupyter_request *r);

/* All of these are borrowed and valid while `r` lives. */
const char *td_jupyter_request_type(const td_jupyter_request *r);
bool td_jupyter_request_is(const td_jupyter_request *r, const char *type);
/* The subshell it is for; "" means the first line. */
const char *td_jupyter_request_subshell(const td_jupyter_request *r);
/* Why another part cannot be read: then the reply is an error that says so.
 * NULL: all is well. */
const char *td_jupyter_request_problem(const td_jupyter_request *r);
/* The id of the message that it answers; "" when it answers none. */
const char *td_jupyter_request_parent_id(const td_jupyter_request *r);
/* A boolean of the content; `otherwise` where there is none of that name. */
bool td_jupyter_request_flag(const td_jupyter_request *r, const char *name,
                             bool otherwise);
/* A string of the content; at = NULL where there is none of that name. */
td_bytes td_jupyter_request_text(const td_jupyter_request *r, const char *name);
/* The bytes of a part; also before it is parsed. */
td_bytes td_jupyter_request_part(const td_jupyter_request *r,
                                 td_jupyter_part part);
/* The n-th buffer; false when there are no more. */
bool td_jupyter_request_buffer(const td_jupyter_request *r, int n,
                               td_bytes *out);
/* The n-th identity, by which ZeroMQ finds the client; false: no more. */
bool td_jupyter_request_identity(const td_jupyter_request *r, int n,
                                 td_bytes *out);

#endif
