# Tide - make, make demo, make lab, make test, make conformance, make soak,
# make bench, make doc, make install.
#
# Everything built goes to $(B). SANITIZE=address,undefined or thread makes a
# build of its own beside it. DEPS=dir is searched before the system and apt is
# then not called. Lists of files are never kept by hand.

B ?= build
comma := ,
SANITIZE ?=
DEPS ?=
PREFIX ?= /usr/local
PYTHON ?= python3
JOBS ?= $(shell nproc 2>/dev/null || echo 1)
ABI := 2

ifneq ($(SANITIZE),)
override B := $(B)/$(subst $(comma),-,$(SANITIZE))
endif

# make PLANT=n: a build with known bug n (engine/base/plant.h), to test the tests.
PLANT ?=
ifneq ($(PLANT),)
override B := $(B)/plant-$(PLANT)
endif

CC := gcc
ifneq ($(origin TD_CC),undefined)
CC := $(TD_CC)
endif
OPT ?= -O2 -g
WARN := -Wall -Wextra -Wshadow -Wundef -Wstrict-prototypes -Werror
CFLAGS_ALL := -std=c17 -D_GNU_SOURCE $(OPT) -fPIC -pthread -ffp-contract=off \
  -fvisibility=hidden -fno-semantic-interposition -fno-math-errno \
  -I. -I$(B) $(WARN) \
  $(if $(DEPS),-I$(DEPS)/include) $(CFLAGS)
LDFLAGS_ALL := -pthread $(if $(DEPS),-L$(DEPS)/lib -Wl$(comma)-rpath$(comma)$(DEPS)/lib) $(LDFLAGS)
ifneq ($(SANITIZE),)
CFLAGS_ALL += -fsanitize=$(SANITIZE) -fno-omit-frame-pointer \
  -fno-sanitize-recover=undefined
LDFLAGS_ALL += -fsanitize=$(SANITIZE)
endif
ifneq ($(PLANT),)
CFLAGS_ALL += -DTD_PLANTED=$(PLANT)
endif
LUA_CFLAGS := -I/usr/include/lua5.4
LIBS := -lprotobuf-c -lsodium -lzmq -lz -lm -ldl
# Hundreds of test programs, each with all objects in it, are linked by the
# quickest linker that is there.
LINK_TEST := $(if $(shell command -v mold 2>/dev/null),-fuse-ld=mold)

.SUFFIXES:
.DELETE_ON_ERROR:
.PHONY: all demo test conformance soak bench install clean deps check doc

all: base
base: $(B)/libtide.so $(B)/tide.so $(B)/tide
.PHONY: base

# ---- sources ---------------------------------------------------------------

ENGINE_SRC := $(wildcard engine/*/*.c)
KERNEL_SRC := $(filter-out kernels/cuda/%,$(wildcard kernels/*.c kernels/*/*.c))
PROTO_SRC := $(wildcard engine/*/*.proto)
BIND_SRC := $(wildcard lua/bind*.c)
BIND_OBJ := $(BIND_SRC:%.c=$(B)/%.o) $(B)/lua_library.o $(B)/lua_openers.o
CONSOLE_SRC := $(wildcard lua/console/*.c)
REPL_SRC := $(wildcard repl/*.c)
JUPYTER_SRC := $(wildcard jupyter/*.c)
REPL_LIBS := -lutf8proc
LUA_LIB := $(sort $(wildcard lua/tide/*.lua lua/tide/*/*.lua))

# A kernel file ending in _avx2.c or _avx512.c is compiled for that processor.
ISA_avx2 := -mavx2 -mfma -mf16c
ISA_avx512 := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma -mf16c
# Kernels are plain C loops that the compiler turns into vectors: the same text
# for every processor. Integers wrap; float exceptions are looked at by nobody.
KERNEL_FLAGS := $(if $(SANITIZE),,-O3) -fwrapv -fno-trapping-math
isa_flags = $(if $(findstring _avx512,$(1)),$(ISA_avx512),$(if $(findstring _avx2,$(1)),$(ISA_avx2)))

PROTO_C := $(PROTO_SRC:%.proto=$(B)/%.pb-c.c)
PROTO_H := $(PROTO_C:.c=.h)
LIB_OBJ := $(ENGINE_SRC:%.c=$(B)/%.o) $(KERNEL_SRC:%.c=$(B)/%.o) \
  $(PROTO_C:.c=.o) $(B)/registry.o

# ---- generated -------------------------------------------------------------

