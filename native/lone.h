// Attention of lone tokens, one a sequence: memory is what they wait for. A block of the cache is read once from end to
// end, all heads of the tile, and a vector of it serves the whole group of query heads, and of all members where the
// block is shared. While a line is used, the same line of a later block is fetched. The sums are the chains of `attend`.

enum { PANEL_LANES = PANEL / LANES, FEW_ROWS = 4 };
#define FETCH(address) __builtin_prefetch(address, 0, 2) /* into the second-level cache */

// Panels that few rows take at once, so that there are chains enough to hide the latency of one.
#define PANELS_1 (PANEL_LANES >= 4 ? 2 : 4)
#define PANELS_2 (PANEL_LANES >= 4 ? 1 : PANEL_LANES == 2 ? 2 : 4)
#define PANELS_3 (PANEL_LANES >= 4 ? 1 : 2)
#define PANELS_4 (PANEL_LANES >= 2 ? 1 : 2)

/* to[ROWS][PANELS][16] = q[ROWS][headDim] · keys[PANELS][headDim][16] */
INLINE void score_few(const int ROWS, const int PANELS, int64_t headDim, const float *q, int64_t qStep,
                      const float *const *keys, const float *const *ahead, float *to, int64_t toStep) {
  vec sum[FEW_ROWS][MOST_PANELS * PANEL_LANES];
  const float *panel[MOST_PANELS], *next[MOST_PANELS];
  UNROLL for (int p = 0; p < PANELS; p++) panel[p] = keys[p], next[p] = ahead[p];
  UNROLL for (int i = 0; i < ROWS; i++) {
    UNROLL for (int v = 0; v < PANELS * PANEL_LANES; v++) sum[i][v] = (vec){0};
  }
  for (int64_t d = 0; d < headDim; d++) {
    vec factor[FEW_ROWS];
    UNROLL for (int i = 0; i < ROWS; i++) factor[i] = splat(q[i * qStep + d]);
    UNROLL for (int p = 0; p < PANELS; p++) FETCH(next[p] + d * PANEL);
    UNROLL for (int v = 0; v < PANELS * PANEL_LANES; v++) {
      vec row = load(panel[v / PANEL_LANES] + d * PANEL + v % PANEL_LANES * LANES);
      UNROLL for (int i = 0; i < ROWS; i++) sum[i][v] += factor[i] * row;
    }
  }
  UNROLL for (int i = 0; i < ROWS; i++) {
    UNROLL for (int v = 0; v < PANELS * PANEL_LANES; v++) store(to + i * toStep + v * LANES, sum[i][v]);
  }
}

/* out[ROWS][WIDTH] += weights[ROWS][count] · values[count][WIDTH] */
INLINE void value_few(const int ROWS, const int WIDTH, int64_t count, const float *weights, int64_t stride,
                      const float *values, const float *ahead, int64_t padded, float *out) {
  vec sum[FEW_ROWS][64 / LANES];
  UNROLL for (int i = 0; i < ROWS; i++) {
    UNROLL for (int v = 0; v < WIDTH / LANES; v++) sum[i][v] = load(out + i * padded + v * LANES);
  }
  for (int64_t p = 0; p < count; p++) {
    vec weight[FEW_ROWS];
    UNROLL for (int i = 0; i < ROWS; i++) weight[i] = splat(weights[i * stride + p]);
    UNROLL for (int line = 0; line < WIDTH; line += LINE) FETCH(ahead + p * padded + line);
    UNROLL for (int v = 0; v < WIDTH / LANES; v++) {
      vec row = load(values + p * padded + v * LANES);
      UNROLL for (int i = 0; i < ROWS; i++) sum[i][v] += weight[i] * row;
    }
  }
  UNROLL for (int i = 0; i < ROWS; i++) {
    UNROLL for (int v = 0; v < WIDTH / LANES; v++) store(out + i * padded + v * LANES, sum[i][v]);
  }
}

typedef void (*FewScores)(int64_t, const float *, int64_t, const float *const *, const float *const *, float *, int64_t);
typedef void (*FewValues)(int64_t, const float *, int64_t, const float *, const float *, int64_t, float *);
#define DEFINE_FEW_VALUES(ROWS, WIDTH)                                                                                \
  static void values_##ROWS##_##WIDTH(int64_t count, const float *weights, int64_t stride, const float *values,       \
                                      const float *ahead, int64_t padded, float *out) {                               \
    value_few(ROWS, WIDTH, count, weights, stride, values, ahead, padded, out);                                       \
  }
