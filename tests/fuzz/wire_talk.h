/* wire_talk.h - bytes as what a peer says: messages, right and wrong.
 *
 * A talk reads its input from the start. A byte chooses the message, others its
 * fields: mostly small numbers, some that are at the edge of their type, some
 * that the other side said last (its handles, steps, offers), so that a talk
 * gets far into sessions and then goes wrong. A message may be changed once it
 * is packed. Graphs are lists of nodes, chosen the same way.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_FUZZ_WIRE_TALK_H
#define TEST_FUZZ_WIRE_TALK_H

#include <stdio.h>
#include <string.h>

#include "engine/remote/pieces.h"
#include "engine/remote/wire_impl.h"
#include "tests/engine/graphdef/wire.h"

enum { TALK_GRAPHS = 4, TALK_NODES = 12, TALK_LIST = 4, TALK_FRAMES = 8 };

typedef struct talk {
  const uint8_t *at, *end;
  /* What the other side is, and said last. */
  uint64_t to, session[2], handle, step, offer, question;
  uint64_t from; /* who this peer says it is */
  uint64_t device; /* incarnation of the other side's CPU:0 */
  bool keeps;      /* what it opens is to be kept there */
  td_str graph[TALK_GRAPHS];
  int graphs;
  uint64_t count;
} talk;

static inline void talk_deinit(talk *t) {
  for (int i = 0; i < TALK_GRAPHS; i++) td_str_deinit(&t->graph[i]);
}

static inline int talk_byte(talk *t) {
  return t->at < t->end ? *t->at++ : 0;
}

static inline int64_t talk_number(talk *t) {
  static const int64_t edges[] = {
      -1,        INT32_MAX, INT32_MIN, INT64_MAX,  INT64_MIN,   1 << 20,
      65536,     65537,     1024,      1023,       INT64_C(1) << 40,
      INT64_C(1) << 62, 4096, 255,     1000000007, 31};
  int b = talk_byte(t);
  if (b < 200) return b & 7;
  if (b < 216) return edges[b - 200];
  switch (b) {
  case 216: return (int64_t)t->handle;
  case 217: return (int64_t)t->step;
  case 218: return (int64_t)t->offer;
  case 219: return (int64_t)t->question;
  case 220: return (int64_t)t->to;
  case 221: return (int64_t)t->from;
  default: return b - 222 + 8;
  }
}

/* ---- graphs -------------------------------------------------------------- */

static inline void talk_node(talk *t, td_str *text, int i) {
#define ENDS                                                                   \
  "tensor_name=st send_device=s/a send_device_incarnation=i1 "                 \
  "recv_device=s/b client_terminated=b0"
  int kind = talk_byte(t), a = i ? talk_byte(t) % (i + 1) : 0,
      b = i ? talk_byte(t) % (i + 1) : 0, type = 1;
  long long x = (long long)talk_number(t);
  if (kind & 0x80) type = talk_byte(t) % 26;
  switch (kind % 16) {
  case 0: td_str_addf(text, "n%d _Arg T=t%d index=i%lld\n", i, type, x); break;
  case 1:
    td_str_addf(text, "n%d _Retval n%d T=t%d index=i%lld\n", i, a, type, x);
    break;
  case 2:
    td_str_addf(text, "n%d _Recv tensor_type=t%d " ENDS " _edge=i%lld\n", i,
                type, x);
    break;
  case 3:
    td_str_addf(text, "n%d _Send n%d T=t%d " ENDS " _edge=i%lld\n", i, a, type,
                x);
    break;
  case 4:
    td_str_addf(text, "n%d Const dtype=t%d value=V%d\n", i, type, type);
    break;
  case 5:
    td_str_addf(text, "n%d AddV2 n%d n%d T=t%d\n", i, a, b, type);
    break;
  case 6: td_str_addf(text, "n%d Identity n%d T=t%d\n", i, a, type); break;
  case 7:
    td_str_addf(text, "n%d Switch n%d n%d T=t%d\n", i, a, b, type);
    break;
  case 8:
    td_str_addf(text, "n%d Merge n%d n%d:1 T=t%d N=i2\n", i, a, b, type);
    break;
  case 9:
    td_str_addf(text, "n%d Enter n%d T=t%d frame_name=sf is_constant=b0 "
                      "parallel_iterations=i%lld\n",
                i, a, type, x);
    break;
  case 10: td_str_addf(text, "n%d Exit n%d T=t%d\n", i, a, type); break;
  case 11:
    td_str_addf(text,
                "n%d VarHandleOp dtype=t%d shape=S container=s "
                "shared_name=sv\n",
                i, type);
    break;
  case 12:
    td_str_addf(text, "n%d AssignVariableOp n%d n%d dtype=t%d\n", i, a, b,
                type);
    break;
  case 13:
    td_str_addf(text, "n%d ReadVariableOp n%d dtype=t%d\n", i, a, type);
    break;
  case 14: td_str_addf(text, "n%d NoOp ^n%d\n", i, a); break;
  default:
    td_str_addf(text, "n%d RandomUniform n%d dtype=t%d T=t3 seed=i%lld\n", i, a,
                type, x);
    break;
  }
#undef ENDS
}

