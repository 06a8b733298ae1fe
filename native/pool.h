// A pool that shares out the chunks of one job at a time. The caller works too. Waiting threads spin briefly and
// then park, so that on busy cores they cost nothing.

#if defined(__wasm__)
#define pause() ((void)0)
enum { SPINS = 3000 };
static void park(Context *context, int32_t *word, int32_t seen) {
  (void)context;
  __builtin_wasm_memory_atomic_wait32(word, seen, -1);
}
static void wake(Context *context, int32_t *word, int32_t count) {
  (void)context;
  __builtin_wasm_memory_atomic_notify(word, count);
}
#else
#if defined(__x86_64__)
#define pause() __builtin_ia32_pause()
enum { SPINS = 1500 };
#elif defined(__aarch64__)
#define pause() __asm__ volatile("yield")
enum { SPINS = 4000 };
#else
#define pause() ((void)0)
enum { SPINS = 4000 };
#endif
static void park(Context *context, int32_t *word, int32_t seen);
static void wake(Context *context, int32_t *word, int32_t count);
#endif

#define READ(word) __atomic_load_n(&(word), __ATOMIC_SEQ_CST)
#define WRITE(word, value) __atomic_store_n(&(word), value, __ATOMIC_SEQ_CST)
#define INCREMENT(word) __atomic_add_fetch(&(word), 1, __ATOMIC_SEQ_CST)
#define DECREMENT(word) __atomic_sub_fetch(&(word), 1, __ATOMIC_SEQ_CST)

/* Runs chunks of the current job until none is unclaimed. */
static void run_chunks(Context *context, int thread) {
  Pool *pool = &context->pool;
  uint64_t ticket = READ(pool->ticket);
  while ((uint32_t)ticket) {
    if (!__atomic_compare_exchange_n(&pool->ticket, &ticket, ticket - 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
      continue;
    // The claimed chunk is not done, so the job's fields hold still.
    int32_t chunks = pool->chunks;
    pool->work(pool->job, chunks - (int32_t)(uint32_t)ticket, thread);
    if (INCREMENT(pool->done) == chunks && READ(pool->callerWaits)) wake(context, &pool->done, 1);
    ticket = READ(pool->ticket);
  }
}

/* The life of a helping thread. */
static void help(Context *context, int thread) {
  Pool *pool = &context->pool;
  while (!READ(pool->stop)) {
    run_chunks(context, thread);
    int spins = SPINS;
    while (spins-- && !(uint32_t)READ(pool->ticket) && !READ(pool->stop)) pause();
    if (spins >= 0) continue;
    int32_t seen = READ(pool->signal);
    INCREMENT(pool->sleepers);
    if (!(uint32_t)READ(pool->ticket) && !READ(pool->stop)) park(context, &pool->signal, seen);
    DECREMENT(pool->sleepers);
  }
}

static void stop_helpers(Context *context) {
  WRITE(context->pool.stop, 1);
  INCREMENT(context->pool.signal);
  wake(context, &context->pool.signal, 0x7fffffff);
}

static void parallel(Context *context, int64_t chunks, Work work, void *job) {
  if (chunks <= 1 || context->threads <= 1) {
    for (int64_t chunk = 0; chunk < chunks; chunk++) work(job, chunk, 0);
    return;
  }
  Pool *pool = &context->pool;
  pool->work = work;
  pool->job = job;
  pool->chunks = (int32_t)chunks;
  WRITE(pool->done, 0);
  uint64_t generation = (READ(pool->ticket) >> 32) + 1;
  WRITE(pool->ticket, generation << 32 | (uint64_t)chunks);
  INCREMENT(pool->signal);
  if (READ(pool->sleepers)) wake(context, &pool->signal, (int32_t)least(chunks - 1, context->threads - 1));
  run_chunks(context, 0);
  for (int spins = SPINS; spins && READ(pool->done) != chunks; spins--) pause();
  if (READ(pool->done) == chunks) return;
  WRITE(pool->callerWaits, 1);
  for (int32_t done; (done = READ(pool->done)) != chunks;) park(context, &pool->done, done);
  WRITE(pool->callerWaits, 0);
}

/* How many items a chunk takes so that it is worth handing over: about `target` units of work. */
INLINE int64_t chunk_items(int64_t work_per_item, int64_t target) {
  return most(1, target / most(1, work_per_item));
}
