// The paged cache of keys and values. Block b, K/V head h: keys as panels [blockTokens / 16][headDim][16], values as
// rows [blockTokens][padded headDim]. Both kinds of block have the size of the larger.

typedef struct {
  int64_t first, count, sequence, position; // tokens first.. of the call are positions position.. of the sequence
} CacheTile;

typedef struct {
  Context *context;
  int64_t blocks, blockTokens, kvHeads, headDim, sequenceCount, blocksPerSequence, tokens;
  int64_t heads, group, padded, blockFloats, kStride, vStride, qStride, longest, tileTokens, tileBytes, tiles;
  float scale;
  float *keys, *values, *out;
  const float *k, *v, *q;
  const int32_t *table, *sequences, *positions;
  CacheTile *tile;
  uint8_t *memory;
} CacheJob;

static void take_cache_shape(Call *call, CacheJob *job) {
  job->context = call->context;
  job->blocks = take_size(call);
  job->blockTokens = take_size(call);
  if (job->blockTokens % PANEL || !job->blockTokens) fail(call, 1, BAD_SIZE);
  job->kvHeads = take_size(call);
  job->headDim = take_size(call);
  job->padded = round_up(job->headDim, PANEL);
  job->blockFloats = times(times(job->kvHeads, job->blockTokens), job->padded);
}

static int32_t op_cacheBytes(Call *call) {
  CacheJob job = {0};
  take_cache_shape(call, &job);
  if (call->error) return call->error;
  call->context->arguments[DETAILS] = (double)times(4, times(job.blocks, job.blockFloats));
  return 0;
}

static void take_cache(Call *call, CacheJob *job) {
  take_cache_shape(call, job);
  job->sequenceCount = take_size(call);
  job->blocksPerSequence = take_size(call);
  job->tokens = take_size(call);
  job->keys = take_floats(call, times(job->blocks, job->blockFloats));
  job->values = take_floats(call, times(job->blocks, job->blockFloats));
  job->table = take_ints(call, times(job->sequenceCount, job->blocksPerSequence));
  job->sequences = take_ints(call, job->tokens);
  job->positions = take_ints(call, job->tokens);
  if (call->error) return;
  int64_t capacity = times(job->blocksPerSequence, job->blockTokens);
  for (int64_t i = 0; i < job->tokens; i++) {
    int64_t sequence = job->sequences[i], position = job->positions[i];
    if (sequence < 0 || sequence >= job->sequenceCount) fail_element(call, 10, i, (double)sequence);
    else if (position < 0 || position >= capacity) fail_element(call, 11, i, (double)position);
    if (call->error) return;
    int64_t at = sequence * job->blocksPerSequence + position / job->blockTokens;
    if (job->table[at] < 0 || job->table[at] >= job->blocks) fail_element(call, 9, at, job->table[at]);
  }
}

static void cache_write_chunk(void *data, int64_t chunk, int thread) {
  (void)thread;
  CacheJob *job = data;
  const int64_t headDim = job->headDim;
  for (int64_t i = chunk * job->tileTokens; i < least(job->tokens, (chunk + 1) * job->tileTokens); i++) {
    int64_t sequence = job->sequences[i], position = job->positions[i];
    // Checked again: the cache being written may overlap the lists.
    if (sequence < 0 || sequence >= job->sequenceCount || position < 0) continue;
    if (position / job->blockTokens >= job->blocksPerSequence) continue;
    int64_t block = job->table[sequence * job->blocksPerSequence + position / job->blockTokens];
    if (block < 0 || block >= job->blocks) continue;
    int64_t slot = position % job->blockTokens;
    for (int64_t head = 0; head < job->kvHeads; head++) {
      int64_t at = block * job->blockFloats + head * job->blockTokens * job->padded;
      float *keys = job->keys + at + slot / PANEL * PANEL * headDim + slot % PANEL;
      const float *k = job->k + i * job->kStride + head * headDim, *v = job->v + i * job->vStride + head * headDim;
      for (int64_t d = 0; d < headDim; d++) keys[d * PANEL] = k[d];
      for (int64_t d = 0; d < headDim; d++) job->values[at + slot * job->padded + d] = v[d];
    }
  }
}

static int32_t op_cacheWrite(Call *call) {
  CacheJob job = {0};
  take_cache(call, &job);
  int64_t width = times(job.kvHeads, job.headDim);
  job.kStride = take_stride(call, width);
  job.vStride = take_stride(call, width);
  job.k = take_floats(call, span(job.tokens, job.kStride, width));
  job.v = take_floats(call, span(job.tokens, job.vStride, width));
  if (call->error || !width) return call->error;
  job.tileTokens = chunk_items(width, ELEMENTS / 2);
  parallel(call->context, divide_up(job.tokens, job.tileTokens), cache_write_chunk, &job);
  return 0;
}