static inline int talk_graph(talk *t, td_str *bytes) {
  td_str text = {0};
  int n = talk_byte(t) % TALK_NODES;
  for (int i = 0; i < n; i++) talk_node(t, &text, i);
  td_str_deinit(bytes);
  *bytes = wire_graph(td_str_c(&text));
  td_str_deinit(&text);
  return n;
}

/* ---- messages ------------------------------------------------------------ */

/* One that is being made; what it points to is in the arena. */
typedef struct said {
  td_arena arena;
  td_head head;
  td_raw frames[TALK_FRAMES];
  int n;
} said;

static inline void *said_new(said *m, size_t n, size_t each) {
  char *p = td_arena_alloc(&m->arena, (n + 1) * each);
  if (!p) abort();
  memset(p, 0, (n + 1) * each);
  return p;
}

static inline void said_frame(said *m, const void *bytes, size_t len) {
  if (m->n == TALK_FRAMES) return;
  if (td_raw_copy(bytes, len, &m->frames[m->n])) abort();
  m->n++;
}

static inline char *talk_word(talk *t) {
  static char *const words[] = {"",
                                "/job:worker/replica:0/task:0",
                                "/job:worker/replica:0/task:0/device:CPU:0",
                                "/job:a/replica:0/task:7",
                                "fake://peer",
                                "v",
                                "/device:CPU:x\x1b[31m%s%n",
                                "\xff\xfe"};
  return words[talk_byte(t) % (int)TD_COUNT(words)];
}

static inline Td__Remote__Status *talk_status(talk *t, said *m) {
  if (talk_byte(t) % 4) return NULL;
  Td__Remote__Status *s = said_new(m, 1, sizeof *s);
  td__remote__status__init(s);
  s->code = (int32_t)talk_number(t);
  s->derived = talk_byte(t) & 1;
  s->about_task = talk_word(t);
  s->message = talk_word(t);
  s->op = talk_word(t);
  s->node = talk_word(t);
  s->device = talk_word(t);
  return s;
}

static inline uint64_t size_of(int32_t dtype) {
  return td_dtype_is_plain((td_dtype)dtype) ? td_dtype_size((td_dtype)dtype)
                                            : 1;
}

/* Mostly a float, with its bytes or as an offer. */
static inline Td__Remote__Value *talk_value(talk *t, said *m) {
  static const char zeros[512];
  Td__Remote__Value *v = said_new(m, 1, sizeof *v);
  int how = talk_byte(t);
  td__remote__value__init(v);
  v->index = (int32_t)talk_number(t);
  v->dtype = how & 1 ? talk_byte(t) % 32 : TD_FLOAT32;
  v->n_dim = how & 2 ? (size_t)(talk_byte(t) % 10) : 0;
  v->dim = said_new(m, v->n_dim, sizeof *v->dim);
  int64_t count = 1;
  for (size_t i = 0; i < v->n_dim; i++) {
    v->dim[i] = talk_number(t);
    if (__builtin_mul_overflow(count, v->dim[i], &count)) count = 0;
  }
  v->dead = (how & 0x1c) == 0x1c;
  v->narrow = (how & 0x1c) == 0x0c;
  if ((how & 0x1c) == 0x14) v->segment = talk_word(t);
  bool text = v->dtype == TD_STRING;
  v->bytes = how & 0x20 ? (uint64_t)talk_number(t)
             : text     ? ((uint64_t)count + 1) * 8
                        : (uint64_t)count * (v->narrow ? 2 : size_of(v->dtype));
  if (how & 0x40) v->offer = (uint64_t)talk_number(t);
  if (!v->offer && v->bytes <= sizeof zeros) {
    char bytes[sizeof zeros] = {0};
    uint64_t start = v->bytes;
    if (text && !(how & 0x80))
      for (size_t i = 0; i + 8 <= v->bytes; i += 8)
        memcpy(bytes + i, &start, 8);
    else if (how & 0x80)
      for (size_t i = 0; i < v->bytes && i < 16; i++)
        bytes[i] = (char)talk_byte(t);
    said_frame(m, bytes, (size_t)v->bytes);
  }
  return v;
}

