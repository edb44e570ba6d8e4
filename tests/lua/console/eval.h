/* eval.h - a host whose cells are run one by one, for tests.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_TESTS_LUA_CONSOLE_EVAL_H
#define TD_TESTS_LUA_CONSOLE_EVAL_H

#include <string.h>

#include "engine/base/mem.h"
#include "lua/console/host.h"

/* The last result's text, as JSON has it. */
static char eval_result[4096];

static void eval_publish(void *arg, td_line *line,
                         const td_frontend_message *m) {
  (void)arg;
  (void)line;
  const char *key = "\"text/plain\": \"";
  const char *at = strstr(m->content.at, key);
  if (strcmp(m->type, "execute_result") || !at) return;
  at += strlen(key);
  size_t n = strcspn(at, "\"");
  if (n >= sizeof eval_result) n = sizeof eval_result - 1;
  memcpy(eval_result, at, n);
  eval_result[n] = 0;
}

static const td_frontend eval_frontend = {.kind = "notebook",
                                          .publish = eval_publish};

/* Runs a cell; `text` gets the reply, or the error's. */
static td_host_outcome eval_cell(td_host *h, const char *code, td_str *text) {
  td_str request;
  td_str_init(&request);
  td_str_add(&request, "{\"store_history\": false, \"code\": ");
  td_str_json(&request, code, strlen(code));
  td_str_addc(&request, '}');
  eval_result[0] = 0;
  td_host_outcome o = TD_HOST_ERROR;
  if (request.failed)
    td_str_add(text, "out of memory");
  else
    o = td_host_call(td_host_line(h), "execute", td_str_c(&request),
                     request.len, text);
  td_str_deinit(&request);
  if (o == TD_HOST_OK && strstr(td_str_c(text), "\"status\": \"error\""))
    o = TD_HOST_ERROR;
  return o;
}

#endif
