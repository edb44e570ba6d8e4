/* outbox.c - replies on their way to the thread that owns their socket.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "jupyter/outbox.h"

#include "engine/base/mem.h"

typedef struct letter {
  td_jupyter_entry entry;
  td_jupyter_request *to;
  char *type;
  td_str content, metadata;
} letter;

static void letter_free(letter *l) {
  td_jupyter_request_release(l->to);
  td_str_deinit(&l->content);
  td_str_deinit(&l->metadata);
  td_free(l->type);
  td_free(l);
}

void td_jupyter_outbox_post(td_jupyter_queue *outbox, td_jupyter_request *to,
                            const char *type, const td_str *content,
                            const char *metadata) {
  letter *l = td_calloc(1, sizeof *l);
  if (!l) return;
  l->to = td_jupyter_request_retain(to);
  l->type = td_strdup(type);
  td_str_init(&l->content);
  td_str_init(&l->metadata);
  td_str_addn(&l->content, td_str_c(content), content->len);
  if (metadata) td_str_add(&l->metadata, metadata);
  td_jupyter_queue_put(outbox, &l->entry);
}

/* What is told where there was no memory for a reply. */
static const char no_memory[] = "{\"status\": \"error\", \"ename\": \"Error\", "
                                "\"evalue\": \"not enough memory\", "
                                "\"traceback\": [\"not enough memory\"]}";

void td_jupyter_outbox_send(td_jupyter_queue *outbox, const td_jupyter_wire *w,
                            void *socket) {
  letter *l;
  while ((l = td_jupyter_queue_take(outbox))) {
    td_bytes content = {td_str_c(&l->content), l->content.len};
    if (l->content.failed || !content.len)
      content = (td_bytes){no_memory, sizeof no_memory - 1};
    td_jupyter_reply reply = {
        .to = l->to,
        .type = l->type,
        .content = content,
        .metadata = {td_str_c(&l->metadata), l->metadata.len}};
    td_jupyter_wire_send(w, socket, &reply, NULL);
    letter_free(l);
  }
}