# Written only when the list of modules changed, so that removing a file works.
$(B)/registry.c: FORCE
	@mkdir -p $(B)
	@sed -n 's/^TD_MODULE(\([a-z0-9_]*\).*/\1/p' $(KERNEL_SRC) /dev/null | sort > $@.list
	@{ echo '#include "engine/graph/op.h"'; \
	  sed 's/.*/extern const td_module td_module_&;/' $@.list; \
	  echo 'const td_module *const td_modules[] = {'; \
	  sed 's/.*/  \&td_module_&,/' $@.list; echo '  0};'; } > $@.new
	@cmp -s $@.new $@ || cp $@.new $@

# The same of what opens the files of the Lua binding.
$(B)/lua_openers.c: FORCE
	@mkdir -p $(B)
	@sed -n 's/^TD_LUA_OPEN(\([a-z0-9_]*\)).*/\1/p' $(BIND_SRC) | sort > $@.list
	@{ echo '#include "lua/bind.h"'; \
	  sed 's/.*/void td_lua_open_&(lua_State *L);/' $@.list; \
	  echo 'void (*const td_lua_openers[])(lua_State *L) = {'; \
	  sed 's/.*/  td_lua_open_&,/' $@.list; echo '  0};'; } > $@.new
	@cmp -s $@.new $@ || cp $@.new $@

# The Lua library, embedded: one array of bytes a file. Its doc comments are one
# module more, for help.
DOCS := $(B)/lua/tide/docs.lua
$(DOCS): $(LUA_LIB) lua/doc.lua
	@mkdir -p $(@D)
	lua5.4 lua/doc.lua $(LUA_LIB) > $@.new && mv $@.new $@
$(B)/lua_library.c: $(LUA_LIB) $(DOCS) lua/embed.lua
	@mkdir -p $(B)
	lua5.4 lua/embed.lua $(LUA_LIB) $(DOCS) > $@.new && mv $@.new $@

$(B)/%.pb-c.c $(B)/%.pb-c.h &: %.proto
	@mkdir -p $(@D)
	protoc-c --proto_path=. --c_out=$(B) $<

# ---- compiling -------------------------------------------------------------

$(B)/engine/%.o: engine/%.c $(B)/.flags | $(PROTO_H)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<
$(B)/kernels/%.o: kernels/%.c $(B)/.flags
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(KERNEL_FLAGS) $(call isa_flags,$*) -MMD -MP -c -o $@ $<
$(B)/lua/%.o: lua/%.c $(B)/.flags
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(LUA_CFLAGS) -MMD -MP -c -o $@ $<
$(B)/repl/%.o: repl/%.c $(B)/.flags
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<
$(B)/%.pb-c.o: $(B)/%.pb-c.c
	$(CC) $(filter-out $(WARN),$(CFLAGS_ALL)) -MMD -MP -c -o $@ $<
$(B)/registry.o: $(B)/registry.c
	$(CC) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<
$(B)/jupyter/%.o: jupyter/%.c $(B)/.flags
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<
$(B)/lua_%.o: $(B)/lua_%.c
	$(CC) $(CFLAGS_ALL) $(LUA_CFLAGS) -MMD -MP -c -o $@ $<

# A change of flags rebuilds everything.
$(B)/.flags: FORCE
	@mkdir -p $(B)
	@echo '$(CC) $(CFLAGS_ALL) $(KERNEL_FLAGS)' | cmp -s - $@ || \
	  echo '$(CC) $(CFLAGS_ALL) $(KERNEL_FLAGS)' > $@

-include $(shell find $(B) \( -name venv -o -name lab -o -name bench-venv \) \
  -prune -o -name '*.d' -type f -print 2>/dev/null)

# ---- linking ---------------------------------------------------------------

$(B)/libtide.so.$(ABI): $(LIB_OBJ)
	$(CC) -shared -Wl,-soname,libtide.so.$(ABI) -Wl,-z,nodelete,-Bsymbolic-functions \
	  -o $@ $(LIB_OBJ) $(LDFLAGS_ALL) $(LIBS)
$(B)/libtide.so: $(B)/libtide.so.$(ABI)
	ln -sf libtide.so.$(ABI) $@

RPATH := -Wl,-rpath,'$$ORIGIN:$$ORIGIN/../..'
$(B)/tide.so: $(BIND_OBJ) $(B)/libtide.so
	$(CC) -shared -Wl,-z,nodelete,-Bsymbolic-functions -o $@ $(filter %.o,$^) -L$(B) -ltide \
	  $(RPATH) $(LDFLAGS_ALL) $(LIBS)
