// The paged cache of keys and values. Block b, K/V head h: keys as panels [blockTokens / 16][headDim][16], values as
// rows [blockTokens][padded headDim]. Both kinds of block have the size of the larger. In bfloat16 a word holds a pair, of
// neighbouring dimensions of a key or of neighbouring positions of a value: [headDim / 2][16] and [blockTokens / 2][padded].

typedef struct {
  // Of a prompt: tokens first.. of the call, which are positions position.. of the sequence. Of lone tokens, one a
  // sequence: members first.. of the job, whose sequences have their first `shared` positions in the same blocks.
  int64_t first, count, sequence, position, shared;
  int64_t head, heads; // K/V heads of the tile
  int64_t base;        // blocks before this position are outside of the window; the tile counts from it
  int lone;
} CacheTile;

/* A lone token, copied: outputs may overlap the lists. */
typedef struct {
  int64_t token, sequence, visible;
} Member;

typedef struct {
  Context *context;
  int64_t blocks, blockTokens, kvHeads, headDim, sequenceCount, blocksPerSequence, tokens;
  // Words of a block, of a head in it, and of 16 positions of its keys and values.
  int64_t blockWords, headWords, keyWords, valueWords;
  int half;
  int64_t heads, group, padded, kStride, vStride, qStride, longest, tileTokens, tileRows, tileBytes, tiles, chunkTiles;
  int64_t longestPrompt, roomFloats; // of a tile: keys and values that are widened, where the cache is in bfloat16
  int64_t window; // a token sees so many positions, its own the last; 0: all
  float scale, cap;
  float *keys, *values, *out;
  const float *k, *v, *q;
  const int32_t *table, *sequences, *positions;
  CacheTile *tile;
  Member *member; // those with a common beginning side by side
  int64_t members;
  uint8_t *memory;
} CacheJob;

static void take_cache_shape(Call *call, CacheJob *job) {
  job->context = call->context;
  job->blocks = take_size(call);
  job->blockTokens = take_size(call);
  if (job->blockTokens % PANEL || !job->blockTokens) fail(call, 1, BAD_SIZE);
  job->kvHeads = take_size(call);
  job->headDim = take_size(call);
  job->half = take_flag(call);
  job->padded = round_up(job->headDim, PANEL);
  const int64_t each = job->half ? 2 : 1; // numbers of a word
  job->keyWords = divide_up(job->headDim, each) * PANEL;
  job->valueWords = PANEL * job->padded / each;
  job->headWords = times(job->blockTokens, job->padded) / each;
  job->blockWords = times(job->kvHeads, job->headWords);
}

static int32_t op_cacheBytes(Call *call) {
  CacheJob job = {0};
  take_cache_shape(call, &job);
  if (call->error) return call->error;
  call->context->arguments[DETAILS] = (double)times(4, times(job.blocks, job.blockWords));
  return 0;
}

static void take_cache(Call *call, CacheJob *job) {
  take_cache_shape(call, job);
  job->sequenceCount = take_size(call);
  job->blocksPerSequence = take_size(call);
  job->tokens = take_size(call);
  job->keys = take_floats(call, times(job->blocks, job->blockWords));
  job->values = take_floats(call, times(job->blocks, job->blockWords));
  job->table = take_ints(call, times(job->sequenceCount, job->blocksPerSequence));
  job->sequences = take_ints(call, job->tokens);
  job->positions = take_ints(call, job->tokens);
  if (call->error) return;
  int64_t capacity = times(job->blocksPerSequence, job->blockTokens);
  for (int64_t i = 0; i < job->tokens; i++) {
    int64_t sequence = job->sequences[i], position = job->positions[i];
    if (sequence < 0 || sequence >= job->sequenceCount) fail_element(call, 11, i, (double)sequence);
    else if (position < 0 || position >= capacity) fail_element(call, 12, i, (double)position);
    if (call->error) return;
    int64_t at = sequence * job->blocksPerSequence + position / job->blockTokens;
    if (job->table[at] < 0 || job->table[at] >= job->blocks) fail_element(call, 10, at, job->table[at]);
  }
}

enum { WRITTEN = 1 << 11 }; // numbers of a chunk: few, as each goes to a cache line of its own

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
      int64_t at = block * job->blockWords + head * job->headWords;
      float *keys = job->keys + at + slot / PANEL * job->keyWords + slot % PANEL;
      const float *k = job->k + i * job->kStride + head * headDim, *v = job->v + i * job->vStride + head * headDim;
      if (job->half) {
        uint32_t *pairs = (uint32_t *)keys;
        for (int64_t d = 0; d < headDim; d += 2)
          pairs[d / 2 * PANEL] = narrow_bf16(bits_of(k[d])) |
                                 (d + 1 < headDim ? (uint32_t)narrow_bf16(bits_of(k[d + 1])) << 16 : 0);
        uint16_t *values = (uint16_t *)(job->values + at + slot / 2 * job->padded) + slot % 2;
        for (int64_t d = 0; d < headDim; d++) values[2 * d] = narrow_bf16(bits_of(v[d]));
        continue;
      }
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
  job.tileTokens = chunk_items(width, WRITTEN);
  parallel(call->context, divide_up(job.tokens, job.tileTokens), cache_write_chunk, &job);
  return 0;
}