static inline Td__Remote__Value **talk_values(talk *t, said *m, size_t *n) {
  size_t count = (size_t)(talk_byte(t) % TALK_LIST);
  Td__Remote__Value **list = said_new(m, count, sizeof *list);
  for (size_t i = 0; i < count; i++) list[i] = talk_value(t, m);
  *n = count;
  return list;
}

static inline Td__Remote__Hello *talk_hello(talk *t, said *m) {
  Td__Remote__Hello *h = said_new(m, 1, sizeof *h);
  int how = talk_byte(t);
  td__remote__hello__init(h);
  h->proto_min = h->proto_max = how & 1 ? (uint32_t)talk_number(t) : 1;
  h->build = talk_word(t);
  h->task = how & 2 ? talk_word(t) : "/job:worker/replica:0/task:3";
  h->isa = h->boot = "";
  h->control = how & 4 ? talk_word(t) : "fake://peer";
  h->data = how & 8 ? talk_word(t) : "";
  h->key = "";
  h->kernels_hash = (uint64_t)talk_number(t);
  h->n_device = (size_t)(how >> 4) % TALK_LIST;
  h->device = said_new(m, h->n_device, sizeof *h->device);
  for (size_t i = 0; i < h->n_device; i++) {
    Td__Remote__Device *d = h->device[i] = said_new(m, 1, sizeof *d);
    td__remote__device__init(d);
    d->name = talk_byte(t) & 1
                  ? talk_word(t)
                  : "/job:worker/replica:0/task:3/device:CPU:0";
    d->type = "CPU";
    d->kernels = "CPU";
    d->incarnation = (uint64_t)talk_number(t);
    d->memory = (uint64_t)talk_number(t);
    d->host = true;
  }
  h->n_kernel = (size_t)(how >> 6);
  h->kernel = said_new(m, h->n_kernel, sizeof *h->kernel);
  for (size_t i = 0; i < h->n_kernel; i++) {
    Td__Remote__Kernel *k = h->kernel[i] = said_new(m, 1, sizeof *k);
    td__remote__kernel__init(k);
    k->op = i ? "AddV2" : talk_word(t);
    k->types = i ? "T=float" : talk_word(t);
  }
  return h;
}

static inline Td__Remote__Open *talk_open(talk *t, said *m) {
  Td__Remote__Open *o = said_new(m, 1, sizeof *o);
  td__remote__open__init(o);
  o->view = (uint64_t)talk_number(t);
  o->lease = talk_number(t);
  o->n_task = (size_t)(talk_byte(t) % TALK_LIST);
  o->task = said_new(m, o->n_task, sizeof *o->task);
  for (size_t i = 0; i < o->n_task; i++) {
    Td__Remote__Task *k = o->task[i] = said_new(m, 1, sizeof *k);
    td__remote__task__init(k);
    k->task = talk_word(t);
    k->incarnation = i == 0   ? t->from
                     : i == 1 ? t->to
                              : (uint64_t)talk_number(t);
    k->control = talk_word(t);
    k->data = "";
    k->key = "";
  }
  return o;
}

static inline Td__Remote__Keep *talk_keep(talk *t, said *m) {
  Td__Remote__Keep *k = said_new(m, 1, sizeof *k);
  int how = talk_byte(t);
  td__remote__keep__init(k);
  k->name = how & 1 ? talk_word(t) : "kept";
  k->join = (how & 6) == 6;
  k->outlive = how >> 3 & 1;
  if (how & 16) k->threads = (uint32_t)talk_number(t);
  if (how & 32) k->cpu_devices = (uint32_t)talk_number(t);
  if (how & 64) k->cache = (uint32_t)talk_number(t);
  k->hard_placement = how >> 7;
  if ((how & 24) == 24) k->passes_off = (uint32_t)talk_number(t);
  k->open = talk_byte(t) % 16 ? talk_open(t, m) : NULL;
  return k;
}