$(B)/tide: $(REPL_SRC:%.c=$(B)/%.o) $(JUPYTER_SRC:%.c=$(B)/%.o) $(CONSOLE_SRC:%.c=$(B)/%.o) \
  $(BIND_OBJ) $(B)/libtide.so
	$(CC) -o $@ $(filter %.o,$^) -L$(B) -ltide -llua5.4 -lzmq -ljansson \
	  -Wl,-rpath,'$$ORIGIN:$$ORIGIN/../lib' \
	  $(LDFLAGS_ALL) $(LIBS) $(REPL_LIBS)

# ---- CUDA ------------------------------------------------------------------

# The plugin, where nvcc is found: host code is C, kernels are kernels/*.cu. It
# needs no library but the C one: the runtime is linked in, all others are opened
# when they are first used.
NVCC ?= $(firstword $(shell command -v nvcc 2>/dev/null) $(wildcard /usr/local/cuda/bin/nvcc))
CUDA_HOME ?= $(patsubst %/bin/,%,$(dir $(NVCC)))
CUDA_ARCH ?= sm_90
CUDA_SRC := $(wildcard kernels/cuda/*.c)
# Under the thread sanitizer, which is after the device and not its kernels, the
# few that its tests use.
CU_THREAD := $(patsubst %,kernels/%.cu,add_n binary cast fill gather matmul moves random resource_scatter \
  reduce row_reduce strided_copy training unary variable where)
CU_SRC := $(if $(filter thread,$(SANITIZE)),$(CU_THREAD),$(wildcard kernels/*.cu))
CUDA_INCLUDE := -isystem $(CUDA_HOME)/include
CU_WARN := -Wall,-Wextra,-Wno-missing-field-initializers
NVCC_FLAGS = -std=c++20 -O2 -arch=$(CUDA_ARCH) --expt-relaxed-constexpr \
  -I. -I$(B) -Xcompiler -fPIC$(comma)-fvisibility=hidden$(comma)-fno-exceptions \
  -Xcompiler -fno-rtti$(comma)-fno-threadsafe-statics$(comma)$(CU_WARN) \
  --compress-mode=size -Werror all-warnings -Xptxas -v,-warn-spills

$(B)/cuda/registry.c: FORCE
	@mkdir -p $(@D)
	@sed -n 's/^TD_CUDA_MODULE(\([a-z0-9_]*\).*/\1/p' $(CU_SRC) /dev/null | sort > $@.list
	@{ echo '#include "engine/graph/op.h"'; \
	  sed 's/.*/extern const td_module td_cuda_module_&;/' $@.list; \
	  echo 'extern const td_module *const td_cuda_modules[];'; \
	  echo 'const td_module *const td_cuda_modules[] = {'; \
	  sed 's/.*/  \&td_cuda_module_&,/' $@.list; echo '  0};'; } > $@.new
	@cmp -s $@.new $@ || cp $@.new $@

CUDA_C_OBJ := $(CUDA_SRC:kernels/cuda/%.c=$(B)/cuda/%.o) $(B)/cuda/registry.o
$(CUDA_SRC:kernels/cuda/%.c=$(B)/cuda/%.o): $(B)/cuda/%.o: kernels/cuda/%.c $(B)/.flags
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(CUDA_INCLUDE) -MMD -MP -c -o $@ $<
$(B)/cuda/registry.o: $(B)/cuda/registry.c
	$(CC) $(CFLAGS_ALL) -c -o $@ $<
# What ptxas says of registers and spills is kept beside the object.
$(B)/cuda/%.cu.o: kernels/%.cu $(B)/.flags
	@mkdir -p $(@D)
	$(NVCC) $(NVCC_FLAGS) -MD -MP -c -o $@ $< > $(@:.o=.ptxas) 2>&1 || \
	  { cat $(@:.o=.ptxas); exit 1; }
$(B)/libtide_cuda.so: $(CUDA_C_OBJ) $(CU_SRC:kernels/%.cu=$(B)/cuda/%.cu.o) $(B)/libtide.so
	$(CC) -shared -Wl,-z,nodelete -Wl,--exclude-libs,ALL -Wl,-z,defs -o $@ $(filter %.o,$^) \
	  -L$(B) -ltide -Wl,-rpath,'$$ORIGIN' $(CUDA_HOME)/lib64/libcudart_static.a \
	  $(LDFLAGS_ALL) -ldl -lrt -lm
cuda: $(B)/libtide_cuda.so
.PHONY: cuda cuda-fake
# An older nvcc cannot compile it, and then it is left out.
NVCC_RELEASE := $(if $(NVCC),$(shell $(NVCC) --version | sed -n 's/.*release \([0-9]*\).*/\1/p'))
HAS_CUDA := $(filter-out 1 2 3 4 5 6 7 8 9 10 11 12,$(NVCC_RELEASE))
ifeq ($(SANITIZE)$(PLANT),)
all: $(if $(HAS_CUDA),cuda)
endif

# The same plugin on any machine: kernels on the processor, a runtime that is
# none (tests/cuda). Signed integers wrap there, as they do on a card.
FAKE_SRC := $(wildcard tests/cuda/fake/*.c)
FAKE_OBJ := $(FAKE_SRC:tests/cuda/fake/%.c=$(B)/cuda-fake/%.o) $(B)/cuda-fake/emulate.o
CXX ?= g++
CXX_FLAGS = -std=c++20 -D_GNU_SOURCE $(if $(SANITIZE),-O0,-O1) -g -fPIC -fwrapv -fvisibility=hidden \
  -I. -I$(B) $(CUDA_INCLUDE) $(subst $(comma), ,$(CU_WARN)) -Werror \
  -Wno-deprecated-enum-float-conversion \
  $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer)
$(FAKE_SRC:tests/cuda/fake/%.c=$(B)/cuda-fake/%.o): $(B)/cuda-fake/%.o: tests/cuda/fake/%.c $(B)/.flags
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(CUDA_INCLUDE) -MMD -MP -c -o $@ $<
$(B)/cuda-fake/emulate.o: tests/cuda/emulate.cc $(B)/.flags
	@mkdir -p $(@D)
	$(CXX) $(CXX_FLAGS) -MMD -MP -c -o $@ $<
$(B)/cuda-fake/%.cu.o: kernels/%.cu $(B)/.flags
	@mkdir -p $(@D)
	$(CXX) -x c++ $(CXX_FLAGS) -include tests/cuda/emulate.h -MMD -MP -c -o $@ $<
$(B)/cuda-fake/libtide_cuda.so: $(CUDA_C_OBJ) $(FAKE_OBJ) \
  $(CU_SRC:kernels/%.cu=$(B)/cuda-fake/%.cu.o) $(B)/libtide.so
	$(CXX) -shared -Wl,-z,nodelete -o $@ $(filter %.o,$^) -L$(B) -ltide \
	  -Wl,-rpath,'$$ORIGIN/..' $(LDFLAGS_ALL)
# Libraries of the machine that are none: TIDE_CUDA_LIBS=$(B)/cuda-fake
$(B)/cuda-fake/libnvidia-ml.so.1: tests/cuda/libraries/nvml.c $(B)/.flags
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -shared -o $@ $<
$(B)/cuda-fake/libcupti.so.13: tests/cuda/libraries/cupti.c $(B)/.flags
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(CUDA_INCLUDE) -shared -Wl,-soname,libcupti.so.13 -o $@ $<
cuda-fake: $(B)/cuda-fake/libtide_cuda.so $(B)/cuda-fake/libnvidia-ml.so.1 \
  $(B)/cuda-fake/libcupti.so.13
cuda-fake: $(B)/cuda-fake/libtide_cuda.so
# Libraries that it opens where TIDE_CUDA_LIBS=$(B)/cuda-fake/lib: fakes, which
# run on the fake runtime of the plugin.
$(B)/cuda-fake/lib/libcublasLt.so.13: tests/cuda/libraries/cublasLt.c \
  tests/cuda/fake/fake_blas.h $(B)/cuda-fake/libtide_cuda.so
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(CUDA_INCLUDE) -shared -o $@ $< -L$(B)/cuda-fake \
	  -l:libtide_cuda.so -Wl,-rpath,'$$ORIGIN/..' -Wl,-rpath-link,$(B) -lm
cuda-fake: $(B)/cuda-fake/lib/libcublasLt.so.13
$(B)/cuda-fake/lib/libcudnn.so.9: tests/cuda/libraries/cudnn.c \
  tests/cuda/fake/fake_cudnn.h $(B)/cuda-fake/libtide_cuda.so
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(CUDA_INCLUDE) -shared -o $@ $< -L$(B)/cuda-fake \
	  -l:libtide_cuda.so -Wl,-rpath,'$$ORIGIN/..' -Wl,-rpath-link,$(B)
cuda-fake: $(B)/cuda-fake/lib/libcudnn.so.9

# On a machine with a GPU: the whole list, and what models take there beside
# PyTorch. Where none is, `make gpu-tree` makes the folder that is brought to one.
# Each can be tried with GPU_PLUGIN=build/cuda-fake/libtide_cuda.so GPU_FLAGS=--brief.
GPU_PLUGIN ?= $(B)/libtide_cuda.so
GPU_FLAGS ?=
GPU_PROGRAMS := $(addprefix $(B)/tests/,rows/rows $(addprefix engine/run/,random_graphs session stops))
gpu: all $(GPU_PLUGIN) $(GPU_PROGRAMS)
	tests/cuda/gpu.py --build $(B) --library $(GPU_PLUGIN) $(GPU_FLAGS)
gpu-tree: all $(GPU_PLUGIN) $(GPU_PROGRAMS)
	tests/cuda/gpu_tree.py $(B) $(GPU_PLUGIN) $(B)/gpu-tree
bench-gpu: all $(GPU_PLUGIN)
	tests/bench/gpu.py --build $(B) --library $(GPU_PLUGIN) $(GPU_FLAGS)
.PHONY: gpu gpu-tree bench-gpu

# ---- tests -----------------------------------------------------------------

# C tests mirror the tree: tests/engine/base/map.c -> $(B)/tests/engine/base/map
CTEST_SRC := $(wildcard tests/engine/*/*.c tests/kernels/*.c tests/kernels/*/*.c)
CUDA_TESTS := $(patsubst %.c,$(B)/%,$(wildcard tests/cuda/*.c))
cuda-ctests: cuda-fake $(CUDA_TESTS)
.PHONY: cuda-ctests
CUDNN_OBJ := $(addprefix $(B)/cuda/,door.o cudnn.o cudnn_graph.o cudnn_plans.o)
$(addprefix $(B)/tests/cuda/,cudnn plans): $(CUDNN_OBJ)
$(addprefix $(B)/tests/cuda/,cudnn plans): LIBS += $(CUDNN_OBJ)
CTESTS := $(CTEST_SRC:%.c=$(B)/%)
$(B)/tests/%: tests/%.c $(LIB_OBJ) $(B)/.flags
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -rdynamic -MMD -MP -o $@ $< $(LIB_OBJ) $(LINK_TEST) $(LDFLAGS_ALL) $(LIBS) -lcmocka
$(B)/tests/engine/graph/signatures: LIBS += -ljansson
# It looks into what the plugin has, which exports nothing.
$(B)/tests/cuda/blas: tests/cuda/blas.c $(B)/cuda/blas_plan.o $(B)/cuda/door.o \
  $(LIB_OBJ) $(B)/.flags | $(B)/cuda-fake/lib/libcublasLt.so.13
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) $(CUDA_INCLUDE) -rdynamic -MMD -MP -o $@ $< \
	  $(filter %.o,$^) $(LDFLAGS_ALL) $(LIBS) -lcmocka

# The simulator: tests/sim/base/pool.c takes the place of engine/base/pool.c, and
# so on; all other objects are the real ones.
SIM_BASE := $(wildcard tests/sim/base/*.c)
SIM_OBJ := $(filter-out $(SIM_BASE:tests/sim/base/%.c=$(B)/engine/base/%.o),$(LIB_OBJ)) \
  $(SIM_BASE:%.c=$(B)/%.o)
# What has a header is shared by the tests there, and is none.
SIM_SHARED := $(wildcard $(patsubst %.h,%.c,$(wildcard tests/sim/*.h)))
SIM_SHARED_OBJ := $(SIM_SHARED:%.c=$(B)/%.o)
SIM_TESTS := $(patsubst %.c,$(B)/%,$(filter-out $(SIM_SHARED),$(wildcard tests/sim/*.c)))
$(SIM_BASE:%.c=$(B)/%.o) $(SIM_SHARED_OBJ): $(B)/%.o: %.c $(B)/.flags
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<
$(SIM_TESTS): $(B)/tests/sim/%: tests/sim/%.c $(SIM_OBJ) $(SIM_SHARED_OBJ) $(B)/.flags
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -MMD -MP -o $@ $< $(SIM_OBJ) $(SIM_SHARED_OBJ) \
	  $(LINK_TEST) $(LDFLAGS_ALL) $(LIBS) -lcmocka

# The same with planted bug 11, which only an unlucky order shows.
UNLUCKY := $(shell grep -l 'TD_PLANT(11)' engine/*/*.c)
UNLUCKY_OBJ := $(UNLUCKY:%.c=$(B)/tests/sim/unlucky/%.o)
$(UNLUCKY_OBJ): $(B)/tests/sim/unlucky/%.o: %.c $(B)/.flags | $(PROTO_H)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -UTD_PLANTED -DTD_PLANTED=11 -MMD -MP -c -o $@ $<
$(B)/tests/sim/unlucky/graphs: $(B)/tests/sim/graphs $(UNLUCKY_OBJ)
	$(CC) $(CFLAGS_ALL) -o $@ tests/sim/graphs.c $(UNLUCKY_OBJ) $(SIM_SHARED_OBJ) \
	  $(filter-out $(UNLUCKY:%.c=$(B)/%.o),$(SIM_OBJ)) $(LDFLAGS_ALL) $(LIBS) -lcmocka

# One test of several files: a row for every op, and TensorFlow's answers.
ROWS_OBJ := $(patsubst %.c,$(B)/%.o,$(wildcard tests/rows/*.c)) \
  $(B)/tests/golden/golden.pb-c.o
$(B)/tests/rows/%.o: tests/rows/%.c $(B)/tests/golden/golden.pb-c.h \
  $(B)/.flags | $(PROTO_H)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<
$(B)/tests/rows/rows: $(ROWS_OBJ) $(LIB_OBJ)
	$(CC) -rdynamic -o $@ $^ $(LINK_TEST) $(LDFLAGS_ALL) $(LIBS) -lcmocka

# The console core, with the interpreter in it.
CONSOLE_OBJ := $(CONSOLE_SRC:%.c=$(B)/%.o) $(BIND_OBJ)
$(B)/tests/lua/console/%: tests/lua/console/%.c $(LIB_OBJ) $(CONSOLE_OBJ) $(B)/.flags
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -MMD -MP -o $@ $< $(LIB_OBJ) $(CONSOLE_OBJ) \
	  $(LINK_TEST) $(LDFLAGS_ALL) $(LIBS) -lcmocka -llua5.4
CONSOLE_TESTS := $(patsubst %.c,$(B)/%,$(wildcard tests/lua/console/*.c))

# The editor of the prompt.
REPL_OBJ := $(filter-out $(B)/repl/main.o,$(REPL_SRC:%.c=$(B)/%.o))
$(B)/tests/repl/%: tests/repl/%.c $(LIB_OBJ) $(CONSOLE_OBJ) $(REPL_OBJ) $(B)/.flags
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -MMD -MP -o $@ $< $(LIB_OBJ) $(CONSOLE_OBJ) $(REPL_OBJ) \
	  $(LINK_TEST) $(LDFLAGS_ALL) $(LIBS) -lcmocka -llua5.4 -ljansson $(REPL_LIBS)
CONSOLE_TESTS += $(patsubst %.c,$(B)/%,$(wildcard tests/repl/*.c))

ctests: $(CTESTS) $(SIM_TESTS) $(B)/tests/sim/unlucky/graphs $(CONSOLE_TESTS) $(B)/tests/rows/rows
.PHONY: ctests
.SECONDARY:

# Everything that tests run: plain, with address and undefined sanitizers, with
# the thread sanitizer. What is plain is made by this make, not by one below it:
# two that make the same files at once (make -j all test-build) spoil them.
THREAD_TESTS := $(wildcard $(addprefix tests/,$(shell sed 's/\#.*//' tests/thread.txt)))
test-build: all ctests
	$(MAKE) SANITIZE=address,undefined ctests $(B)/address-undefined/tide \
	  $(if $(HAS_CUDA),cuda-ctests)
	$(MAKE) SANITIZE=thread thread-ctests $(if $(HAS_CUDA),cuda-ctests)
	$(MAKE) fuzz-build
thread-ctests: $(THREAD_TESTS:%.c=$(B)/%)
.PHONY: test-build thread-ctests

# Python's packages for tests of the notebook and the prompt. Without them those
# tests are skipped, which is said and counted; under CI=true it is a failure.
VENV := $(B)/venv/.done
PAPERMILL := $(wildcard jupyter/papermill_tide/*.toml \
  jupyter/papermill_tide/papermill_tide/*.py)
$(VENV): tests/requirements.txt $(PAPERMILL)
	@mkdir -p $(B)
	@if { test -x $(B)/venv/bin/python || $(PYTHON) -m venv $(B)/venv; } && \
	  $(B)/venv/bin/python -m pip install -q --disable-pip-version-check \
	    -r $< && \
	  $(B)/venv/bin/python -m pip install -q --disable-pip-version-check \
	    --no-build-isolation --no-deps jupyter/papermill_tide; \
	then touch $@; \
	else echo "The packages in $< cannot be installed in $(B)/venv;" \
	  "tests that need them are skipped." >&2; test "$$CI" != true; fi

setup:
	@$(if $(DEPS),:,.ci/setup)
setup-build:
	@$(if $(DEPS),:,.ci/setup build)
.PHONY: setup setup-build

test: setup
	$(MAKE) -j$(JOBS) test-build $(VENV)
	tests/run.py --build $(B)
# The browser and JupyterLab may be missing: their tests are skipped then.
soak: setup
	-$(if $(DEPS),,.ci/setup soak)
	$(MAKE) -j$(JOBS) test-build $(VENV)
	-$(MAKE) $(LAB)
	tests/run.py --build $(B) --soak --fuzz 300
# One device, by its type or by the op library that makes it; worker, or the
# address of one.
DEVICE ?= CPU
$(B)/extend/far.so: tutorials/extend/device/far.c $(B)/libtide.so
	@mkdir -p $(@D)
	$(CC) -std=c17 -O2 -fPIC -shared -I. -o $@ $< -L$(B) -ltide -Wl,-rpath,'$$ORIGIN/..'
conformance: setup-build
	$(MAKE) -j$(JOBS) all ctests $(filter %/far.so,$(DEVICE))
	tests/run.py --build $(B) --device $(DEVICE)
demo: setup-build
	$(MAKE) -j$(JOBS) base
	$(B)/tide tutorials/mnist_mlp.lua
# The peers come from PyPI into a virtual environment of their own.
PEERS ?=
BENCH_PYTHON := $(if $(PEERS),$(B)/bench-venv/bin/python,$(PYTHON))
PEER_PACKAGES := $(patsubst tensorflow,tensorflow-cpu,$(subst $(comma), ,$(PEERS)))
BENCH_C = $(CC) $(INCLUDE) $(CFLAGS_ALL) -o $@ $< -ltide -Wl,-rpath,'$$ORIGIN/..' $(LDFLAGS_ALL)
REMOTE_BENCH := $(addprefix $(B)/bench/,remote_channel remote_fetch remote_round hostile_peer)
$(REMOTE_BENCH): LDFLAGS_ALL += -lzmq
$(B)/bench/null_run $(B)/bench/nothing $(B)/bench/checkpoint $(REMOTE_BENCH): $(B)/bench/%: tests/bench/%.c $(B)/libtide.so
	@mkdir -p $(@D)
	$(BENCH_C) -L$(B)
# AGAINST=../before/build: another build of Tide is the peer, in one interleaved
# run with this one. What measures it is of its own tree, C and Lua.
AGAINST ?=
ROUNDS ?= 9
BEFORE := $(if $(wildcard $(AGAINST)/../tests/bench/null_run.c),$(AGAINST)/..,.)
$(B)/bench/before/bench/null_run: INCLUDE := -I$(BEFORE) -I$(AGAINST)
$(B)/bench/before/bench/null_run: $(BEFORE)/tests/bench/null_run.c FORCE
	@mkdir -p $(@D)
	$(BENCH_C) -L$(AGAINST)
bench: setup
	$(MAKE) -j$(JOBS) all $(B)/bench/null_run $(B)/bench/nothing $(B)/bench/checkpoint \
	  $(REMOTE_BENCH) \
	  $(if $(AGAINST),$(B)/bench/before/bench/null_run $(VENV))
	$(if $(PEERS),test -x $(BENCH_PYTHON) || $(PYTHON) -m venv $(B)/bench-venv)
	$(if $(PEERS),$(BENCH_PYTHON) -m pip install -q numpy $(PEER_PACKAGES))
	tests/bench/run.py --build $(B) --rows "$(ROWS)" --peers "$(PEERS)" \
	  --python $(BENCH_PYTHON) --rounds $(ROUNDS) --against "$(AGAINST)"

# ---- the notebook ----------------------------------------------------------

# JupyterLab from PyPI in a virtual environment, with the kernel in it, opened on
# the tutorials. LAB_FLAGS=--no-browser --port=9999 are JupyterLab's own.
LAB_FLAGS ?=
LAB := $(B)/lab/.done
LAB_SETTINGS := $(B)/lab/share/jupyter/lab/settings
$(LAB): tests/lab/requirements.txt tests/lab/overrides.json $(PAPERMILL)
	@mkdir -p $(B)
	test -x $(B)/lab/bin/python || $(PYTHON) -m venv $(B)/lab
	$(B)/lab/bin/python -m pip install -q --disable-pip-version-check -r $< \
	  jupyter/papermill_tide
	mkdir -p $(LAB_SETTINGS) && cp tests/lab/overrides.json $(LAB_SETTINGS)
	touch $@
lab-kernel: all $(LAB)
	$(B)/tide install-kernel --prefix $(B)/lab
lab: setup-build
	$(MAKE) -j$(JOBS) lab-kernel
	PATH="$(abspath $(B))/lab/bin:$$PATH" $(B)/lab/bin/jupyter-lab \
	  $(if $(filter 0,$(shell id -u)),--allow-root) --notebook-dir=tutorials \
	  $(LAB_FLAGS) tutorials/tensors_and_graphs.ipynb
.PHONY: lab lab-kernel

# ---- documentation ---------------------------------------------------------

# The reference as Markdown and HTML, and tide.1: from the op registry and the
# doc comments of the Lua library.
$(B)/doc/tide.1: $(B)/tide
	$(B)/tide --help > $(B)/usage.txt
	$(B)/tide doc $(@D) $(B)/usage.txt
doc: $(B)/doc/tide.1

# ---- fuzzing ---------------------------------------------------------------

# tests/fuzz/graphdef.c -> $(B)/fuzz/graphdef: clang's libFuzzer, on a library
# built for it. make fuzz runs each target for FUZZ seconds, from its corpus.
FUZZ ?= 20
FUZZ_SRC := $(wildcard tests/fuzz/*.c)
FUZZ_SANITIZE := fuzzer-no-link,address,undefined
FUZZ_B := $(B)/$(subst $(comma),-,$(FUZZ_SANITIZE))
FUZZ_BIN := $(FUZZ_SRC:%.c=$(FUZZ_B)/%)
# The reader of the notebook's messages is no part of the library.
WIRE_OBJ := $(patsubst %,$(B)/jupyter/%.o,wire request connection replay)
$(B)/tests/fuzz/jupyter_wire: tests/fuzz/jupyter_wire.c $(LIB_OBJ) $(WIRE_OBJ) \
  $(B)/.flags
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -MMD -MP -o $@ $< $(LIB_OBJ) $(WIRE_OBJ) \
	  $(LDFLAGS_ALL) $(LIBS) -lzmq -ljansson
# The talk of peers runs on the simulator's thread.
$(B)/tests/fuzz/wire: tests/fuzz/wire.c $(SIM_OBJ) $(B)/.flags
	@mkdir -p $(@D)
	$(CC) $(CFLAGS_ALL) -MMD -MP -o $@ $< $(SIM_OBJ) $(LDFLAGS_ALL) $(LIBS) -lcmocka
fuzz-build:
	@mkdir -p $(B)/fuzz
	$(MAKE) TD_CC=clang SANITIZE=$(FUZZ_SANITIZE) CFLAGS=-Wno-pass-failed \
	  LDFLAGS=-fsanitize=fuzzer $(FUZZ_BIN)
	cp -p $(FUZZ_BIN) $(B)/fuzz
fuzz: fuzz-build
	tests/run.py --build $(B) --fuzz $(FUZZ) fuzz
.PHONY: fuzz fuzz-build

# ---- installing ------------------------------------------------------------

LUA_CPATH := $(DESTDIR)$(PREFIX)/lib/lua/5.4
install: all doc
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib $(LUA_CPATH)
	install -D -m 644 $(B)/doc/tide.1 $(DESTDIR)$(PREFIX)/share/man/man1/tide.1
	install $(B)/tide $(DESTDIR)$(PREFIX)/bin/tide
	install $(B)/libtide.so.$(ABI) $(DESTDIR)$(PREFIX)/lib/
	ln -sf libtide.so.$(ABI) $(DESTDIR)$(PREFIX)/lib/libtide.so
	install $(B)/tide.so $(LUA_CPATH)/tide.so
	$(B)/tide install-kernel --prefix $(DESTDIR)$(PREFIX) \
	  --command $(PREFIX)/bin/tide
	for f in engine/base/base.h $$(grep -l '^TD_BEGIN' engine/*/*.h); do \
	  install -D -m 644 $$f $(DESTDIR)$(PREFIX)/include/tide/$$f; done

clean:
	rm -rf build

FORCE:
.PHONY: FORCE
