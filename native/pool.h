// A pool that shares out the chunks of one job at a time, an even part to each thread. The caller works too. Waiting threads spin briefly and
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
#define ADD(word, amount) __atomic_add_fetch(&(word), amount, __ATOMIC_SEQ_CST)

INLINE int32_t share_end(int64_t chunks, int64_t thread, int64_t threads) {
  return (int32_t)(chunks * (thread + 1) / threads);
}

/*
 * Runs chunks of the current job until none is unclaimed: first the thread's own share, then what others have left of
 * theirs. While all are busy no thread touches what another one writes.
 */
static void run_chunks(Context *context, int thread) {
  Pool *pool = &context->pool;
  int32_t ran = 0;
  for (int turn = 0, owner = thread; turn < context->threads; turn++) {
    uint64_t *share = &pool->shares[owner].ticket;
    uint64_t ticket = READ(*share);
    while ((uint32_t)ticket) {
      if (!__atomic_compare_exchange_n(share, &ticket, ticket - 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) continue;
      // The claimed chunk is not done, so the job's fields hold still.
      pool->work(pool->job, share_end(pool->chunks, owner, context->threads) - (int32_t)(uint32_t)ticket, thread);
      ran++;
      ticket = READ(*share);
    }
    owner = owner + 1 < context->threads ? owner + 1 : 0;
  }
  if (ran && ADD(pool->done, ran) == pool->chunks && READ(pool->callerWaits)) wake(context, &pool->done, 1);
}

/* The life of a helping thread. */
static void help(Context *context, int thread) {
  Pool *pool = &context->pool;
  while (!READ(pool->stop)) {
    int32_t seen = READ(pool->signal);
    run_chunks(context, thread);
    int spins = SPINS;
    while (spins-- && READ(pool->signal) == seen) pause();
    if (spins >= 0) continue;
    ADD(pool->sleepers, 1);
    if (!READ(pool->stop)) park(context, &pool->signal, seen);
    ADD(pool->sleepers, -1);
  }
}

static void stop_helpers(Context *context) {
  WRITE(context->pool.stop, 1);
  ADD(context->pool.signal, 1);
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
  uint64_t generation = (uint64_t)(uint32_t)(READ(pool->signal) + 1) << 32;
  for (int64_t thread = 0, from = 0; thread < context->threads; thread++) {
    int32_t to = share_end(chunks, thread, context->threads);
    __atomic_store_n(&pool->shares[thread].ticket, generation | (uint64_t)(to - from), __ATOMIC_RELEASE);
    from = to;
  }
  ADD(pool->signal, 1);
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