/* The same session as an OPEN has. */
static inline Td__Remote__Keep *said_keep(said *m, Td__Remote__Open *open) {
  Td__Remote__Keep *k = said_new(m, 1, sizeof *k);
  td__remote__keep__init(k);
  k->name = "kept";
  k->open = open;
  return k;
}

/* Mostly a question that there is, with as many numbers as it takes. */
static inline Td__Remote__KeepAsk *talk_keep_ask(talk *t, said *m) {
  Td__Remote__KeepAsk *a = said_new(m, 1, sizeof *a);
  int how = talk_byte(t);
  td__remote__keep_ask__init(a);
  a->id = (uint64_t)talk_number(t);
  a->what = (Td__Remote__KeepAsk__What)(how & 15);
  if (how & 16 && how & 32) a->what = (Td__Remote__KeepAsk__What)talk_number(t);
  a->text = talk_word(t);
  a->key = how & 64 ? talk_word(t) : "";
  a->time = talk_number(t);
  a->flag = how >> 7;
  a->n_number = (size_t)(talk_byte(t) % 12);
  a->number = said_new(m, a->n_number, sizeof *a->number);
  for (size_t i = 0; i < a->n_number; i++)
    a->number[i] = (uint64_t)talk_number(t);
  a->n_name = (size_t)(talk_byte(t) % TALK_LIST);
  a->name = said_new(m, a->n_name, sizeof *a->name);
  for (size_t i = 0; i < a->n_name; i++) a->name[i] = talk_word(t);
  return a;
}

/* Bytes of the input, as answers are; or any value. */
static inline Td__Remote__KeepAnswer *talk_keep_answer(talk *t, said *m) {
  Td__Remote__KeepAnswer *a = said_new(m, 1, sizeof *a);
  int how = talk_byte(t);
  td__remote__keep_answer__init(a);
  a->id = how & 1 ? (uint64_t)talk_number(t) : t->question;
  a->status = how & 2 ? talk_status(t, m) : NULL;
  if ((how & 0x30) == 0x30) return a;
  a->value = how & 0x10 ? talk_value(t, m) : said_new(m, 1, sizeof *a->value);
  if (how & 0x10) return a;
  char bytes[64];
  size_t n = (size_t)(talk_byte(t) % 64);
  for (size_t i = 0; i < n; i++) bytes[i] = (char)talk_byte(t);
  td__remote__value__init(a->value);
  a->value->dtype = TD_UINT8;
  a->value->n_dim = 1;
  a->value->dim = said_new(m, 1, sizeof *a->value->dim);
  a->value->dim[0] = (int64_t)n;
  a->value->bytes = n;
  said_frame(m, bytes, n);
  return a;
}

static inline Td__Remote__Room *talk_room(talk *t, said *m) {
  Td__Remote__Room *r = said_new(m, 1, sizeof *r);
  td__remote__room__init(r);
  r->full = talk_byte(t) & 1;
  return r;
}