static void cache_attention_chunk(void *data, int64_t chunk, int thread) {
  CacheJob *job = data;
  const CacheTile tile = job->tile[chunk / job->kvHeads];
  const int64_t head = chunk % job->kvHeads, group = job->group, headDim = job->headDim;
  AttentionTile t;
  lay_out(&t, job->memory + thread * job->tileBytes, job->tileTokens * group, headDim, job->longest,
          divide_up(job->longest, PANEL) + 1, divide_up(job->longest, job->blockTokens) + 1);
  t.rows = tile.count * group;
  t.length = tile.position + tile.count;
  for (int64_t token = 0; token < tile.count; token++)
    for (int64_t h = 0; h < group; h++) {
      copy_scaled(t.q + (token * group + h) * t.padded,
                  job->q + (tile.first + token) * job->qStride + (head * group + h) * headDim, headDim, t.padded,
                  job->scale);
      t.visible[token * group + h] = (int32_t)(tile.position + token + 1);
    }
  t.panels = t.runs = 0;
  for (int64_t position = 0; position < t.length; position += job->blockTokens) {
    int64_t block = job->table[tile.sequence * job->blocksPerSequence + position / job->blockTokens];
    if (block < 0 || block >= job->blocks) block = 0; // overwritten by this very call
    int64_t at = block * job->blockFloats + head * job->blockTokens * job->padded;
    int64_t count = least(job->blockTokens, t.length - position);
    for (int64_t slot = 0; slot < count; slot += PANEL)
      t.panel[t.panels++] = (KeyPanel){job->keys + at + slot * headDim, position + slot, 0};
    t.run[t.runs++] = (ValueRun){job->values + at, count};
  }
  attend(&t);
  for (int64_t token = 0; token < tile.count; token++)
    for (int64_t h = 0; h < group; h++)
      copy_out(job->out + ((tile.first + token) * job->heads + head * group + h) * headDim,
               t.out + (token * group + h) * t.padded, headDim);
}

static int64_t place_cache(CacheJob *job, uint8_t *base) {
  int64_t used = 0;
  PLACE_IN(base, used, job->tile, CacheTile, job->tokens);
  PLACE_IN(base, used, job->memory, uint8_t, times(job->tileBytes, job->context->threads));
  return used;
}

static int32_t op_cacheAttention(Call *call) {
  CacheJob job = {0};
  take_cache(call, &job);
  job.heads = take_size(call);
  if (job.heads && (!job.kvHeads || job.heads % job.kvHeads)) fail(call, call->next - 1, BAD_SIZE);
  job.qStride = take_stride(call, times(job.heads, job.headDim));
  job.scale = take_float(call);
  job.q = take_floats(call, span(job.tokens, job.qStride, times(job.heads, job.headDim)));
  job.out = take_floats(call, times(job.tokens, times(job.heads, job.headDim)));
  if (call->error || !job.heads || !job.headDim || !job.tokens) return call->error;
  job.group = job.heads / job.kvHeads;
  job.longest = 1;
  for (int64_t i = 0; i < job.tokens; i++) job.longest = most(job.longest, (int64_t)job.positions[i] + 1);
  job.tileTokens = tile_tokens(job.group, job.longest);
  job.tileBytes = lay_out(NULL, NULL, job.tileTokens * job.group, job.headDim, job.longest,
                          divide_up(job.longest, PANEL) + 1, divide_up(job.longest, job.blockTokens) + 1);
  uint8_t *base = workspace(job.context, place_cache(&job, NULL));
  if (!base) return WORKSPACE;
  place_cache(&job, base);
  for (int64_t i = 0; i < job.tokens;) {
    CacheTile tile = {i, 1, job.sequences[i], job.positions[i]};
    for (i++; i < job.tokens && tile.count < job.tileTokens; i++, tile.count++)
      if (job.sequences[i] != tile.sequence || job.positions[i] != tile.position + tile.count) break;
    for (int64_t b = 0; b <= (tile.position + tile.count - 1) / job.blockTokens; b++) {
      int64_t at = tile.sequence * job.blocksPerSequence + b;
      if (job.table[at] < 0 || job.table[at] >= job.blocks) {
        fail_element(call, 9, at, job.table[at]);
        return call->error;
      }
    }
    job.tile[job.tiles++] = tile;
  }
  parallel(job.context, job.tiles * job.kvHeads, cache_attention_chunk, &job);
  return 0;
}
