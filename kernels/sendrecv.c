/* sendrecv.c - the ends of a part: _Send and _Recv, _Arg and _Retval.
 *
 * The partition puts them where an edge leaves a device or its memory. Which
 * mailbox of the step they meet in is the note "_edge"; TensorFlow's attributes
 * stay beside it so that parts are graphs like any other. A value in a mailbox
 * is one that both sides reach: a sender whose device is neither the receiver's
 * nor a peer of it brings it into host memory first; the receiver fetches it
 * into its own.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/base/mem.h"
#include "engine/device/kernel_start.h"

/* Of one _Send or _Recv, the program's own. */
typedef struct end {
  int32_t edge;
  bool stage; /* sends: goes through host memory */
} end;

/* Does the device called `to` copy out of d's memory itself? */
static bool is_peer(const td_device *d, const char *to) {
  td_device_name other, both;
  td_status *s = td_device_name_parse(to, &other);
  bool ok = td_ok(s) && d->copy_peer && strcmp(d->type, other.type) == 0;
  td_status_release(s);
  other.index =
      d->parsed.index; /* of one process: they differ in nothing else */
  return ok && td_device_name_intersect(&d->parsed, &other, &both);
}

static td_status *end_make(const td_kernel_info *info, void **state) {
  const td_node *n = info->node;
  const td_attr *edge = td_node_attr(n, "_edge");
  if (!edge || edge->kind != TD_ATTR_INT || edge->is_list || edge->i < 0 ||
      edge->i > INT32_MAX)
    return td_error(TD_INVALID_ARGUMENT,
                    "the attribute _edge must give the edge's number");
  end *e = td_malloc(sizeof *e);
  if (!e) return td_oom();
  e->edge = (int32_t)edge->i;
  e->stage = n->op->kind == TD_OP_SEND &&
             !td_kernel_in_host(n, info->device, 0) &&
             strcmp(td_node_string(n, "send_device"),
                    td_node_string(n, "recv_device")) != 0 &&
             !is_peer(info->device, td_node_string(n, "recv_device"));
  *state = e;
  return NULL;
}

static td_key key_of(const td_kernel_ctx *c) {
  const end *e = c->kernel->state;
  return (td_key){
      .edge = e->edge, .frame = c->frame, .iteration = c->iteration};
}

/* Whether or not it was an error that fired the cancel, nothing more will be
 * sent in this step: whoever waits is woken. */
static void cancel(td_kernel_ctx *c) {
  td_step_fail(c->step, td_status_derive(
                            td_error(TD_CANCELLED, "the step was cancelled")));
}

/* ---- _Send --------------------------------------------------------------- */

typedef struct staged {
  td_kernel_ctx *ctx;
  td_tensor value; /* in host memory */
} staged;

static void send_staged(void *arg, td_status *s) {
  staged *w = arg;
  td_kernel_ctx *c = w->ctx;
  if (td_ok(s))
    s = td_rendezvous_send(c->step->rendezvous, key_of(c), &w->value, false);
  td_tensor_release(&w->value);
  td_free(w);
  td_kernel_done(c, s);
}

static void send_start(td_kernel_ctx *c) {
  const end *e = c->kernel->state;
  if (c->dead || !e->stage) {
    td_tensor value = c->in[0]; /* moved: the receiver may write into it */
    c->in[0] = (td_tensor){0};
    td_kernel_done(
        c, td_rendezvous_send(c->step->rendezvous, key_of(c), &value, c->dead));
    return;
  }
  td_device *d = c->kernel->device;
  staged *w = td_calloc(1, sizeof *w);
  if (!w) {
    td_kernel_done(c, td_oom());
    return;
  }
  w->ctx = c;
  td_kernel_transfer(c, &c->in[0], d->host, &w->value, send_staged, w);
}

/* ---- _Recv --------------------------------------------------------------- */

typedef struct receipt {
  td_receiver base; /* first */
  td_kernel_ctx *ctx;
  td_tensor value; /* as it was sent */
} receipt;

static void received(void *arg, td_status *s) {
  receipt *r = arg;
  td_kernel_ctx *c = r->ctx;
  td_tensor_release(&r->value);
  td_free(r);
  td_kernel_done(c, s);
}

static td_status *check_dtype(const td_kernel_ctx *c, const td_tensor *value) {
  td_dtype want = td_ctx_node(c)->out[0].dtype;
  if (value->dtype == want) return NULL;
  return td_error(TD_INTERNAL, "%s was sent where %s is received",
                  td_dtype_name(value->dtype), td_dtype_name(want));
}

static void got(td_receiver *base, td_tensor value, bool dead, td_status *s) {
  receipt *r = (receipt *)base;
  td_kernel_ctx *c = r->ctx;
  td_device *d = c->kernel->device;
  r->value = value;
  if (td_ok(s) && dead) c->out_dead = true;
  if (td_ok(s) && !dead) s = check_dtype(c, &value);
  if (td_ok(s) && !dead)
    td_kernel_transfer(c, &r->value,
                       c->kernel->out_host[0] ? d->host : d->memory, &c->out[0],
                       received, r);
  else
    received(r, s);
}