static inline Td__Remote__Register *talk_register(talk *t, said *m) {
  Td__Remote__Register *r = said_new(m, 1, sizeof *r);
  int how = talk_byte(t);
  td__remote__register__init(r);
  r->handle = (uint64_t)talk_number(t);
  /* A kept session's is a signature, of one part that no edges lead to. */
  r->args = how & 1 ? (int32_t)talk_number(t) : t->keeps ? 0 : 4;
  r->rets = how & 2 ? (int32_t)talk_number(t) : t->keeps ? 1 : 4;
  r->edges = how & 4 ? (int32_t)talk_number(t) : t->keeps ? 0 : 4;
  r->n_part = (size_t)(how >> 3) % 3 ? 1 : (size_t)(how >> 5) % 3;
  r->part = said_new(m, r->n_part, sizeof *r->part);
  for (size_t i = 0; i < r->n_part; i++) {
    Td__Remote__Part *p = r->part[i] = said_new(m, 1, sizeof *p);
    td__remote__part__init(p);
    td_str *g = &t->graph[t->graphs++ % TALK_GRAPHS];
    p->nodes = talk_graph(t, g);
    if (how & 0x80) p->nodes = (int32_t)talk_number(t);
    p->n_serial = p->nodes >= 0 && p->nodes < 64 ? (size_t)p->nodes : 0;
    p->serial = said_new(m, p->n_serial, sizeof *p->serial);
    for (size_t k = 0; k < p->n_serial; k++)
      p->serial[k] = (uint64_t)(how & 0x40 ? talk_byte(t) : (int)k + 1);
    p->device = "/job:worker/replica:0/task:0/device:CPU:0";
    p->incarnation = t->device;
    td_piece_hash *hash = said_new(m, 1, sizeof *hash);
    td_status_release(td_pieces_hash(td_str_c(g), g->len, hash));
    p->n_piece = how & 0x20 ? 1 : g->len > 0;
    p->piece = said_new(m, 1, sizeof *p->piece);
    p->piece[0] = (ProtobufCBinaryData){sizeof *hash, hash->at};
  }
  r->n_far = (size_t)(talk_byte(t) % TALK_LIST);
  if (t->keeps && !(how & 4)) r->n_far = 0;
  r->far = said_new(m, r->n_far, sizeof *r->far);
  for (size_t i = 0; i < r->n_far; i++) {
    Td__Remote__Edge *e = r->far[i] = said_new(m, 1, sizeof *e);
    td__remote__edge__init(e);
    e->edge = (int32_t)talk_number(t);
    e->task = (int32_t)talk_number(t);
    e->out = talk_byte(t) & 1;
  }
  return r;
}

/* Of a graph that was registered: all of it, or a part. */
static inline Td__Remote__Blob *talk_blob(talk *t, said *m) {
  Td__Remote__Blob *b = said_new(m, 1, sizeof *b);
  int how = talk_byte(t);
  td_str *g = &t->graph[(t->graphs - 1 + how) & (TALK_GRAPHS - 1)];
  td_piece_hash *hash = said_new(m, 1, sizeof *hash);
  td__remote__blob__init(b);
  td_status_release(td_pieces_hash(td_str_c(g), g->len, hash));
  b->piece = (ProtobufCBinaryData){sizeof *hash, hash->at};
  b->size = g->len;
  size_t len = g->len;
  if (how & 0x10) {
    b->offset = (uint64_t)talk_byte(t);
    len = (size_t)talk_byte(t);
    if (b->offset > g->len) b->offset = g->len;
    if (len > g->len - b->offset) len = g->len - b->offset;
  }
  if (how & 0x20) b->size = (uint64_t)talk_number(t);
  said_frame(m, td_str_c(g) + b->offset, len);
  return b;
}

static inline Td__Remote__Handles *talk_handles(talk *t, said *m) {
  Td__Remote__Handles *h = said_new(m, 1, sizeof *h);
  td__remote__handles__init(h);
  h->n_handle = (size_t)(talk_byte(t) % TALK_LIST);
  h->handle = said_new(m, h->n_handle, sizeof *h->handle);
  for (size_t i = 0; i < h->n_handle; i++)
    h->handle[i] = (uint64_t)talk_number(t);
  return h;
}

static inline Td__Remote__Run *talk_run(talk *t, said *m) {
  Td__Remote__Run *r = said_new(m, 1, sizeof *r);
  td__remote__run__init(r);
  r->step = (uint64_t)talk_number(t);
  r->handle = (uint64_t)talk_number(t);
  r->arg = talk_values(t, m, &r->n_arg);
  r->timeout = talk_number(t);
  r->check_numerics = talk_byte(t) & 1;
  r->print = true;
  return r;
}

static inline Td__Remote__Done *talk_done(talk *t, said *m) {
  Td__Remote__Done *d = said_new(m, 1, sizeof *d);
  td__remote__done__init(d);
  d->step = (uint64_t)talk_number(t);
  d->handle = (uint64_t)talk_number(t);
  d->status = talk_status(t, m);
  d->ret = talk_values(t, m, &d->n_ret);
  d->took = talk_number(t);
  d->tensors = (uint64_t)talk_number(t);
  return d;
}

static inline Td__Remote__Tensor *talk_tensor(talk *t, said *m) {
  Td__Remote__Tensor *x = said_new(m, 1, sizeof *x);
  td__remote__tensor__init(x);
  x->step = (uint64_t)talk_number(t);
  x->edge = (int32_t)talk_number(t);
  x->frame = (uint64_t)talk_number(t) & 3;
  x->iteration = talk_number(t);
  x->value = talk_byte(t) % 16 ? talk_value(t, m) : NULL;
  return x;
}

