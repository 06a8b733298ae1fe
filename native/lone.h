// Attention of lone tokens, one a sequence: memory is what they wait for. A block of the cache is read once from end to
// end, all heads of the tile, and a vector of it serves the whole group of query heads, and of all members where the
// block is shared. While a line is used, the same line of a block FETCH_BLOCKS later is fetched: behind a sequence's keys
// come its values, and behind these the keys of the next tile. The sums are the chains of `attend`.

enum { PANEL_LANES = PANEL / LANES, FEW_ROWS = 4, FETCH_BLOCKS = 4, MOST_HEADS = 4 };
enum { MOST_CHAINS = LANES == 16 ? 16 : 8 }; // sums that several heads have together
#define FETCH(address) __builtin_prefetch(address, 0, 2) /* into the second-level cache */

// Panels that few rows take at once, so that there are chains enough to hide the latency of one.
#define PANELS_1 (PANEL_LANES >= 4 ? 2 : 4)
#define PANELS_2 (PANEL_LANES >= 4 ? 1 : PANEL_LANES == 2 ? 2 : 4)
#define PANELS_3 (PANEL_LANES >= 4 ? 1 : 2)
#define PANELS_4 (PANEL_LANES >= 2 ? 1 : 2)

/* to[ROWS][PANELS][16] = q[ROWS][headDim] · keys[PANELS][headDim][16]. HALF: a word of the keys is a pair of dimensions. */
INLINE void score_few(const int HALF, const int ROWS, const int PANELS, int64_t headDim, const float *q, int64_t qStep,
                      const float *const *keys, const float *const *ahead, float *to, int64_t toStep) {
  vec sum[FEW_ROWS][MOST_PANELS * PANEL_LANES];
  const float *panel[MOST_PANELS], *next[MOST_PANELS];
  UNROLL for (int p = 0; p < PANELS; p++) panel[p] = keys[p], next[p] = ahead[p];
  UNROLL for (int i = 0; i < ROWS; i++) {
    UNROLL for (int v = 0; v < PANELS * PANEL_LANES; v++) sum[i][v] = (vec){0};
  }
  const int each = HALF ? 2 : 1;
  for (int64_t word = 0; word * each < headDim; word++) {
    vec factor[FEW_ROWS][2];
    UNROLL for (int i = 0; i < ROWS; i++) {
      UNROLL for (int half = 0; half < each; half++) factor[i][half] = splat(q[i * qStep + word * each + half]);
    }
    UNROLL for (int p = 0; p < PANELS; p++) FETCH(next[p] + word * PANEL);
    UNROLL for (int v = 0; v < PANELS * PANEL_LANES; v++) {
      vec row = load(panel[v / PANEL_LANES] + word * PANEL + v % PANEL_LANES * LANES);
      if (HALF) {
        const vec first = first_of_pairs(row), second = second_of_pairs(row);
        UNROLL for (int i = 0; i < ROWS; i++) sum[i][v] += factor[i][0] * first;
        UNROLL for (int i = 0; i < ROWS; i++) sum[i][v] += factor[i][1] * second;
      } else UNROLL for (int i = 0; i < ROWS; i++) sum[i][v] += factor[i][0] * row;
    }
  }
  UNROLL for (int i = 0; i < ROWS; i++) {
    UNROLL for (int v = 0; v < PANELS * PANEL_LANES; v++) store(to + i * toStep + v * LANES, sum[i][v]);
  }
}

/* A word of values of each head, for all rows: one position, the first of a pair, or BOTH of a pair. */
INLINE void value_word(const int HALF, const int BOTH, const int HEADS, const int ROWS, const int WIDTH,
                       const float *weights, int64_t stride, int64_t headRows, const float *values,
                       const float *ahead, int64_t step, vec (*sum)[64 / LANES]) {
  UNROLL for (int h = 0; h < HEADS; h++) {
    UNROLL for (int line = 0; line < WIDTH; line += LINE) FETCH(ahead + h * step + line);
    vec first[FEW_ROWS], second[FEW_ROWS];
    UNROLL for (int i = 0; i < ROWS; i++) first[i] = splat(weights[(h * headRows + i) * stride]);
    if (BOTH) UNROLL for (int i = 0; i < ROWS; i++) second[i] = splat(weights[(h * headRows + i) * stride + 1]);
    UNROLL for (int v = 0; v < WIDTH / LANES; v++) {
      vec word = load(values + h * step + v * LANES), value = HALF ? first_of_pairs(word) : word;
      UNROLL for (int i = 0; i < ROWS; i++) sum[h * ROWS + i][v] += first[i] * value;
      value = second_of_pairs(word);
      if (BOTH) UNROLL for (int i = 0; i < ROWS; i++) sum[h * ROWS + i][v] += second[i] * value;
    }
  }
}