#define DEFINE_FEW(ROWS)                                                                                              \
  static void scores_##ROWS(int64_t headDim, const float *q, int64_t qStep, const float *const *keys,                 \
                            const float *const *ahead, float *to, int64_t toStep) {                                   \
    score_few(ROWS, PANELS_##ROWS, headDim, q, qStep, keys, ahead, to, toStep);                                       \
  }                                                                                                                   \
  DEFINE_FEW_VALUES(ROWS, 16) DEFINE_FEW_VALUES(ROWS, 32) DEFINE_FEW_VALUES(ROWS, 64)
DEFINE_FEW(1)
DEFINE_FEW(2)
DEFINE_FEW(3)
DEFINE_FEW(4)
static const int fewPanels[] = {0, PANELS_1, PANELS_2, PANELS_3, PANELS_4};
static const FewScores fewScores[] = {0, scores_1, scores_2, scores_3, scores_4};
static const FewValues fewValues[][3] = {{0},
                                         {values_1_16, values_1_32, values_1_64},
                                         {values_2_16, values_2_32, values_2_64},
                                         {values_3_16, values_3_32, values_3_64},
                                         {values_4_16, values_4_32, values_4_64}};

/* Positions [from, to) of a sequence, counted from the tile's base, for rows row.. of every head of the tile; a head has `headRows`. */
typedef struct {
  int64_t sequence, from, to, row, rows, headRows;
} Stretch;

/* Where position `at` of a stretch has its keys or values; behind the end, its last. */
INLINE const float *stretch_at(const CacheJob *job, const CacheTile *part, const Stretch *s, const float *base,
                               int64_t at, int64_t width) {
  if (at >= s->to) at = s->to - 1;
  at += part->base - at % PANEL;
  return base + block_at(job, s->sequence, at) + part->head * job->blockTokens * job->padded +
         at % job->blockTokens * width;
}

static void score_stretch(const CacheJob *job, const CacheTile *part, AttentionTile *t, const Stretch *s) {
  const int64_t taken = s->rows <= FEW_ROWS ? fewPanels[s->rows] : 1, step = job->blockTokens * job->padded;
  for (int64_t position = s->from; position < s->to; position += taken * PANEL) {
    const float *keys[MOST_PANELS], *ahead[MOST_PANELS];
    for (int64_t p = 0; p < taken; p++) {
      keys[p] = stretch_at(job, part, s, job->keys, position + p * PANEL, job->headDim);
      int64_t later = position + (taken + p) * PANEL;
      // Behind the last keys come the first values.
      ahead[p] = later < s->to ? stretch_at(job, part, s, job->keys, later, job->headDim)
                               : stretch_at(job, part, s, job->values, s->from + later - s->to, job->padded);
    }
    const int whole = position + taken * PANEL <= round_up(s->to, PANEL);
    for (int64_t head = 0; head < part->heads; head++) {
      const int64_t row = head * s->headRows + s->row;
      const float *q = t->q + row * t->padded;
      float *to = t->scores + row * t->scoreStride + position;
      if (s->rows <= FEW_ROWS && whole)
        fewScores[s->rows](t->headDim, q, t->padded, keys, ahead, to, t->scoreStride);
      else
        for (int64_t p = 0; p < taken && position + p * PANEL < s->to; p++)
          score_panel(keys[p], t->headDim, s->rows, q, t->padded, to + p * PANEL, t->scoreStride);
      for (int64_t p = 0; p < taken; p++) keys[p] += step, ahead[p] += step;
    }
  }
}

static void add_values(const CacheJob *job, const CacheTile *part, AttentionTile *t, const Stretch *s) {
  enum { MOST_SUMS = LANES == 16 ? 24 : 12 };
  const int64_t padded = t->padded, stride = t->scoreStride, step = job->blockTokens * padded;
  for (int64_t position = s->from, count; position < s->to; position += count) {
    const float *values = stretch_at(job, part, s, job->values, position, padded);
    const float *ahead = stretch_at(job, part, s, job->values, position + 2 * PANEL, padded);
    count = least(PANEL, s->to - position);
    for (int64_t head = 0; head < part->heads; head++, values += step, ahead += step) {
      const int64_t row = head * s->headRows + s->row;
      const float *weights = t->scores + row * stride + position;
      float *out = t->out + row * padded;
      for (int64_t at = 0, width; at < padded; at += width) {
        if (s->rows <= FEW_ROWS) {
          int size = padded - at >= 64 ? 2 : padded - at >= 32 ? 1 : 0;
          while (size && (s->rows << (4 + size)) > MOST_SUMS * LANES) size--;
          width = 16 << size;
          fewValues[s->rows][size](count, weights, stride, values + at, ahead + at, padded, out + at);
          continue;
        }
        width = padded - at >= TILE_WIDTH ? TILE_WIDTH : PANEL_PART;
        for (int64_t i = 0, rows; i < s->rows; i += rows) {
          rows = next_rows(i, s->rows);
          (width == TILE_WIDTH ? byRow : panelByRow)[rows](count, weights + i * stride, stride, values + at, padded,
                                                            out + i * padded + at, padded, 0);
        }
      }
    }
  }
}

static void attend_lone(const CacheJob *job, const CacheTile *part, AttentionTile *t) {
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
  Stretch common = {job->member[part->first].sequence, 0, part->shared, 0, headRows, headRows};
  for (int pass = 0; pass < 2; pass++) {
    void (*const over)(const CacheJob *, const CacheTile *, AttentionTile *, const Stretch *) =
        pass ? add_values : score_stretch;
    if (part->shared) over(job, part, t, &common);
    for (int64_t m = 0; m < part->count; m++) {
      const Member *member = job->member + part->first + m;
      Stretch own = {member->sequence, part->shared, member->visible - part->base, m * group, group, headRows};
      over(job, part, t, &own);
    }
    if (pass) break;
    for (int64_t i = 0; i < t->rows; i++) {
      t->length = t->visible[i];
      softmax_row(t, i);
    }
  }
  scale_outputs(t);
  for (int64_t i = 0; i < t->rows; i++) {
    const int64_t token = job->member[part->first + i % headRows / group].token;
    const int64_t head = (part->head + i / headRows) * group + i % group;
    copy_out(job->out + (token * job->heads + head) * job->headDim, t->out + i * t->padded, job->headDim);
  }
}