static void recv_start(td_kernel_ctx *c) {
  receipt *r = td_calloc(1, sizeof *r);
  if (!r) {
    td_kernel_done(c, td_oom());
    return;
  }
  r->base.got = got;
  r->ctx = c;
  td_rendezvous_receive(c->step->rendezvous, key_of(c), &r->base);
}

/* ---- what they wait for -------------------------------------------------- */

static void send_why(const td_kernel_ctx *c, td_str *out) {
  td_str_addf(out, "the copy of %s into host memory",
              td_node_string(td_ctx_node(c), "tensor_name"));
}

static void recv_why(const td_kernel_ctx *c, td_str *out) {
  const td_node *n = td_ctx_node(c);
  td_str_addf(out, "%s from %s", td_node_string(n, "tensor_name"),
              td_node_string(n, "send_device"));
}

/* ---- _Arg and _Retval ---------------------------------------------------- */

/* Attributes are T and index. */
static int64_t index_of(const td_kernel_ctx *c) {
  return td_ctx_node(c)->attr[1].i;
}

static td_status *no_step(const char *what) {
  return td_error(TD_FAILED_PRECONDITION, "only a session's step has %s", what);
}

static td_status *arg_run(td_kernel_ctx *c) {
  const td_tensor *args = c->step->args;
  td_dtype want = td_ctx_node(c)->out[0].dtype;
  if (!args) return no_step("feeds");
  const td_tensor *t = &args[index_of(c)];
  if (t->dtype != want)
    return td_error(TD_INVALID_ARGUMENT, "feed %lld is %s, not %s",
                    (long long)index_of(c), td_dtype_name(t->dtype),
                    td_dtype_name(want));
  td_out_set(c, 0, t);
  return NULL;
}

static td_status *retval_run(td_kernel_ctx *c) {
  if (!c->step->rets) return no_step("fetches");
  int64_t i = index_of(c);
  if (c->step->rets[i].buffer)
    return td_error(TD_INVALID_ARGUMENT, "fetch %lld is set by two parts",
                    (long long)i);
  c->step->rets_dead[i] = c->dead;
  if (!c->dead) td_tensor_retain(td_in(c, 0), &c->step->rets[i]);
  return NULL;
}

/* ---- rows ---------------------------------------------------------------- */

#define ROUTE                                                                  \
  "tensor_name: string; send_device: string; send_device_incarnation: int; "   \
  "recv_device: string; client_terminated: bool = false"
#define SECTION                                                                \
  .section = "Graph plumbing, feeds/fetches, no-ops", .lua = "",               \
  .flags = TD_STATEFUL | TD_CHEAP

static const td_op_def ops[] = {
    {.type = "_Send",
     .sig = "tensor: T ->; T: type; " ROUTE,
     .shape = td_infer_none,
     .doc = "Sends a value to another part of the step.",
     .kind = TD_OP_SEND,
     SECTION},
    {.type = "_HostSend",
     .sig = "tensor: T ->; T: type; " ROUTE,
     .shape = td_infer_none,
     .doc = "Sends a value in host memory to another part of the step.",
     .kind = TD_OP_SEND,
     .host = "*",
     SECTION},
    {.type = "_Recv",
     .sig = "-> tensor: tensor_type; tensor_type: type; " ROUTE,
     .shape = td_infer_any,
     .doc = "Receives a value from another part of the step.",
     .kind = TD_OP_RECV,
     SECTION},
    {.type = "_HostRecv",
     .sig = "-> tensor: tensor_type; tensor_type: type; " ROUTE,
     .shape = td_infer_any,
     .doc = "Receives a value into host memory.",
     .kind = TD_OP_RECV,
     .host = "*",
     SECTION},
    {.type = "_Arg",
     .sig = "-> output: T; T: type; index: int >= 0",
     .shape = td_infer_any,
     .doc = "What was fed to the step, by number.",
     .kind = TD_OP_ARG,
     .host = "*",
     SECTION},
    {.type = "_Retval",
     .sig = "input: T ->; T: type; index: int >= 0",
     .shape = td_infer_none,
     .doc = "What is fetched from the step, by number.",
     .kind = TD_OP_RETVAL,
     .host = "*",
     SECTION},
    {0},
};

#define END                                                                    \
  .device = "CPU", .make = end_make, .drop = td_free, .cancel = cancel,        \
  .flags = TD_KERNEL_DEAD | TD_KERNEL_OWN

static const td_kernel_def kernels[] = {
    {.op = "_Send", .start = send_start, .why = send_why, END},
    {.op = "_HostSend", .start = send_start, .why = send_why, END},
    {.op = "_Recv", .start = recv_start, .why = recv_why, END},
    {.op = "_HostRecv", .start = recv_start, .why = recv_why, END},
    {.op = "_Arg", .device = "CPU", .run = arg_run, .flags = TD_KERNEL_INLINE},
    {.op = "_Retval",
     .device = "CPU",
     .run = retval_run,
     .flags = TD_KERNEL_INLINE | TD_KERNEL_DEAD},
    {0},
};

TD_MODULE(sendrecv, ops, kernels)