/* out[HEADS][ROWS][WIDTH] += weights[HEADS][ROWS][count] · values[HEADS][count][WIDTH]. Few rows of a narrow head are too
   few chains: heads go together. A head's rows are `headRows` apart, its values `step`. HALF: a word is a pair of
   positions. */
INLINE void value_few(const int HALF, const int HEADS, const int ROWS, const int WIDTH, int64_t count, const float *weights,
                      int64_t stride, int64_t headRows, const float *values, const float *ahead, int64_t step,
                      int64_t padded, float *out) {
  vec sum[MOST_HEADS * FEW_ROWS][64 / LANES];
  UNROLL for (int i = 0; i < HEADS * ROWS; i++) {
    UNROLL for (int v = 0; v < WIDTH / LANES; v++)
      sum[i][v] = load(out + (i / ROWS * headRows + i % ROWS) * padded + v * LANES);
  }
  const int each = HALF ? 2 : 1;
  int64_t p = 0;
  for (; p + each <= count; p += each)
    value_word(HALF, HALF, HEADS, ROWS, WIDTH, weights + p, stride, headRows, values + p / each * padded,
               ahead + p / each * padded, step, sum);
  // The last position may be the first of a pair whose second was never written.
  if (p < count)
    value_word(HALF, 0, HEADS, ROWS, WIDTH, weights + p, stride, headRows, values + p / each * padded,
               ahead + p / each * padded, step, sum);
  UNROLL for (int i = 0; i < HEADS * ROWS; i++) {
    UNROLL for (int v = 0; v < WIDTH / LANES; v++)
      store(out + (i / ROWS * headRows + i % ROWS) * padded + v * LANES, sum[i][v]);
  }
}

typedef void (*FewScores)(int64_t, const float *, int64_t, const float *const *, const float *const *, float *, int64_t);
typedef void (*FewValues)(int64_t, const float *, int64_t, int64_t, const float *, const float *, int64_t, int64_t, float *);
#define CHAINS_FIT(HEADS, ROWS, WIDTH) ((HEADS) * (ROWS) * (WIDTH) <= MOST_CHAINS * LANES)
#define HEADS_OF(ROWS, WIDTH) (CHAINS_FIT(4, ROWS, WIDTH) ? 4 : CHAINS_FIT(2, ROWS, WIDTH) ? 2 : 1)
#define DEFINE_VALUE(NAME, HALF, HEADS, ROWS, WIDTH)                                                                  \
  static void NAME(int64_t count, const float *weights, int64_t stride, int64_t headRows, const float *values,        \
                   const float *ahead, int64_t step, int64_t padded, float *out) {                                    \
    value_few(HALF, HEADS, ROWS, WIDTH, count, weights, stride, headRows, values, ahead, step, padded, out);          \
  }