static inline Td__Remote__Chunk *talk_chunk(talk *t, said *m, bool bytes) {
  static const char zeros[256];
  Td__Remote__Chunk *c = said_new(m, 1, sizeof *c);
  td__remote__chunk__init(c);
  c->offer = (uint64_t)talk_number(t);
  c->offset = (uint64_t)talk_number(t);
  c->bytes = (uint64_t)talk_number(t);
  if (bytes && c->bytes <= sizeof zeros)
    said_frame(m, zeros, (size_t)c->bytes);
  return c;
}

static inline Td__Remote__Ping *talk_ping(talk *t, said *m) {
  Td__Remote__Ping *p = said_new(m, 1, sizeof *p);
  td__remote__ping__init(p);
  p->n = (uint64_t)talk_number(t);
  p->t0 = talk_number(t);
  p->t1 = talk_number(t);
  p->sent_control = (uint64_t)talk_byte(t) % 2 * (uint64_t)talk_number(t);
  p->memory = (uint64_t)talk_number(t);
  return p;
}

static inline Td__Remote__Answer *talk_answer(talk *t, said *m) {
  Td__Remote__Answer *a = said_new(m, 1, sizeof *a);
  td__remote__answer__init(a);
  a->id = (uint64_t)talk_number(t);
  a->status = talk_status(t, m);
  a->text = (ProtobufCBinaryData){3, (uint8_t *)"abc"};
  return a;
}

static inline Td__Remote__Stop *talk_stop(talk *t, said *m) {
  Td__Remote__Stop *s = said_new(m, 1, sizeof *s);
  td__remote__stop__init(s);
  s->step = (uint64_t)talk_number(t);
  s->status = talk_status(t, m);
  return s;
}

static inline Td__Remote__Text *talk_text(talk *t, said *m) {
  Td__Remote__Text *x = said_new(m, 1, sizeof *x);
  td__remote__text__init(x);
  x->step = (uint64_t)talk_number(t);
  x->text = talk_word(t);
  return x;
}

static inline Td__Remote__Need *talk_need(talk *t, said *m) {
  Td__Remote__Need *n = said_new(m, 1, sizeof *n);
  static uint8_t zeros[64];
  td__remote__need__init(n);
  n->handle = (uint64_t)talk_number(t);
  n->n_piece = (size_t)(talk_byte(t) % TALK_LIST);
  n->piece = said_new(m, n->n_piece, sizeof *n->piece);
  for (size_t i = 0; i < n->n_piece; i++)
    n->piece[i] = (ProtobufCBinaryData){(size_t)talk_byte(t) % 40, zeros};
  return n;
}

static inline Td__Remote__Ask *talk_ask(talk *t, said *m) {
  Td__Remote__Ask *a = said_new(m, 1, sizeof *a);
  td__remote__ask__init(a);
  a->id = (uint64_t)talk_number(t);
  a->what = (Td__Remote__Ask__What)talk_number(t);
  a->name = talk_word(t);
  a->to = talk_word(t);
  a->step = (uint64_t)talk_number(t);
  a->state = (ProtobufCBinaryData){(size_t)talk_byte(t) % 8,
                                   (uint8_t *)"\x0a\x05hello\0"};
  return a;
}

static inline Td__Remote__Measure *talk_measure(talk *t, said *m) {
  Td__Remote__Measure *a = said_new(m, 1, sizeof *a);
  Td__Remote__Task *to = said_new(m, 1, sizeof *to);
  td__remote__measure__init(a);
  td__remote__task__init(to);
  a->id = (uint64_t)talk_number(t);
  a->rounds = (uint32_t)talk_number(t);
  a->bytes = (uint64_t)talk_number(t);
  a->timeout = talk_number(t);
  to->task = talk_word(t);
  to->incarnation = talk_byte(t) & 1 ? t->from : (uint64_t)talk_number(t);
  to->control = talk_word(t);
  to->key = talk_word(t);
  if (talk_byte(t) & 3) a->to = to;
  return a;
}

static inline Td__Remote__Measured *talk_measured(talk *t, said *m) {
  Td__Remote__Measured *a = said_new(m, 1, sizeof *a);
  td__remote__measured__init(a);
  a->id = (uint64_t)talk_number(t);
  a->status = talk_status(t, m);
  a->least = talk_number(t);
  a->took = talk_number(t);
  return a;
}

