// The kernels as a Node-API addon, for Linux and macOS. Every `create` is an instance of its own: heap, arguments and
// threads. The heap is a reservation of address space; the system gives it memory where it is touched.
#define _GNU_SOURCE
#include <node_api.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__linux__)
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#endif
#include "kernels.c"

typedef struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  pthread_t *threads;
  int started, closed;
  int holders; // the instance and every view: the last one gone frees the heap
  uint64_t reserved;
} Platform;

#if defined(__linux__)
static void park(Context *context, int32_t *word, int32_t seen) {
  (void)context;
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}
static void wake(Context *context, int32_t *word, int32_t count) {
  (void)context;
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}
#else
static void park(Context *context, int32_t *word, int32_t seen) {
  Platform *platform = context->platform;
  pthread_mutex_lock(&platform->lock);
  while (READ(*word) == seen) pthread_cond_wait(&platform->changed, &platform->lock);
  pthread_mutex_unlock(&platform->lock);
}
static void wake(Context *context, int32_t *word, int32_t count) {
  (void)word, (void)count;
  Platform *platform = context->platform;
  pthread_mutex_lock(&platform->lock);
  pthread_cond_broadcast(&platform->changed);
  pthread_mutex_unlock(&platform->lock);
}
#endif

typedef struct {
  Context *context;
  int thread;
} Helper;

static void *helper_main(void *data) {
  Helper helper = *(Helper *)data;
  free(data);
  help(helper.context, helper.thread);
  return NULL;
}

/* Ends the threads; the heap stays until the views on it are gone. */
static void stop_context(Context *context) {
  Platform *platform = context->platform;
  if (platform->closed) return;
  platform->closed = 1;
  stop_helpers(context);
  for (int i = 0; i < platform->started; i++) pthread_join(platform->threads[i], NULL);
  free(platform->threads);
  free(context->scratch);
  context->scratch = NULL;
}

static void release_context(Context *context) {
  Platform *platform = context->platform;
  if (--platform->holders) return;
  munmap(context->memory, platform->reserved);
  pthread_mutex_destroy(&platform->lock);
  pthread_cond_destroy(&platform->changed);
  free(platform);
  free(context);
}
static void at_exit(void *data) { stop_context(data); }
static void drop_instance(napi_env env, void *data, void *hint) {
  (void)hint;
  Context *context = data;
  Platform *platform = context->platform;
  if (!platform->closed) napi_remove_env_cleanup_hook(env, at_exit, context);
  stop_context(context);
  release_context(context);
}
static void drop_view(napi_env env, void *data, void *hint) {
  (void)env, (void)data;
  release_context(hint);
}
static napi_value view_of(napi_env env, Context *context, void *data, size_t bytes) {
  napi_value view = NULL;
  Platform *platform = context->platform;
  platform->holders++;
  if (napi_create_external_arraybuffer(env, data, bytes, drop_view, context, &view) == napi_ok) return view;
  platform->holders--;
  return NULL;
}

static Context *create_context(int threads, uint64_t bytes) {
  Context *context = NULL;
  Platform *platform = calloc(1, sizeof *platform);
  if (!platform || posix_memalign((void **)&context, 64, sizeof *context)) return free(platform), NULL;
  memset(context, 0, sizeof *context);
  context->platform = platform;
  context->threads = threads;
  int flags = MAP_PRIVATE | MAP_ANON;
#if defined(MAP_NORESERVE)
  flags |= MAP_NORESERVE;
#endif
  void *memory = MAP_FAILED;
  for (; bytes >= 1 << 26; bytes /= 2) {
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory != MAP_FAILED) break;
  }
  platform->threads = calloc((size_t)threads, sizeof(pthread_t));
  if (memory == MAP_FAILED || !platform->threads ||
      posix_memalign((void **)&context->scratch, 4096, (size_t)threads * SCRATCH_BYTES)) {
    if (memory != MAP_FAILED) munmap(memory, bytes);
    free(platform->threads);
    free(platform);
    free(context);
    return NULL;
  }
#if defined(MADV_HUGEPAGE)
  // A step of generation walks tens of megabytes of cache, far more than a table of small pages covers.
  madvise(memory, bytes, MADV_HUGEPAGE);
#endif
  context->memory = memory;
  platform->reserved = bytes;
  platform->holders = 1;
  context->low = context->high = 64;
  pthread_mutex_init(&platform->lock, NULL);
  pthread_cond_init(&platform->changed, NULL);
  for (int i = 1; i < threads; i++) {
    Helper *helper = malloc(sizeof *helper);
    if (!helper) break;
    *helper = (Helper){context, i};
    if (pthread_create(&platform->threads[platform->started], NULL, helper_main, helper)) {
      free(helper);
      break;
    }
    platform->started++;
  }
  return context;
}