#define DEFINE_FEW_VALUES(ROWS, WIDTH)                                                                                \
  DEFINE_VALUE(values_##ROWS##_##WIDTH, 0, 1, ROWS, WIDTH)                                                            \
  DEFINE_VALUE(heads_##ROWS##_##WIDTH, 0, HEADS_OF(ROWS, WIDTH), ROWS, WIDTH)                                         \
  DEFINE_VALUE(half_values_##ROWS##_##WIDTH, 1, 1, ROWS, WIDTH)                                                       \
  DEFINE_VALUE(half_heads_##ROWS##_##WIDTH, 1, HEADS_OF(ROWS, WIDTH), ROWS, WIDTH)
#define DEFINE_SCORES(NAME, HALF, ROWS)                                                                               \
  static void NAME(int64_t headDim, const float *q, int64_t qStep, const float *const *keys,                          \
                   const float *const *ahead, float *to, int64_t toStep) {                                            \
    score_few(HALF, ROWS, PANELS_##ROWS, headDim, q, qStep, keys, ahead, to, toStep);                                 \
  }
#define DEFINE_FEW(ROWS)                                                                                              \
  DEFINE_SCORES(scores_##ROWS, 0, ROWS) DEFINE_SCORES(half_scores_##ROWS, 1, ROWS)                                    \
  DEFINE_FEW_VALUES(ROWS, 16) DEFINE_FEW_VALUES(ROWS, 32) DEFINE_FEW_VALUES(ROWS, 64)
DEFINE_FEW(1)
DEFINE_FEW(2)
DEFINE_FEW(3)
DEFINE_FEW(4)
static const int fewPanels[] = {0, PANELS_1, PANELS_2, PANELS_3, PANELS_4};
#define SCORES_OF(KIND) {0, KIND##_1, KIND##_2, KIND##_3, KIND##_4}
static const FewScores fewScores[2][FEW_ROWS + 1] = {SCORES_OF(scores), SCORES_OF(half_scores)}; // of floats, of pairs
#define VALUES_OF(KIND) {{0}, ROW_OF(KIND, 1), ROW_OF(KIND, 2), ROW_OF(KIND, 3), ROW_OF(KIND, 4)}
#define ROW_OF(KIND, ROWS) {KIND##_##ROWS##_16, KIND##_##ROWS##_32, KIND##_##ROWS##_64}
// Of floats and of pairs; of one head and of several.
static const FewValues fewValues[2][2][FEW_ROWS + 1][3] = {{VALUES_OF(values), VALUES_OF(heads)},
                                                           {VALUES_OF(half_values), VALUES_OF(half_heads)}};

/* Positions [from, to) of a sequence, counted from the tile's base, for rows row.. of every head of the tile; a head has
   `headRows`. */
typedef struct {
  int64_t sequence, from, to, row, rows, headRows;
  const CacheTile *next; // the tile after this one, or NULL
} Stretch;

/* Where the panel of position `at` of a sequence has its keys or values, `panelWords` of them. */
INLINE const float *position_at(const CacheJob *job, const CacheTile *part, int64_t sequence, const float *base, int64_t at,
                                int64_t panelWords) {
  at += part->base;
  return base + block_at(job, sequence, at) + part->head * job->headWords + at % job->blockTokens / PANEL * panelWords;
}

/* What will be read when `at`, which may lie behind the end, is reached: of the keys, or where `values` is set of these. */
INLINE const float *later_at(const CacheJob *job, const CacheTile *part, const Stretch *s, int values, int64_t at) {
  if (!values) {
    if (at < s->to) return position_at(job, part, s->sequence, job->keys, at, job->keyWords);
    at = s->from + at - round_up(s->to, PANEL);
  }
  if (at < s->to) return position_at(job, part, s->sequence, job->values, at, job->valueWords);
  at -= round_up(s->to, PANEL);
  if (!s->next) return position_at(job, part, s->sequence, job->values, s->to - 1, job->valueWords);
  const Member *member = job->member + s->next->first;
  return position_at(job, s->next, member->sequence, job->keys, least(at, member->visible - s->next->base - 1),
                     job->keyWords);
}

static void score_stretch(const CacheJob *job, const CacheTile *part, AttentionTile *t, const Stretch *s) {
  const int few = s->rows <= FEW_ROWS;
  const int64_t taken = few ? fewPanels[s->rows] : 1, step = job->headWords;
  for (int64_t position = s->from; position < s->to; position += taken * PANEL) {
    const float *keys[MOST_PANELS], *ahead[MOST_PANELS];
    for (int64_t p = 0; p < taken; p++) {
      // Behind the end the last panel is scored again, into the padding of the scores.
      keys[p] = position_at(job, part, s->sequence, job->keys, least(position + p * PANEL, s->to - 1), job->keyWords);
      ahead[p] = later_at(job, part, s, 0, position + (FETCH_BLOCKS + p) * PANEL);
    }
    for (int64_t head = 0; head < part->heads; head++) {
      const int64_t row = head * s->headRows + s->row;
      const float *q = t->q + row * t->padded;
      float *to = t->scores + row * t->scoreStride + position;
      if (few) fewScores[job->half][s->rows](t->headDim, q, t->padded, keys, ahead, to, t->scoreStride);
      else {
        if (job->half) widen_keys(keys[0], t->headDim, t->room);
        score_panel(job->half ? t->room : keys[0], t->headDim, s->rows, q, t->padded, to, t->scoreStride);
      }
      for (int64_t p = 0; p < taken; p++) keys[p] += step, ahead[p] += step;
    }
  }
}

static void add_values(const CacheJob *job, const CacheTile *part, AttentionTile *t, const Stretch *s) {
  enum { MOST_SUMS = LANES == 16 ? 24 : 12 };
  const int64_t padded = t->padded, stride = t->scoreStride, step = job->headWords;
  for (int64_t position = s->from, count; position < s->to; position += count) {
    const float *values = position_at(job, part, s->sequence, job->values, position, job->valueWords);
    const float *ahead = later_at(job, part, s, 1, position + FETCH_BLOCKS * PANEL);
    const float *weights = t->scores + s->row * stride + position;
    float *out = t->out + s->row * padded;
    count = least(PANEL, s->to - position);
    for (int64_t at = 0, width; at < padded; at += width) {
      if (s->rows <= FEW_ROWS) {
        int size = padded - at >= 64 ? 2 : padded - at >= 32 ? 1 : 0;
        while (size && (s->rows << (4 + size)) > MOST_SUMS * LANES) size--;
        width = 16 << size;
        const int64_t together = HEADS_OF(s->rows, width);
        for (int64_t head = 0, heads; head < part->heads; head += heads) {
          heads = head + together <= part->heads ? together : 1;
          const int64_t row = head * s->headRows;
          fewValues[job->half][heads > 1][s->rows][size](count, weights + row * stride, stride, s->headRows,
                                                         values + head * step + at, ahead + head * step + at, step,
                                                         padded, out + row * padded + at);
        }
        continue;
      }
      width = padded - at >= TILE_WIDTH ? TILE_WIDTH : PANEL_PART;
      for (int64_t head = 0; head < part->heads; head++) {
        const float *own = values + head * step;
        if (job->half) {
          if (at == 0 || part->heads > 1) widen_values(own, count, padded, t->room);
          own = t->room;
        }
        for (int64_t i = 0, rows; i < s->rows; i += rows) {
          const int64_t row = head * s->headRows + i;
          rows = next_rows(i, s->rows);
          (width == TILE_WIDTH ? byRow : panelByRow)[rows](count, weights + row * stride, stride, own + at, padded,
                                                            out + row * padded + at, padded, 0);
        }
      }
    }
  }
}

static void attend_lone(const CacheJob *job, const CacheTile *part, const CacheTile *next, AttentionTile *t) {
  const int64_t group = job->group, headRows = part->count * group;
  t->rows = part->heads * headRows;
  t->window = job->window;
  t->cap = job->cap;
  for (int64_t i = 0; i < t->rows; i++) {
    const Member *member = job->member + part->first + i % headRows / group;
    const int64_t head = (part->head + i / headRows) * group + i % group;
    copy_scaled(t->q + i * t->padded, job->q + member->token * job->qStride + head * job->headDim, job->headDim, t->padded,
                job->scale);
    t->visible[i] = (int32_t)(member->visible - part->base);
    for (int64_t j = 0; j < t->padded; j += LANES) store(t->out + i * t->padded + j, (vec){0});
  }
  // The common beginning for all members, then each one's own rest.
  Stretch common = {job->member[part->first].sequence, 0, part->shared, 0, headRows, headRows, NULL};
  for (int pass = 0; pass < 2; pass++) {
    void (*const over)(const CacheJob *, const CacheTile *, AttentionTile *, const Stretch *) =
        pass ? add_values : score_stretch;
    if (part->shared) over(job, part, t, &common);
    for (int64_t m = 0; m < part->count; m++) {
      const Member *member = job->member + part->first + m;
      Stretch own = {member->sequence, part->shared, member->visible - part->base, m * group, group, headRows,
                     next};
      over(job, part, t, &own);
    }
    if (pass) break;
    t->length = 0; // no row is read past what it sees
    softmax_tile(t);
  }
  scale_outputs(t);
  for (int64_t i = 0; i < t->rows; i++) {
    const int64_t token = job->member[part->first + i % headRows / group].token;
    const int64_t head = (part->head + i / headRows) * group + i % group;
    copy_out(job->out + (token * job->heads + head) * job->headDim, t->out + i * t->padded, job->headDim);
  }
}
