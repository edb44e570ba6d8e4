/* plain.c - the prompt without an editor: lines from standard input.
 *
 * For pipes and terminals that cannot move their cursor. What is typed is run
 * once it is complete.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "repl/plain.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/mem.h"
#include "repl/interrupt.h"

/* Byte by byte: what follows belongs to who reads next, such as io.read, which
 * leaves what it did not read in its turn. */
bool td_plain_line(const char *prompt, td_str *typed, bool *cancelled) {
  *cancelled = false;
  fputs(prompt, stdout);
  fflush(stdout);
  for (;;) {
    char c;
    ssize_t n = read(0, &c, 1);
    if (n < 0) {
      td_interrupt_reset();
      *cancelled = true;
      td_str_clear(typed);
      putchar('\n');
      return true;
    }
    if (n == 0) return typed->len > 0;
    if (c == '\n') return true;
    td_str_addc(typed, c);
  }
}

bool td_plain_leaves(const td_str *chunk) {
  static const char *const words[] = {"exit", "quit", "exit()", "quit()"};
  for (size_t i = 0; i < TD_COUNT(words); i++)
    if (!strcmp(td_str_c(chunk), words[i])) return true;
  return false;
}

void td_plain_execute(td_line *line, const td_str *chunk,
                      td_ask_result *result) {
  td_interrupt_reset();
  td_ask_execute(line, td_str_c(chunk), chunk->len, result);
  fflush(stderr);
  if (result->outcome == TD_HOST_INTERRUPTED)
    puts("interrupted");
  else if (result->outcome == TD_HOST_ERROR)
    puts(td_str_c(&result->text));
  fflush(stdout);
}

static bool is_complete(td_line *line, const td_str *chunk) {
  char *indent;
  td_interrupt_reset();
  td_ask_state state =
      td_ask_is_complete(line, td_str_c(chunk), chunk->len, &indent);
  td_free(indent);
  return state != TD_ASK_INCOMPLETE;
}

/* True: that was all. What is to stand at the next prompt is only shown: here
 * nobody could change it. */
static bool evaluate(td_line *line, const td_str *chunk) {
  td_ask_result result;
  if (td_plain_leaves(chunk)) return true;
  td_plain_execute(line, chunk, &result);
  if (result.next.len) puts(td_str_c(&result.next));
  bool leave = result.leave;
  td_ask_result_deinit(&result);
  return leave;
}

void td_plain_run(td_line *line) {
  td_str chunk, typed;
  bool cancelled, leave = false;
  td_str_init(&chunk);
  td_str_init(&typed);
  setvbuf(stdin, NULL, _IONBF, 0);
  while (!leave) {
    td_str_clear(&typed);
    if (!td_plain_line(chunk.len ? ">> " : "> ", &typed, &cancelled)) break;
    if (cancelled) {
      td_str_clear(&chunk);
      continue;
    }
    if (chunk.len) td_str_addc(&chunk, '\n');
    td_str_addn(&chunk, td_str_c(&typed), typed.len);
    if (chunk.len && is_complete(line, &chunk)) {
      leave = evaluate(line, &chunk);
      td_str_clear(&chunk);
    }
  }
  if (!leave) putchar('\n');
  if (chunk.len) evaluate(line, &chunk); /* the end: what is missing is told */
  td_str_deinit(&chunk);
  td_str_deinit(&typed);
}