static double number_at(napi_env env, napi_value value) {
  double number = -1;
  return napi_get_value_double(env, value, &number) == napi_ok ? number : -1;
}
static napi_value number_of(napi_env env, double number) {
  napi_value value = NULL;
  napi_create_double(env, number, &value);
  return value;
}

/* run(op): the op's result code; its numbers are in `arguments`. */
static napi_value call_run(napi_env env, napi_callback_info info) {
  size_t count = 1;
  napi_value arguments[1], result;
  Context *context;
  napi_get_cb_info(env, info, &count, arguments, NULL, (void **)&context);
  uint32_t op = 0xffffffff;
  if (count) napi_get_value_uint32(env, arguments[0], &op);
  Platform *platform = context->platform;
  napi_create_int32(env, platform->closed ? UNKNOWN_OP : run_op(context, op), &result);
  return result;
}

/* setHeap(end, workspace, workspaceBytes): what may be addressed from now on; false if not reserved. */
static napi_value call_set_heap(napi_env env, napi_callback_info info) {
  size_t count = 3;
  napi_value arguments[3], result;
  Context *context;
  napi_get_cb_info(env, info, &count, arguments, NULL, (void **)&context);
  double end = number_at(env, arguments[0]), at = number_at(env, arguments[1]), bytes = number_at(env, arguments[2]);
  Platform *platform = context->platform;
  int fits = end >= (double)context->low && end <= (double)platform->reserved && at >= 0 && bytes >= 0 &&
             at + bytes <= end;
  if (fits) {
    context->high = (uint64_t)end;
    context->workspace = (uint64_t)at;
    context->workspaceBytes = (uint64_t)bytes;
  }
  napi_get_boolean(env, fits, &result);
  return result;
}

/* view(address, bytes): an ArrayBuffer on that part of the heap. */
static napi_value call_view(napi_env env, napi_callback_info info) {
  size_t count = 2;
  napi_value arguments[2];
  Context *context;
  napi_get_cb_info(env, info, &count, arguments, NULL, (void **)&context);
  double address = number_at(env, arguments[0]), bytes = number_at(env, arguments[1]);
  Platform *platform = context->platform;
  if (platform->closed || !(address >= 0 && bytes >= 0 && address + bytes <= (double)platform->reserved)) return NULL;
  return view_of(env, context, context->memory + (uint64_t)address, (size_t)bytes);
}

static napi_value call_close(napi_env env, napi_callback_info info) {
  size_t count = 0;
  Context *context;
  napi_get_cb_info(env, info, &count, NULL, NULL, (void **)&context);
  Platform *platform = context->platform;
  if (!platform->closed) {
    napi_remove_env_cleanup_hook(env, at_exit, context);
    stop_context(context);
    // Pages go back at once; addresses stay reserved, so that a stale view reads zeros instead of crashing.
    madvise(context->memory, platform->reserved, MADV_DONTNEED);
  }
  return NULL;
}

/* create(threads, bytes): an instance. Its functions keep it alive. */
static napi_value create(napi_env env, napi_callback_info info) {
  size_t count = 2;
  napi_value arguments[2], instance, value;
  napi_get_cb_info(env, info, &count, arguments, NULL, NULL);
  double threads = number_at(env, arguments[0]), bytes = number_at(env, arguments[1]);
  if (!(threads >= 1 && threads <= MOST_THREADS && bytes >= 1 << 26 && bytes <= 1e15)) return NULL;
  Context *context = create_context((int)threads, (uint64_t)bytes);
  if (!context) return NULL;
  napi_create_object(env, &instance);
  napi_wrap(env, instance, context, drop_instance, NULL, NULL);
  napi_add_env_cleanup_hook(env, at_exit, context);
  const struct {
    const char *name;
    napi_callback function;
  } functions[] = {{"run", call_run}, {"setHeap", call_set_heap}, {"view", call_view}, {"close", call_close}};
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    napi_create_function(env, functions[i].name, NAPI_AUTO_LENGTH, functions[i].function, context, &value);
    napi_set_named_property(env, instance, functions[i].name, value);
  }
  value = view_of(env, context, context->arguments, sizeof context->arguments);
  if (value) napi_set_named_property(env, instance, "arguments", value);
  Platform *platform = context->platform;
  napi_set_named_property(env, instance, "low", number_of(env, (double)context->low));
  napi_set_named_property(env, instance, "reserved", number_of(env, (double)platform->reserved));
  napi_set_named_property(env, instance, "threads", number_of(env, (double)platform->started + 1));
  return instance;
}

NAPI_MODULE_INIT() {
  napi_value value;
  napi_create_function(env, "create", NAPI_AUTO_LENGTH, create, NULL, &value);
  napi_set_named_property(env, exports, "create", value);
  napi_create_string_utf8(env, opNames, NAPI_AUTO_LENGTH, &value);
  napi_set_named_property(env, exports, "opNames", value);
  return exports;
}
