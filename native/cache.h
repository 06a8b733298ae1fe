// The paged cache of keys and values. Block b, K/V head h: keys as panels [blockTokens / 16][headDim][16], values as
// rows [blockTokens][padded headDim]. Both kinds of block have the size of the larger.

typedef struct {
  int64_t first, count, sequence, position; // tokens first.. of the call are positions position.. of the sequence
  int64_t head, heads;                      // K/V heads of the tile: one where it has several tokens
  int64_t base;                             // blocks before this position are outside of the window
} CacheTile;

typedef struct {
  Context *context;
  int64_t blocks, blockTokens, kvHeads, headDim, sequenceCount, blocksPerSequence, tokens;
  int64_t heads, group, padded, blockFloats, kStride, vStride, qStride, longest, tileTokens, tileRows, tileBytes, tiles;
  int64_t window; // a token sees so many positions, its own the last; 0: all
  float scale, cap;
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

/* The place of a block's keys and values for K/V head 0, of the block that holds `position` of the tile. */
INLINE int64_t block_at(const CacheJob *job, const CacheTile *part, int64_t position) {
  int64_t index = (part->base + position) / job->blockTokens;
  int64_t block = job->table[part->sequence * job->blocksPerSequence + index];
  if (block < 0 || block >= job->blocks) block = 0; // overwritten by this very call
  return block * job->blockFloats;
}

static void take_queries(const CacheJob *job, const CacheTile *part, AttentionTile *t) {
  const int64_t rows = part->heads * job->group;
  t->rows = part->count * rows;
  t->length = part->position + part->count - part->base;
  t->window = job->window;
  t->cap = job->cap;
  for (int64_t token = 0; token < part->count; token++)
    for (int64_t h = 0; h < rows; h++) {
      copy_scaled(t->q + (token * rows + h) * t->padded,
                  job->q + (part->first + token) * job->qStride + (part->head * job->group + h) * job->headDim,
                  job->headDim, t->padded, job->scale);
      t->visible[token * rows + h] = (int32_t)(part->position + token + 1 - part->base);
    }
}
static void give_outputs(const CacheJob *job, const CacheTile *part, const AttentionTile *t) {
  const int64_t rows = part->heads * job->group;
  for (int64_t token = 0; token < part->count; token++)
    for (int64_t h = 0; h < rows; h++)
      copy_out(job->out + ((part->first + token) * job->heads + part->head * job->group + h) * job->headDim,
               t->out + (token * rows + h) * t->padded, job->headDim);
}

static void attend_prompt(const CacheJob *job, const CacheTile *part, AttentionTile *t) {
  t->panels = t->runs = 0;
  for (int64_t position = 0; position < t->length; position += job->blockTokens) {
    int64_t at = block_at(job, part, position) + part->head * job->blockTokens * job->padded;
    int64_t count = least(job->blockTokens, t->length - position);
    for (int64_t slot = 0; slot < count; slot += PANEL)
      t->panel[t->panels++] = (KeyPanel){job->keys + at + slot * job->headDim, position + slot, 0};
    t->run[t->runs++] = (ValueRun){job->values + at, count};
  }
  attend(t);
}

// A single token per sequence: memory is what it waits for. Each block is read once from end to end, all heads of it,
// and a vector of it serves the whole group. The sums are the same chains as `attend`'s.

// Vectors a few rows take at once, so that there are chains enough to hide the latency of one.
enum { PANEL_LANES = PANEL / LANES };
enum { ONE_ROW_PANELS = PANEL_LANES >= 4 ? 2 : 4, FEW_ROWS_PANELS = PANEL_LANES >= 4 ? 1 : 2 };

static void decode_scores(const CacheJob *job, const CacheTile *part, AttentionTile *t) {
  const int64_t group = job->group, most_panels = group == 1 ? ONE_ROW_PANELS : group <= 3 ? FEW_ROWS_PANELS : 1;
  for (int64_t position = 0; position < t->length;) {
    const float *keys[MOST_PANELS];
    int64_t panels = 0;
    for (; panels < most_panels && position + panels * PANEL < t->length; panels++) {
      int64_t at = position + panels * PANEL;
      keys[panels] = job->keys + block_at(job, part, at) + part->head * job->blockTokens * job->padded +
                     at % job->blockTokens * job->headDim;
    }
    for (int64_t head = 0; head < part->heads; head++) {
      const float *q = t->q + head * group * t->padded;
      float *to = t->scores + head * group * t->scoreStride + position;
      if (panels < most_panels || group > 3)
        for (int64_t panel = 0; panel < panels; panel++)
          score_panel(keys[panel], t->headDim, group, q, t->padded, to + panel * PANEL, t->scoreStride);
      else if (group == 1)
        wide_tile(1, ONE_ROW_PANELS, PANEL_LANES, 0, t->headDim, q, t->padded, keys, PANEL, to, t->scoreStride, 1);
      else if (group == 2)
        wide_tile(2, FEW_ROWS_PANELS, PANEL_LANES, 0, t->headDim, q, t->padded, keys, PANEL, to, t->scoreStride, 1);
      else
        wide_tile(3, FEW_ROWS_PANELS, PANEL_LANES, 0, t->headDim, q, t->padded, keys, PANEL, to, t->scoreStride, 1);
      for (int64_t panel = 0; panel < panels; panel++) keys[panel] += job->blockTokens * job->padded;
    }
    position += panels * PANEL;
  }
}

static void decode_values(const CacheJob *job, const CacheTile *part, AttentionTile *t) {
  const int64_t group = job->group, padded = t->padded, stride = t->scoreStride;
  for (int64_t i = 0; i < t->rows * padded; i += LANES) store(t->out + i, (vec){0});
  for (int64_t position = 0; position < t->length; position += job->blockTokens) {
    const float *values = job->values + block_at(job, part, position) + part->head * job->blockTokens * padded;
    const int64_t count = least(job->blockTokens, t->length - position);
    for (int64_t head = 0; head < part->heads; head++, values += job->blockTokens * padded) {
      const float *weights = t->scores + head * group * stride + position;
      float *out = t->out + head * group * padded;
      int64_t at = 0;
      if (group == 1)
        for (; at + 4 * LANES <= padded; at += 4 * LANES)
          tile(1, 4, count, weights, stride, 1, values + at, padded, out + at, padded, 0);
      else if (group == 2)
        for (; at + 4 * LANES <= padded; at += 4 * LANES)
          tile(2, 4, count, weights, stride, 1, values + at, padded, out + at, padded, 0);
      else if (group == 3)
        for (; at + 4 * LANES <= padded; at += 4 * LANES)
          tile(3, 4, count, weights, stride, 1, values + at, padded, out + at, padded, 0);
      for (; at < padded; at += PANEL_PART)
        for (int64_t i = 0, rows; i < group; i += rows) {
          rows = next_rows(i, group);
          panelByRow[rows](count, weights + i * stride, stride, values + at, padded, out + i * padded + at, padded, 0);
        }
    }
  }
}

static void attend_token(const CacheJob *job, const CacheTile *part, AttentionTile *t) {
  decode_scores(job, part, t);
  for (int64_t i = 0; i < t->rows; i++) softmax_row(t, i);
  decode_values(job, part, t);
  scale_outputs(t);
}

static void cache_attention_chunk(void *data, int64_t chunk, int thread) {
  CacheJob *job = data;
  const CacheTile *part = job->tile + chunk;
  AttentionTile t;
  lay_out(&t, job->memory + thread * job->tileBytes, job->tileRows, job->headDim, job->longest,
          divide_up(job->longest, PANEL) + 1, divide_up(job->longest, job->blockTokens) + 1);
  t.logsumexp = NULL;
  take_queries(job, part, &t);
  if (part->count == 1) attend_token(job, part, &t);
  else attend_prompt(job, part, &t);
  give_outputs(job, part, &t);
}

enum { LONE_TOKEN_WORK = 1 << 16 }; // multiply-adds of scores

static int64_t place_cache(CacheJob *job, uint8_t *base) {
  int64_t used = 0;
  PLACE_IN(base, used, job->tile, CacheTile, times(job->tokens, job->kvHeads));
  PLACE_IN(base, used, job->memory, uint8_t, times(job->tileBytes, job->context->threads));
  return used;
}

/* All heads of a lone token in one chunk, unless that leaves threads without work. */
static int64_t heads_together(const CacheJob *job, int64_t length) {
  if (job->context->threads == 1 || job->tokens >= 4 * job->context->threads) return job->kvHeads;
  return least(job->kvHeads, chunk_items(length * job->headDim * job->group, LONE_TOKEN_WORK));
}

static int32_t op_cacheAttention(Call *call) {
  CacheJob job = {0};
  take_cache(call, &job);
  job.heads = take_size(call);
  if (job.heads && (!job.kvHeads || job.heads % job.kvHeads)) fail(call, call->next - 1, BAD_SIZE);
  job.qStride = take_stride(call, times(job.heads, job.headDim));
  job.scale = take_float(call);
  job.window = take_size(call);
  job.cap = (float)take_number(call, 0, 3.4e38);
  job.q = take_floats(call, span(job.tokens, job.qStride, times(job.heads, job.headDim)));
  job.out = take_floats(call, times(job.tokens, times(job.heads, job.headDim)));
  if (call->error || !job.heads || !job.headDim || !job.tokens) return call->error;
  job.group = job.heads / job.kvHeads;
  job.longest = 1;
  for (int64_t i = 0; i < job.tokens; i++) job.longest = most(job.longest, (int64_t)job.positions[i] + 1);
  job.tileTokens = tile_tokens(job.group, job.longest);
  job.tileRows = most(job.tileTokens * job.group, job.heads);
  job.tileBytes = lay_out(NULL, NULL, job.tileRows, job.headDim, job.longest, divide_up(job.longest, PANEL) + 1,
                          divide_up(job.longest, job.blockTokens) + 1);
  uint8_t *base = workspace(job.context, place_cache(&job, NULL));
  if (!base) return WORKSPACE;
  place_cache(&job, base);
  for (int64_t i = 0; i < job.tokens;) {
    CacheTile part = {i, 1, job.sequences[i], job.positions[i], 0, 1, 0};
    for (i++; i < job.tokens && part.count < job.tileTokens; i++, part.count++)
      if (job.sequences[i] != part.sequence || job.positions[i] != part.position + part.count) break;
    for (int64_t b = 0; b <= (part.position + part.count - 1) / job.blockTokens; b++) {
      int64_t at = part.sequence * job.blocksPerSequence + b;
      if (job.table[at] < 0 || job.table[at] >= job.blocks) {
        fail_element(call, 9, at, job.table[at]);
        return call->error;
      }
    }
    part.base = first_position(job.window, part.position + 1, job.blockTokens);
    if (part.count == 1) part.heads = heads_together(&job, part.position + 1 - part.base);
    for (; part.head < job.kvHeads; part.head += part.heads) {
      part.heads = least(part.heads, job.kvHeads - part.head);
      job.tile[job.tiles++] = part;
    }
  }
  parallel(job.context, job.tiles, cache_attention_chunk, &job);
  return 0;
}