static inline Td__Remote__Load *talk_load(talk *t, said *m) {
  Td__Remote__Load *a = said_new(m, 1, sizeof *a);
  td__remote__load__init(a);
  a->id = (uint64_t)talk_number(t);
  a->n = (uint64_t)talk_number(t);
  a->t1 = talk_number(t);
  a->t2 = talk_number(t);
  a->bytes = (uint64_t)talk_number(t);
  return a;
}

static inline void talk_body(talk *t, said *m, int what) {
  td_head *h = &m->head;
  h->body_case = (Td__Remote__Message__BodyCase)what;
  switch (what) {
  case TD__REMOTE__MESSAGE__BODY_HELLO:
  case TD__REMOTE__MESSAGE__BODY_WELCOME: h->hello = talk_hello(t, m); break;
  case TD__REMOTE__MESSAGE__BODY_REFUSED: {
    Td__Remote__Refused *r = said_new(m, 1, sizeof *r);
    td__remote__refused__init(r);
    r->code = (int32_t)talk_number(t);
    r->message = talk_word(t);
    h->refused = r;
    break;
  }
  case TD__REMOTE__MESSAGE__BODY_PING:
  case TD__REMOTE__MESSAGE__BODY_PONG: h->ping = talk_ping(t, m); break;
  case TD__REMOTE__MESSAGE__BODY_OPEN:
    h->open = talk_open(t, m);
    if (!t->keeps) break;
    h->body_case = TD__REMOTE__MESSAGE__BODY_KEEP;
    h->keep = said_keep(m, h->open);
    break;
  case TD__REMOTE__MESSAGE__BODY_KEEP: h->keep = talk_keep(t, m); break;
  case TD__REMOTE__MESSAGE__BODY_KEEP_ASK:
    h->keep_ask = talk_keep_ask(t, m);
    break;
  case TD__REMOTE__MESSAGE__BODY_KEEP_ANSWER:
    h->keep_answer = talk_keep_answer(t, m);
    break;
  case TD__REMOTE__MESSAGE__BODY_ROOM: h->room = talk_room(t, m); break;
  case TD__REMOTE__MESSAGE__BODY_OPENED:
  case TD__REMOTE__MESSAGE__BODY_REGISTERED:
  case TD__REMOTE__MESSAGE__BODY_ANSWER: h->answer = talk_answer(t, m); break;
  case TD__REMOTE__MESSAGE__BODY_REGISTER:
    h->register_ = talk_register(t, m);
    break;
  case TD__REMOTE__MESSAGE__BODY_NEED: h->need = talk_need(t, m); break;
  case TD__REMOTE__MESSAGE__BODY_BLOB: h->blob = talk_blob(t, m); break;
  case TD__REMOTE__MESSAGE__BODY_RUN: h->run = talk_run(t, m); break;
  case TD__REMOTE__MESSAGE__BODY_DONE: h->done = talk_done(t, m); break;
  case TD__REMOTE__MESSAGE__BODY_CANCEL:
  case TD__REMOTE__MESSAGE__BODY_ABORT: h->cancel = talk_stop(t, m); break;
  case TD__REMOTE__MESSAGE__BODY_FENCE: {
    Td__Remote__Fence *f = said_new(m, 1, sizeof *f);
    td__remote__fence__init(f);
    f->task = talk_word(t);
    f->incarnation = (uint64_t)talk_number(t);
    h->fence = f;
    break;
  }
  case TD__REMOTE__MESSAGE__BODY_TENSOR: h->tensor = talk_tensor(t, m); break;
  case TD__REMOTE__MESSAGE__BODY_PULL: h->pull = talk_chunk(t, m, false); break;
  case TD__REMOTE__MESSAGE__BODY_CHUNK: h->chunk = talk_chunk(t, m, true); break;
  case TD__REMOTE__MESSAGE__BODY_LOG:
  case TD__REMOTE__MESSAGE__BODY_BYE: h->log = talk_text(t, m); break;
  case TD__REMOTE__MESSAGE__BODY_ASK: h->ask = talk_ask(t, m); break;
  case TD__REMOTE__MESSAGE__BODY_MEASURE: h->measure = talk_measure(t, m); break;
  case TD__REMOTE__MESSAGE__BODY_MEASURED:
    h->measured = talk_measured(t, m);
    break;
  case TD__REMOTE__MESSAGE__BODY_LOAD:
  case TD__REMOTE__MESSAGE__BODY_LOADED: h->load = talk_load(t, m); break;
  default: h->drop = talk_handles(t, m); break;
  }
}