/* The place of the block that holds `position` of a sequence, for K/V head 0. */
INLINE int64_t block_at(const CacheJob *job, int64_t sequence, int64_t position) {
  int64_t block = job->table[sequence * job->blocksPerSequence + position / job->blockTokens];
  if (block < 0 || block >= job->blocks) block = 0; // overwritten by this very call
  return block * job->blockWords;
}

/* The first and the second number of each lane's pair. */
INLINE vec first_of_pairs(vec pairs) { return (vec)((words)pairs << 16); }
INLINE vec second_of_pairs(vec pairs) { return (vec)((words)pairs & 0xffff0000u); }

/* to[headDim][16] of a panel of keys in pairs. */
static void widen_keys(const float *pairs, int64_t headDim, float *to) {
  for (int64_t d = 0; d < headDim; d++)
    for (int64_t lane = 0; lane < PANEL; lane += LANES) {
      vec pair = load(pairs + d / 2 * PANEL + lane);
      store(to + d * PANEL + lane, d % 2 ? second_of_pairs(pair) : first_of_pairs(pair));
    }
}
/* to[count][padded] of values in pairs; the first position is an even one. */
static void widen_values(const float *pairs, int64_t count, int64_t padded, float *to) {
  for (int64_t p = 0; p < count; p++)
    for (int64_t j = 0; j < padded; j += LANES) {
      vec pair = load(pairs + p / 2 * padded + j);
      store(to + p * padded + j, p % 2 ? second_of_pairs(pair) : first_of_pairs(pair));
    }
}

static void attend_prompt(const CacheJob *job, const CacheTile *part, AttentionTile *t) {
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
  t->panels = t->runs = 0;
  float *keyRoom = t->room, *valueRoom = t->room + round_up(t->length, PANEL) * job->padded;
  for (int64_t position = 0; position < t->length; position += job->blockTokens) {
    int64_t at = block_at(job, part->sequence, part->base + position) + part->head * job->headWords;
    int64_t count = least(job->blockTokens, t->length - position);
    for (int64_t slot = 0; slot < count; slot += PANEL) {
      const float *keys = job->keys + at + slot / PANEL * job->keyWords;
      if (job->half) {
        widen_keys(keys, job->headDim, keyRoom);
        keys = keyRoom;
        keyRoom += PANEL * job->headDim;
      }
      t->panel[t->panels++] = (KeyPanel){keys, position + slot, 0};
    }
    const float *values = job->values + at;
    if (job->half) {
      float *room = valueRoom + position * job->padded;
      widen_values(values, count, job->padded, room);
      values = room;
    }
    t->run[t->runs++] = (ValueRun){values, count};
  }
  attend(t);
  for (int64_t token = 0; token < part->count; token++)
    for (int64_t h = 0; h < rows; h++)
      copy_out(job->out + ((part->first + token) * job->heads + part->head * job->group + h) * job->headDim,
               t->out + (token * rows + h) * t->padded, job->headDim);
}

#include "lone.h"

static void cache_attention_chunk(void *data, int64_t chunk, int thread) {
  CacheJob *job = data;
  AttentionTile t;
  lay_out(&t, job->memory + thread * job->tileBytes, job->tileRows, job->headDim, job->longest,
          divide_up(job->longest, PANEL) + 1, divide_up(job->longest, job->blockTokens) + 1);
  t.logsumexp = NULL;
  t.room = (float *)(job->memory + thread * job->tileBytes + job->tileBytes) - job->roomFloats;
  const CacheTile *end = job->tile + least(job->tiles, (chunk + 1) * job->chunkTiles);
  for (const CacheTile *part = job->tile + chunk * job->chunkTiles; part < end; part++)
    if (part->lone) attend_lone(job, part, part + 1 < end ? part + 1 : NULL, &t);
    else attend_prompt(job, part, &t);
}

enum { LONE_TOKEN_WORK = 1 << 16 }; // multiply-adds of scores
enum { TILE_CHUNKS = 8 };           // of a thread
enum { SHARED_LEAST = 64 };         // positions in common that are worth a tile

static int64_t place_cache(CacheJob *job, uint8_t *base) {
  int64_t used = 0;
  PLACE_IN(base, used, job->tile, CacheTile, times(job->tokens, job->kvHeads));
  PLACE_IN(base, used, job->member, Member, job->tokens);
  PLACE_IN(base, used, job->memory, uint8_t, times(job->tileBytes, job->context->threads));
  return used;
}

