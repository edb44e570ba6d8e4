/* line.h - lines of evaluation, which share one interpreter.
 *
 * A *line* runs code in order: the prompt is one, a notebook's cells are one, a
 * subshell is one more. Each belongs to one thread at a time and has a
 * coroutine of its own; they take turns in the interpreter, which is free while
 * a step runs, a line waits for input, or a wait ends by td_line_wait. Whoever
 * waits for a turn gets it within milliseconds, from busy Lua code too.
 *
 * An interrupt may come from any thread or signal handler and gives control
 * back within a second from Lua code, coroutines, pcall loops, steps and waits.
 * (A library call in C that never looks, such as an exponential string.find, is
 * the exception.)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TD_LUA_LINE_H
#define TD_LUA_LINE_H

#include "engine/base/base.h"

typedef struct td_host td_host;
typedef struct td_line td_line;

/* One more; `name` is how Lua knows it (a subshell's id). NULL: no memory. */
td_line *td_line_new(td_host *h, const char *name);
void td_line_free(td_line *l);
const char *td_line_name(const td_line *l);
/* The one this thread runs at the moment, or NULL. */
td_line *td_line_current(void);

/* Async-signal-safe. False, and nothing done, when the line is idle. */
bool td_line_interrupt(td_line *l);
/* Signals once more to a call that was interrupted and has not seen it: a wait
 * in a library may have begun just after the first time. False when there is
 * none. */
bool td_line_nudge(td_line *l);
/* True while something runs. */
bool td_line_busy(const td_line *l);
/* True from an interrupt until the call it meant has ended. */
bool td_line_interrupted(const td_line *l);
/* True while what runs is no Lua code: a step, a wait. */
bool td_line_waiting(const td_line *l);

/* Around a wait in C code that the line's Lua code called: others may run.
 * Nothing of Lua may be touched between the two. */
void td_line_wait(td_line *l);
void td_line_resume(td_line *l);

#endif