/* A few bytes of the packed head are others, or its end is missing. */
static inline void talk_change(talk *t, td_raw *f) {
  char *bytes = (char *)f->at; /* ours: it was packed just now */
  int n = talk_byte(t) % 4;
  for (int i = 0; i < n && f->len; i++) {
    size_t at = (size_t)(talk_byte(t) << 8 | talk_byte(t)) % f->len;
    bytes[at] ^= (char)talk_byte(t);
  }
  if (talk_byte(t) & 1) f->len = f->len * (size_t)talk_byte(t) / 256;
}

/* The last bytes that there are stand for kinds with other numbers. */
static inline int talk_kind(talk *t) {
  enum { FIRST = TD__REMOTE__MESSAGE__BODY_HELLO, KINDS = 29 };
  static const int others[] = {
      TD__REMOTE__MESSAGE__BODY_ROOM,     TD__REMOTE__MESSAGE__BODY_KEEP,
      TD__REMOTE__MESSAGE__BODY_KEEP_ASK, TD__REMOTE__MESSAGE__BODY_KEEP_ANSWER,
      TD__REMOTE__MESSAGE__BODY_MEASURE,  TD__REMOTE__MESSAGE__BODY_MEASURED,
      TD__REMOTE__MESSAGE__BODY_LOAD,     TD__REMOTE__MESSAGE__BODY_LOADED};
  int byte = talk_byte(t), first = 256 - (int)TD_COUNT(others);
  return byte < first ? FIRST + byte % KINDS : others[byte - first];
}

/* The next message; `what` 0: the input chooses. How many frames. */
static inline int talk_say(talk *t, int what, td_raw *frames) {
  said m = {.n = 0};
  td_arena_init(&m.arena);
  td__remote__message__init(&m.head);
  int how = talk_byte(t);
  m.head.version = TD_WIRE_VERSION;
  m.head.from = t->from;
  m.head.to = t->to;
  m.head.session_high = t->session[0];
  m.head.session_low = t->session[1];
  m.head.count = how & 1 ? (uint64_t)talk_number(t) : 0;
  if (how & 2) m.head.session_low = (uint64_t)talk_number(t);
  if (how & 4 && how & 8) m.head.to = (uint64_t)talk_number(t);
  if (how & 4 && how & 16) m.head.from = (uint64_t)talk_number(t);
  talk_body(t, &m, what ? what : talk_kind(t));
  if (td_wire_pack(&m.head, &frames[0])) abort();
  if (how & 32 && how & 64) talk_change(t, &frames[0]);
  int n = m.n;
  memcpy(frames + 1, m.frames, (size_t)n * sizeof *frames);
  if (how & 128 && n) td_raw_release(&frames[n--]);
  td_arena_deinit(&m.arena);
  return n + 1;
}

/* ---- what the other side says -------------------------------------------- */

static inline void talk_hear(talk *t, const td_head *h) {
  t->to = h->from;
  switch (h->body_case) {
  case TD__REMOTE__MESSAGE__BODY_OPEN:
    t->session[0] = h->session_high;
    t->session[1] = h->session_low;
    break;
  case TD__REMOTE__MESSAGE__BODY_KEEP:
    t->session[0] = h->session_high;
    t->session[1] = h->session_low;
    break;
  case TD__REMOTE__MESSAGE__BODY_KEEP_ASK: t->question = h->keep_ask->id; break;
  case TD__REMOTE__MESSAGE__BODY_REGISTER: t->handle = h->register_->handle; break;
  case TD__REMOTE__MESSAGE__BODY_RUN: t->step = h->run->step; break;
  case TD__REMOTE__MESSAGE__BODY_ASK: t->question = h->ask->id; break;
  case TD__REMOTE__MESSAGE__BODY_PULL: t->offer = h->pull->offer; break;
  case TD__REMOTE__MESSAGE__BODY_TENSOR:
    if (h->tensor->value->offer) t->offer = h->tensor->value->offer;
    break;
  default: break;
  }
}

#endif