/* All heads of a lone token in one chunk, unless that leaves threads without work. */
static int64_t heads_together(const CacheJob *job, int64_t length) {
  if (job->context->threads == 1 || job->tokens >= 4 * job->context->threads) return job->kvHeads;
  return least(job->kvHeads, chunk_items(length * job->headDim * job->group, LONE_TOKEN_WORK));
}

/* Positions, up to `limit`, that two sequences have in the same blocks; both see all of these blocks. */
static int64_t common_positions(const CacheJob *job, const Member *a, const Member *b, int64_t limit) {
  const int32_t *first = job->table + a->sequence * job->blocksPerSequence;
  const int32_t *second = job->table + b->sequence * job->blocksPerSequence;
  int64_t blocks = least(limit, least(a->visible, b->visible)) / job->blockTokens, same = 0;
  while (same < blocks && first[same] == second[same]) same++;
  return same * job->blockTokens;
}

static void add_tiles(CacheJob *job, CacheTile part) {
  for (; part.head < job->kvHeads; part.head += part.heads) {
    part.heads = least(part.heads, job->kvHeads - part.head);
    job->tile[job->tiles++] = part;
  }
}

/* Brings members with a common beginning together, a tile for as many as threads leave, and one for each of the rest. */
static void add_lone_tiles(CacheJob *job) {
  const int64_t most_members =
      job->window ? 1 : least(job->tileTokens, divide_up(job->members, job->context->threads));
  for (int64_t first = 0, count; first < job->members; first += count) {
    Member *lead = job->member + first;
    int64_t shared = 0;
    count = 1;
    for (int64_t i = 1; first + i < job->members && count < most_members; i++) {
      int64_t common = common_positions(job, lead, lead + i, shared ? shared : lead->visible);
      if (common < SHARED_LEAST || 4 * common < 3 * shared) continue;
      Member other = lead[i];
      lead[i] = lead[count];
      lead[count++] = other;
      shared = common;
    }
    int64_t base = first_position(job->window, lead->visible, job->blockTokens);
    int64_t heads = count > 1 ? 1 : heads_together(job, lead->visible - base);
    add_tiles(job, (CacheTile){first, count, 0, 0, shared, 0, heads, base, 1});
  }
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
  for (int64_t i = 0; i < job.tokens; i++) {
    job.longest = most(job.longest, (int64_t)job.positions[i] + 1);
    if (i && job.sequences[i] == job.sequences[i - 1])
      job.longestPrompt = most(job.longestPrompt, (int64_t)job.positions[i] + 1);
  }
  job.tileTokens = tile_tokens(job.group, job.longest);
  job.tileRows = most(job.tileTokens * job.group, job.heads);
  // Widened: all that a tile of a prompt sees, or a panel where lone tokens have one in common.
  job.roomFloats = job.half ? times(2 * job.padded, round_up(most(1, job.longestPrompt), PANEL)) : 0;
  job.tileBytes = lay_out(NULL, NULL, job.tileRows, job.headDim, job.longest, divide_up(job.longest, PANEL) + 1,
                          divide_up(job.longest, job.blockTokens) + 1) + times(4, job.roomFloats);
  uint8_t *base = workspace(job.context, place_cache(&job, NULL));
  if (!base) return WORKSPACE;
  place_cache(&job, base);
  for (int64_t i = 0; i < job.tokens;) {
    CacheTile part = {i, 1, job.sequences[i], job.positions[i], 0, 0, 1, 0, 0};
    for (i++; i < job.tokens && part.count < job.tileTokens; i++, part.count++)
      if (job.sequences[i] != part.sequence || job.positions[i] != part.position + part.count) break;
    for (int64_t b = 0; b <= (part.position + part.count - 1) / job.blockTokens; b++) {
      int64_t at = part.sequence * job.blocksPerSequence + b;
      if (job.table[at] < 0 || job.table[at] >= job.blocks) {
        fail_element(call, 10, at, job.table[at]);
        return call->error;
      }
    }
    part.base = first_position(job.window, part.position + 1, job.blockTokens);
    if (part.count == 1) job.member[job.members++] = (Member){part.first, part.sequence, part.position + 1};
    else add_tiles(&job, part);
  }
  const int64_t prompts = job.tiles;
  add_lone_tiles(&job);
  // Many lone tokens go several to a chunk, where one fetches for the next.
  job.chunkTiles = prompts ? 1 : most(1, job.tiles / (TILE_CHUNKS * job.context->threads));
  parallel(job.context, divide_up(job.tiles, job.chunkTiles), cache_attention_chunk, &job);
  return 0;
}
