// Attention of a tile of queries over a list of keys, for training (packed rows) and for generation (paged cache).
//
// Keys lie in panels of 16: [headDim][16], so that a vector holds 16 keys. Values lie in rows: [key][padded headDim].
// A tile's scores are kept whole: the maximum is exact in any order, the sum of exponentials runs by position, and the
// output is one chain of multiply-adds over the positions. So a query's bits depend on its position and keys alone.

typedef struct {
  const float *keys; // [headDim][16]
  int64_t column;    // the position of lane `from`
  int32_t from;      // lanes before it belong to other positions; those past the end are masked by visibility
} KeyPanel;

typedef struct {
  const float *values; // [count][padded]
  int64_t count;
} ValueRun;

/* Columns of the next tile where `left` are left: a whole tile's, or a panel's part. */
INLINE int64_t tile_columns(int64_t left) { return left >= TILE_WIDTH ? TILE_WIDTH : PANEL_PART; }

typedef struct {
  int64_t headDim, padded, scoreStride;
  int64_t rows, length; // queries of the tile; positions of the longest
  int64_t window;       // a row sees its last `window` positions; 0: all
  float cap;            // scores are cap·tanh(score / cap); 0: as they are
  int64_t panels, runs;
  float *q; // [rows][padded], scaled
  KeyPanel *panel;
  ValueRun *run;
  int32_t *visible; // positions each row sees
  float *scores;    // [rows][scoreStride]
  float *out;       // [rows][padded]
  float *logsumexp; // [rows], or NULL where nobody asks
  float *inverse;   // [rows], 1 / Σ exp
  float *room;      // for keys and values that are widened
} AttentionTile;

/* Scores of two panels that lie one behind the other. */
#if TILE_WIDTH == 2 * PANEL
#define DEFINE_TWO_PANELS(N)                                                                                          \
  static void two_panels_by_row_##N(int64_t depth, const float *q, int64_t qStep, const float *keys, float *to,       \
                                    int64_t toStep) {                                                                 \
    tile_of(0, 0, N, TILE_VECTORS, depth, q, qStep, 1, keys, PANEL, depth * PANEL, to, toStep, 1);                    \
  }
EACH_ROW_COUNT(DEFINE_TWO_PANELS)
#define ENTRY_TWO_PANELS(N) two_panels_by_row_##N,
typedef void (*PanelsFunction)(int64_t, const float *, int64_t, const float *, float *, int64_t);
static const PanelsFunction twoPanelsByRow[TILE_ROWS + 1] = {0, EACH_ROW_COUNT(ENTRY_TWO_PANELS)};
static void score_two_panels(const float *keys, int64_t headDim, int64_t rows, const float *q, int64_t qStep, float *to,
                             int64_t toStep) {
  for (int64_t i = 0; i < rows;) {
    int64_t count = next_rows(i, rows);
    twoPanelsByRow[count](headDim, q + i * qStep, qStep, keys, to + i * toStep, toStep);
    i += count;
  }
}
#endif

INLINE void score_panel(const float *keys, int64_t headDim, int64_t rows, const float *q, int64_t qStep, float *to,
                        int64_t toStep) {
  for (int64_t i = 0; i < rows;) {
    int64_t count = next_rows(i, rows);
    for (int part = 0; part < PANEL; part += PANEL_PART)
      panelByRow[count](headDim, q + i * qStep, qStep, keys + part, PANEL, to + i * toStep + part, toStep, 1);
    i += count;
  }
}

#if PANEL_PART == PANEL
static void four_panels(int64_t depth, const float *q, const float *const *keys, float *to) {
  wide_tile(1, 4, PANEL_VECTORS, 0, depth, q, 0, keys, PANEL, to, 0, 1);
}
static void two_panels_2(int64_t depth, const float *q, int64_t qStep, const float *const *keys, float *to,
                         int64_t toStep) {
  wide_tile(2, 2, PANEL_VECTORS, 0, depth, q, qStep, keys, PANEL, to, toStep, 1);
}
static void two_panels_3(int64_t depth, const float *q, int64_t qStep, const float *const *keys, float *to,
                         int64_t toStep) {
  wide_tile(3, 2, PANEL_VECTORS, 0, depth, q, qStep, keys, PANEL, to, toStep, 1);
}
#endif

static void score_tile(AttentionTile *t) {
  int64_t first = 0; // rows before it see nothing of the panel
  for (int64_t index = 0; index < t->panels;) {
    KeyPanel *panel = t->panel + index;
    while (t->visible[first] <= panel->column) first++;
    float *to = t->scores + first * t->scoreStride + panel->column;
    const float *q = t->q + first * t->padded;
    int64_t rows = t->rows - first;
#if PANEL_PART == PANEL
    int64_t several = t->rows > 3 ? 1 : rows == 1 ? 4 : 2, whole = 0;
    const float *keys[4];
    if (several > 1)
      while (whole < several && index + whole < t->panels && panel[whole].from == 0 &&
             panel[whole].column == panel->column + whole * PANEL)
        keys[whole] = panel[whole].keys, whole++;
    if (several > 1 && whole == several) {
      if (rows == 1) four_panels(t->headDim, q, keys, to);
      else if (rows == 2) two_panels_2(t->headDim, q, t->padded, keys, to, t->scoreStride);
      else two_panels_3(t->headDim, q, t->padded, keys, to, t->scoreStride);
      index += several;
      continue;
    }
#endif
#if TILE_WIDTH == 2 * PANEL
    // The second is scored for rows too that do not see it: what they do not see is not read.
    if (index + 1 < t->panels && panel[0].from == 0 && panel[1].from == 0 &&
        panel[1].keys == panel->keys + t->headDim * PANEL && panel[1].column == panel->column + PANEL) {
      score_two_panels(panel->keys, t->headDim, rows, q, t->padded, to, t->scoreStride);
      index += 2;
      continue;
    }
#endif
    if (panel->from == 0) score_panel(panel->keys, t->headDim, rows, q, t->padded, to, t->scoreStride);
    else
      for (int64_t i = 0; i < rows; i += TILE_ROWS) {
        float part[TILE_ROWS * PANEL] __attribute__((aligned(64)));
        int64_t count = least(TILE_ROWS, rows - i);
        score_panel(panel->keys, t->headDim, count, q + i * t->padded, t->padded, part, PANEL);
        for (int64_t row = 0; row < count; row++)
          for (int lane = panel->from; lane < PANEL; lane++)
            to[(i + row) * t->scoreStride + lane - panel->from] = part[row * PANEL + lane];
      }
    index++;
  }
}

/* out[ROWS][VECTORS] = Σ over runs and their keys of weight · value, from column `at`. */
INLINE void value_tile(const int ROWS, const int VECTORS, const AttentionTile *t, int64_t row, int64_t at) {
  vec sum[MOST_ROWS][MOST_VECTORS];
  UNROLL for (int i = 0; i < ROWS; i++) { UNROLL for (int v = 0; v < VECTORS; v++) sum[i][v] = (vec){0}; }
  const float *weights = t->scores + row * t->scoreStride;
  int64_t left = t->visible[row + ROWS - 1];
  for (int64_t r = 0; left > 0; r++) {
    const float *values = t->run[r].values + at;
    int64_t count = least(left, t->run[r].count);
    left -= count;
    for (int64_t p = 0; p < count; p++) {
      vec value[MOST_VECTORS];
      UNROLL for (int v = 0; v < VECTORS; v++) value[v] = load(values + p * t->padded + v * LANES);
      UNROLL for (int i = 0; i < ROWS; i++) {
        vec weight = splat(weights[i * t->scoreStride + p]);
        UNROLL for (int v = 0; v < VECTORS; v++) sum[i][v] += weight * value[v];
      }
    }
    weights += count;
  }
  UNROLL for (int i = 0; i < ROWS; i++) {
    UNROLL for (int v = 0; v < VECTORS; v++) store(t->out + (row + i) * t->padded + at + v * LANES, sum[i][v]);
  }
}

typedef void (*ValueFunction)(const AttentionTile *, int64_t, int64_t);
#define DEFINE_VALUES(N)                                                                                              \
  static void values_##N(const AttentionTile *t, int64_t row, int64_t at) { value_tile(N, PANEL_VECTORS, t, row, at); }
EACH_ROW_COUNT(DEFINE_VALUES)
#define ENTRY_VALUES(N) values_##N,
static const ValueFunction valuesOf[TILE_ROWS + 1] = {0, EACH_ROW_COUNT(ENTRY_VALUES)};
#if PANEL_VECTORS != TILE_VECTORS
#define DEFINE_WIDE_VALUES(N)                                                                                         \
  static void wide_values_##N(const AttentionTile *t, int64_t row, int64_t at) {                                      \
    value_tile(N, TILE_VECTORS, t, row, at);                                                                          \
  }
EACH_ROW_COUNT(DEFINE_WIDE_VALUES)
#define ENTRY_WIDE_VALUES(N) wide_values_##N,
static const ValueFunction wideValuesOf[TILE_ROWS + 1] = {0, EACH_ROW_COUNT(ENTRY_WIDE_VALUES)};
#else
#define wideValuesOf valuesOf
#endif
static void values_wide_1(const AttentionTile *t, int64_t row, int64_t at) {
  value_tile(1, 4 * PANEL_VECTORS, t, row, at);
}
static void values_pair_1(const AttentionTile *t, int64_t row, int64_t at) {
  value_tile(1, 2 * PANEL_VECTORS, t, row, at);
}
static void values_wide_2(const AttentionTile *t, int64_t row, int64_t at) {
  value_tile(2, 2 * PANEL_VECTORS, t, row, at);
}
static void values_wide_3(const AttentionTile *t, int64_t row, int64_t at) {
  value_tile(3, 2 * PANEL_VECTORS, t, row, at);
}

/* Positions before the window of a row that sees up to `visible`. */
INLINE int64_t hidden_by(int64_t window, int64_t visible) { return window ? most(0, visible - window) : 0; }

/* The first position that a tile needs: what its first row does not see is left out, by whole panels of keys, so that
   a position keeps its lane. */
INLINE int64_t first_position(int64_t window, int64_t firstVisible, int64_t step) {
  return hidden_by(window, firstVisible) / step * step;
}

// The softmax goes over all rows of a tile, step by step: the steps of one row wait for each other.

/* Caps and hides scores of row `i`, and leaves their maximum in `inverse`. */
static void row_peak(AttentionTile *t, int64_t i) {
  float *scores = t->scores + i * t->scoreStride;
  const int64_t visible = t->visible[i], hidden = hidden_by(t->window, visible);
  const vec none = splat(-__builtin_inff());
  if (t->cap)
    for (int64_t at = 0; at < visible; at += LANES) store(scores + at, soft_cap(load(scores + at), t->cap));
  for (int64_t at = 0; at < hidden; at += LANES)
    store(scores + at, choose(first_lanes(hidden - at), none, load(scores + at)));
  vec highest = none, other = none; // a tile's rows are padded: reading past one is reading padding
  int64_t whole = visible / LANES * LANES, at = 0;
  for (; at + 2 * LANES <= whole; at += 2 * LANES) {
    highest = maximum(load(scores + at), highest);
    other = maximum(load(scores + at + LANES), other);
  }
  if (at < whole) highest = maximum(load(scores + at), highest);
  if (whole < visible) other = maximum(choose(first_lanes(visible - whole), load(scores + whole), none), other);
  t->inverse[i] = max_lanes(maximum(highest, other));
}

/* Scores become exponentials; their sum takes the place of the maximum, which goes to `logsumexp`. */
static void row_exponentials(AttentionTile *t, int64_t i) {
  float *scores = t->scores + i * t->scoreStride;
  const int64_t visible = t->visible[i];
  const float peak = t->inverse[i];
  vec sums = {0};
  int64_t j = 0;
  for (; j < visible; j += LANES) {
    vec e = exponential(load(scores + j) - peak);
    if (visible - j < LANES) e = choose(first_lanes(visible - j), e, (vec){0});
    store(scores + j, e);
    sums += e;
  }
  for (; j < t->length; j += LANES) store(scores + j, (vec){0});
  if (t->logsumexp) t->logsumexp[i] = peak;
  t->inverse[i] = sum_lanes(sums);
}

static void softmax_tile(AttentionTile *t) {
  for (int64_t i = 0; i < t->rows; i++) row_peak(t, i);
  for (int64_t i = 0; i < t->rows; i++) row_exponentials(t, i);
  for (int64_t i = 0; i < t->rows; i++) {
    if (t->logsumexp) t->logsumexp[i] += (float)logarithm(t->inverse[i]);
    t->inverse[i] = 1.0f / t->inverse[i];
  }
}

static void scale_outputs(AttentionTile *t) {
  for (int64_t i = 0; i < t->rows; i++)
    for (int64_t j = 0; j < t->padded; j += LANES)
      store(t->out + i * t->padded + j, load(t->out + i * t->padded + j) * t->inverse[i]);
}

static void attend(AttentionTile *t) {
  score_tile(t);
  softmax_tile(t);
  for (int64_t i = 0; i < t->rows;) {
    int64_t left = t->rows - i, count = next_rows(i, t->rows), at = 0;
    if (left == 1)
      for (; at + 4 * PANEL_PART <= t->padded; at += 4 * PANEL_PART) values_wide_1(t, i, at);
    if (left <= 3)
      for (; at + 2 * PANEL_PART <= t->padded; at += 2 * PANEL_PART)
        (left == 1 ? values_pair_1 : left == 2 ? values_wide_2 : values_wide_3)(t, i, at);
    for (int64_t width; at < t->padded; at += width) {
      width = tile_columns(t->padded - at);
      (width == TILE_WIDTH ? wideValuesOf : valuesOf)[count](t, i, at);
    }
    i += count;
  }
  scale_outputs(t);
}

// How many queries make a tile: enough to reuse the keys, few enough that scores stay in the second-level cache.
enum { QUERY_ROWS = 48, SCORE_FLOATS = 1 << 16 };
static int64_t tile_tokens(int64_t group, int64_t length) {
  int64_t rows = least(QUERY_ROWS, SCORE_FLOATS / most(1, length));
  return most(1, rows / group);
}

#define PLACE_IN(base, used, field, type, count)                                                                      \
  do {                                                                                                                \
    if (base) field = (type *)(base + used);                                                                          \
    used = plus(used, round_up(times(count, (int64_t)sizeof(type)), 64));                                             \
  } while (0)

/* Bytes one thread needs for a tile; also lays the tile out when `base` is given. */
static int64_t lay_out(AttentionTile *t, uint8_t *base, int64_t rows, int64_t headDim, int64_t length,
                       int64_t panels, int64_t runs) {
  int64_t padded = round_up(headDim, PANEL), stride = round_up(length, PANEL) + MOST_PANELS * PANEL, used = 0;
  PLACE_IN(base, used, t->q, float, times(rows, padded));
  PLACE_IN(base, used, t->out, float, times(rows, padded));
  PLACE_IN(base, used, t->logsumexp, float, rows);
  PLACE_IN(base, used, t->inverse, float, rows);
  PLACE_IN(base, used, t->visible, int32_t, rows);
  PLACE_IN(base, used, t->scores, float, times(rows, stride));
  PLACE_IN(base, used, t->panel, KeyPanel, panels);
  PLACE_IN(base, used, t->run, ValueRun, runs);
  if (base) {
    t->headDim = headDim;
    t->padded = padded;
    t->scoreStride = stride;
  }
  return used;
}

INLINE void copy_scaled(float *to, const float *from, int64_t width, int64_t padded, float scale) {
  for (int64_t j = 0; j < padded; j += LANES)
    store(to + j, load_some(from + j, most(0, width - j), 0) * scale);
}
INLINE void copy_out(float *to, const float *from, int64_t width) {
  for (int64_t j = 0; j < width; j += LANES) store_some(to + j, load(from + j), width - j);
}

// ---- Training: packed rows ----

typedef struct {
  int64_t start, length, prefixStart, prefixLength;
} Row;

typedef struct {
  Context *context;
  int64_t tokens, heads, kvHeads, headDim, rows, qStride, kStride, vStride;
  int64_t group, padded, panels, longest, tileTokens, tileBytes;
  int64_t window;
  float scale, cap;
  int full; // a row's tokens see all of their row
  const float *q, *k, *v, *out, *dout, *logsumexp;
  float *outWritten, *logsumexpWritten, *dq, *dk, *dv;
  Row *row;
  int64_t *chunkRow, *chunkFirst; // of each query tile: its row and its first token
  int64_t tiles;
  float *keyPanels, *valuePanels; // [kvHeads][panels][headDim][16]
  float *keyRows, *valueRows;     // [kvHeads][panels * 16][padded]
  int32_t *owner, *parent, *order, *componentStart;
  int64_t components;
  uint8_t *tile;
} RowsJob;

/* Reads the shape; the rows are checked when they are copied into the workspace. */
static void take_rows(Call *call, RowsJob *job, const int32_t **lists) {
  job->context = call->context;
  job->tokens = take_size(call);
  job->heads = take_size(call);
  job->kvHeads = take_size(call);
  job->headDim = take_size(call);
  job->rows = take_size(call);
  if (job->heads && (!job->kvHeads || job->heads % job->kvHeads)) fail(call, 2, BAD_SIZE);
  job->qStride = take_stride(call, times(job->heads, job->headDim));
  job->kStride = take_stride(call, times(job->kvHeads, job->headDim));
  job->vStride = take_stride(call, times(job->kvHeads, job->headDim));
  job->scale = take_float(call);
  for (int i = 0; i < 4; i++) lists[i] = take_ints(call, job->rows);
  job->full = take_flag(call);
  job->window = take_size(call);
  if (job->full && job->window) fail(call, call->next - 1, BAD_SIZE);
  job->cap = (float)take_number(call, 0, 3.4e38);
}

/* Copies row `r`, or reports what is wrong with it. */
static int copy_row(Call *call, RowsJob *job, const int32_t *const *lists, int64_t r, Row *row) {
  row->start = lists[0][r];
  row->length = lists[1][r];
  row->prefixStart = lists[2][r];
  row->prefixLength = lists[3][r];
  if (row->start < 0 || row->start > job->tokens) fail_element(call, 9, r, (double)row->start);
  else if (row->length < 0 || row->length > job->tokens - row->start)
    fail_element(call, 10, r, (double)row->length);
  else if (row->prefixLength < 0) fail_element(call, 12, r, (double)row->prefixLength);
  else if (row->prefixLength && (row->prefixStart < 0 || row->prefixStart > job->tokens))
    fail_element(call, 11, r, (double)row->prefixStart);
  else if (row->prefixLength && row->prefixLength > job->tokens - row->prefixStart)
    fail_element(call, 12, r, (double)row->prefixLength);
  return call->error;
}

/* [token][heads·headDim] to panels of 16 tokens and to padded rows, for one (head, block of panels) a chunk. */
enum { PACK_PANELS = 8 };
static void pack_head(const float *from, int64_t stride, int64_t tokens, int64_t headDim, int64_t padded, int64_t head,
                      int64_t panels, int64_t first, float *toPanels, float *toRows) {
  for (int64_t panel = first; panel < least(panels, first + PACK_PANELS); panel++) {
    int64_t token = panel * PANEL, count = least(PANEL, tokens - token);
    for (int64_t lane = 0; lane < PANEL; lane++)
      fetch_row(from + (token + PANEL + lane) * stride + head * headDim, headDim);
    if (toPanels) {
      float *to = toPanels + (head * panels + panel) * headDim * PANEL;
      int64_t first = 0;
      if (count == PANEL)
        for (; first + 16 <= headDim; first += 16)
          transpose_16(from + token * stride + head * headDim + first, stride, to + first * PANEL, PANEL);
      for (int64_t lane = 0; lane < PANEL; lane++) {
        const float *row = from + (token + lane) * stride + head * headDim;
        for (int64_t d = first; d < headDim; d++) to[d * PANEL + lane] = lane < count ? row[d] : 0;
      }
    }
    if (toRows) {
      float *to = toRows + (head * panels + panel) * PANEL * padded;
      for (int64_t lane = 0; lane < PANEL; lane++)
        for (int64_t j = 0; j < padded; j += LANES)
          store(to + lane * padded + j, load_some(from + (token + lane) * stride + head * headDim + j,
                                                  lane < count ? most(0, headDim - j) : 0, 0));
    }
  }
}
static void pack_rows_chunk(void *data, int64_t chunk, int thread) {
  (void)thread;
  RowsJob *job = data;
  int64_t blocks = divide_up(job->panels, PACK_PANELS), head = chunk / blocks, first = chunk % blocks * PACK_PANELS;
  pack_head(job->k, job->kStride, job->tokens, job->headDim, job->padded, head, job->panels, first, job->keyPanels,
            job->keyRows);
  pack_head(job->v, job->vStride, job->tokens, job->headDim, job->padded, head, job->panels, first, job->valuePanels,
            job->valueRows);
}

/* Adds the panels that hold tokens [start, start + count), which stand at positions from `position` on. */
static int64_t add_panels(AttentionTile *t, int64_t at, const float *panels, int64_t start, int64_t count,
                          int64_t position) {
  for (int64_t token = start; token < start + count;) {
    int64_t lane = token % PANEL;
    t->panel[at++] = (KeyPanel){panels + token / PANEL * PANEL * t->headDim, position + token - start, (int32_t)lane};
    token += PANEL - lane;
  }
  return at;
}

static void attention_chunk(void *data, int64_t chunk, int thread) {
  RowsJob *job = data;
  // The longest tiles come last in a row; start with them, so that threads end together.
  int64_t tile = job->tiles - 1 - chunk / job->kvHeads, head = chunk % job->kvHeads;
  Row row = job->row[job->chunkRow[tile]];
  int64_t first = job->chunkFirst[tile], tokens = least(job->tileTokens, row.length - first);
  int64_t group = job->group, own = job->full ? row.length : first + tokens;
  AttentionTile t;
  lay_out(&t, job->tile + thread * job->tileBytes, job->tileTokens * group, job->headDim, job->longest,
          divide_up(job->longest, PANEL) + 4, 2);
  // Positions of the tile count from `base`: so many of the prefix and of the row itself are left out.
  int64_t base = first_position(job->window, row.prefixLength + first + 1, PANEL);
  int64_t prefixBase = least(base, row.prefixLength), ownBase = base - prefixBase;
  t.rows = tokens * group;
  t.length = row.prefixLength + own - base;
  t.window = job->window;
  t.cap = job->cap;
  for (int64_t token = 0; token < tokens; token++) {
    fetch_row(job->q + (row.start + first + token + AHEAD_ROWS) * job->qStride + head * group * job->headDim,
              group * job->headDim);
    for (int64_t h = 0; h < group; h++) {
      copy_scaled(t.q + (token * group + h) * t.padded,
                  job->q + (row.start + first + token) * job->qStride + (head * group + h) * job->headDim,
                  job->headDim, t.padded, job->scale);
      t.visible[token * group + h] = (int32_t)(row.prefixLength + (job->full ? own : first + token + 1) - base);
    }
  }
  const float *panels = job->keyPanels + head * job->panels * PANEL * job->headDim;
  const int64_t prefix = row.prefixLength - prefixBase;
  t.panels = add_panels(&t, 0, panels, row.prefixStart + prefixBase, prefix, 0);
  t.panels = add_panels(&t, t.panels, panels, row.start + ownBase, own - ownBase, prefix);
  const float *values = job->valueRows + head * job->panels * PANEL * job->padded;
  t.run[0] = (ValueRun){values + (row.prefixStart + prefixBase) * job->padded, prefix};
  t.run[1] = (ValueRun){values + (row.start + ownBase) * job->padded, own - ownBase};
  t.runs = 2;
  attend(&t);
  for (int64_t token = 0; token < tokens; token++)
    for (int64_t h = 0; h < group; h++) {
      int64_t at = (row.start + first + token) * job->heads + head * group + h;
      copy_out(job->outWritten + at * job->headDim, t.out + (token * group + h) * t.padded, job->headDim);
      job->logsumexpWritten[at] = t.logsumexp[token * group + h];
    }
}

static int64_t place_forward(RowsJob *job, uint8_t *base) {
  int64_t used = 0, packed = times(times(job->kvHeads, job->panels), PANEL);
  PLACE_IN(base, used, job->row, Row, job->rows);
  PLACE_IN(base, used, job->chunkRow, int64_t, job->tiles);
  PLACE_IN(base, used, job->chunkFirst, int64_t, job->tiles);
  PLACE_IN(base, used, job->keyPanels, float, times(packed, job->headDim));
  PLACE_IN(base, used, job->valueRows, float, times(packed, job->padded));
  PLACE_IN(base, used, job->tile, uint8_t, times(job->tileBytes, job->context->threads));
  return used;
}

/* Checks every row, and finds the longest. */
static void survey_rows(Call *call, RowsJob *job, const int32_t *const *lists) {
  job->longest = 1;
  for (int64_t r = 0; r < job->rows; r++) {
    Row row;
    if (copy_row(call, job, lists, r, &row)) return;
    if (row.length) job->longest = most(job->longest, row.length + row.prefixLength);
  }
  job->group = job->heads / job->kvHeads;
  job->padded = round_up(job->headDim, PANEL);
  job->panels = divide_up(job->tokens, PANEL);
}

static int32_t op_attention(Call *call) {
  RowsJob job = {0};
  const int32_t *lists[4];
  take_rows(call, &job, lists);
  int64_t width = times(job.heads, job.headDim), kvWidth = times(job.kvHeads, job.headDim);
  job.q = take_floats(call, span(job.tokens, job.qStride, width));
  job.k = take_floats(call, span(job.tokens, job.kStride, kvWidth));
  job.v = take_floats(call, span(job.tokens, job.vStride, kvWidth));
  job.outWritten = take_floats(call, times(job.tokens, width));
  job.logsumexpWritten = take_floats(call, times(job.tokens, job.heads));
  if (call->error || !job.heads || !job.headDim || !job.tokens) return call->error;
  survey_rows(call, &job, lists);
  if (call->error) return call->error;
  job.tileTokens = tile_tokens(job.group, job.longest);
  for (int64_t r = 0; r < job.rows; r++) job.tiles += divide_up(most(0, lists[1][r]), job.tileTokens);
  if (!job.tiles) return 0;
  job.tileBytes = lay_out(NULL, NULL, job.tileTokens * job.group, job.headDim, job.longest,
                          divide_up(job.longest, PANEL) + 4, 2);
  uint8_t *base = workspace(job.context, place_forward(&job, NULL));
  if (!base) return WORKSPACE;
  place_forward(&job, base);
  int64_t tile = 0;
  for (int64_t r = 0; r < job.rows; r++) {
    if (copy_row(call, &job, lists, r, job.row + r)) return call->error;
    for (int64_t first = 0; first < job.row[r].length; first += job.tileTokens, tile++)
      job.chunkRow[tile] = r, job.chunkFirst[tile] = first;
  }
  parallel(job.context, job.kvHeads * divide_up(job.panels, PACK_PANELS), pack_rows_chunk, &job);
  parallel(job.context, job.tiles * job.kvHeads, attention_chunk, &job);
  return 0;
}

// ---- Backward ----
// Rows joined by a shared prefix form a component. A chunk is one component and one K/V head: it alone adds to
// the gradients of those keys and values, in the order of the rows. With P = exp(S − logsumexp) computed again:
// dV += Pᵀ·dO, dS = P ∘ (dO·Vᵀ − Σ dO∘O), dQ = scale·dS·K, dK += scale·dSᵀ·Q. Capped scores c·tanh(S / c) have the
// slope 1 − tanh² besides.

enum { BACKWARD_ROWS = 64, KEY_BLOCK = 256, BLOCK_STRIDE = KEY_BLOCK + PANEL };

typedef struct {
  float *q, *dout, *dq;             // [rows][padded]
  float *weights, *slopes;          // [rows][BLOCK_STRIDE]
  float *delta, *logsumexp;         // [rows]
} BackwardTile;

static int64_t lay_out_backward(BackwardTile *t, uint8_t *base, int64_t rows, int64_t padded) {
  int64_t used = 0;
  PLACE_IN(base, used, t->q, float, times(rows, padded));
  PLACE_IN(base, used, t->dout, float, times(rows, padded));
  PLACE_IN(base, used, t->dq, float, times(rows, padded));
  PLACE_IN(base, used, t->weights, float, times(rows, BLOCK_STRIDE));
  PLACE_IN(base, used, t->slopes, float, times(rows, BLOCK_STRIDE));
  PLACE_IN(base, used, t->delta, float, rows);
  PLACE_IN(base, used, t->logsumexp, float, rows);
  return used;
}

/* The first row that sees column `column`, where row i sees firstVisible + i / group columns. */
INLINE int64_t first_row(int64_t column, int64_t firstVisible, int64_t group) {
  return most(0, (column + 1 - firstVisible) * group);
}

/* to[columns][headDim] += Σ over the rows that see the column of from[row][column] · b[row][headDim]. */
static void add_transposed(const float *from, const float *b, int64_t rows, int64_t padded, int64_t headDim,
                           int64_t columns, int64_t firstVisible, int64_t group, float *to, int64_t stride) {
  for (int64_t j = 0; j < columns;) {
    int64_t count = next_rows(j, columns), row = first_row(j, firstVisible, group);
    if (row >= rows) return;
    const float *weights = from + row * BLOCK_STRIDE + j;
    for (int64_t d = 0, width; d < headDim; d += width) {
      const float *values = b + row * padded + d;
      float *c = to + j * stride + d;
      width = tile_columns(headDim - d);
      if (headDim - d >= width)
        (width == TILE_WIDTH ? byColumn : panelByColumn)[count](rows - row, weights, BLOCK_STRIDE, values, padded, c,
                                                                stride, 0);
      else
        edge_tile(panelByColumn[count], count, headDim - d, PANEL_PART, rows - row, weights, BLOCK_STRIDE, values,
                  padded, c, stride, 0);
    }
    j += count;
  }
}

/* The queries of a tile against tokens [start, end) of one K/V head. Row 0 sees the first `firstVisible` of them but for
   the first `firstHidden`, and every token further one more of each. */
static void backward_block(RowsJob *job, BackwardTile *t, int64_t head, int64_t rows, int64_t start, int64_t end,
                           int64_t firstVisible, int64_t firstHidden) {
  if (firstHidden >= end - start) return;
  const int64_t headDim = job->headDim, padded = job->padded, group = job->group;
  const int64_t firstPanel = start / PANEL, panels = divide_up(end, PANEL) - firstPanel, skip = start % PANEL;
  for (int64_t p = 0; p < panels; p++) {
    int64_t at = (head * job->panels + firstPanel + p) * headDim * PANEL;
    int64_t row = first_row(p * PANEL - skip, firstVisible, group), to = row * BLOCK_STRIDE + p * PANEL;
    if (row >= rows) break;
#if TILE_WIDTH == 2 * PANEL
    if (p + 1 < panels) {
      score_two_panels(job->keyPanels + at, headDim, rows - row, t->q + row * padded, padded, t->weights + to,
                       BLOCK_STRIDE);
      score_two_panels(job->valuePanels + at, headDim, rows - row, t->dout + row * padded, padded, t->slopes + to,
                       BLOCK_STRIDE);
      p++;
      continue;
    }
#endif
    score_panel(job->keyPanels + at, headDim, rows - row, t->q + row * padded, padded, t->weights + to, BLOCK_STRIDE);
    score_panel(job->valuePanels + at, headDim, rows - row, t->dout + row * padded, padded, t->slopes + to,
                BLOCK_STRIDE);
  }
  for (int64_t i = 0; i < rows; i++) {
    int64_t visible = skip + least(end - start, most(0, firstVisible + i / group));
    int64_t hidden = skip + (job->window ? least(end - start, most(0, firstHidden + i / group)) : 0);
    float *weights = t->weights + i * BLOCK_STRIDE, *slopes = t->slopes + i * BLOCK_STRIDE;
    int64_t j = 0;
    for (; j < visible; j += LANES) {
      vec score = load(weights + j), slope = load(slopes + j) - t->delta[i];
      if (job->cap) {
        score = soft_cap(score, job->cap);
        slope *= soft_cap_slope(score, job->cap);
      }
      vec weight = exponential(score - t->logsumexp[i]);
      veci seen = first_lanes(visible - j) & ~first_lanes(hidden - j);
      weight = choose(seen, weight, (vec){0});
      store(weights + j, weight);
      store(slopes + j, choose(seen, weight * slope, (vec){0}));
    }
    for (; j < panels * PANEL; j += LANES) {
      store(weights + j, (vec){0});
      store(slopes + j, (vec){0});
    }
  }
  const float *keys = job->keyRows + (head * job->panels + firstPanel) * PANEL * padded;
  for (int64_t i = 0; i < rows;) {
    int64_t count = next_rows(i, rows);
    int64_t seen = skip + least(end - start, most(0, firstVisible + (i + count - 1) / group));
    for (int64_t d = 0, width; d < padded; d += width) {
      width = tile_columns(padded - d);
      (width == TILE_WIDTH ? byRow : panelByRow)[count](seen, t->slopes + i * BLOCK_STRIDE, BLOCK_STRIDE, keys + d,
                                                        padded, t->dq + i * padded + d, padded, 0);
    }
    i += count;
  }
  add_transposed(t->weights + skip, t->dout, rows, padded, headDim, end - start, firstVisible, group,
                 job->dv + start * job->vStride + head * headDim, job->vStride);
  add_transposed(t->slopes + skip, t->q, rows, padded, headDim, end - start, firstVisible, group,
                 job->dk + start * job->kStride + head * headDim, job->kStride);
}

static void backward_row(RowsJob *job, BackwardTile *t, Row row, int64_t head) {
  const int64_t headDim = job->headDim, padded = job->padded, group = job->group;
  for (int64_t first = 0; first < row.length; first += job->tileTokens) {
    int64_t tokens = least(job->tileTokens, row.length - first), rows = tokens * group;
    for (int64_t i = 0; i < rows; i++) {
      int64_t token = row.start + first + i / group, h = head * group + i % group;
      const float *dout = job->dout + (token * job->heads + h) * headDim;
      const float *out = job->out + (token * job->heads + h) * headDim;
      fetch_row(job->q + (token + AHEAD_ROWS) * job->qStride + h * headDim, headDim);
      fetch_row(dout + AHEAD_ROWS * job->heads * headDim, headDim);
      fetch_row(out + AHEAD_ROWS * job->heads * headDim, headDim);
      copy_scaled(t->q + i * padded, job->q + token * job->qStride + h * headDim, headDim, padded, job->scale);
      copy_scaled(t->dout + i * padded, dout, headDim, padded, 1);
      vec dots = {0};
      for (int64_t j = 0; j < headDim; j += LANES)
        dots += load_some(dout + j, headDim - j, 0) * load_some(out + j, headDim - j, 0);
      t->delta[i] = sum_lanes(dots);
      t->logsumexp[i] = job->logsumexp[token * job->heads + h];
      for (int64_t j = 0; j < padded; j += LANES) store(t->dq + i * padded + j, (vec){0});
    }
    // Blocks end at multiples of PANEL, so that a panel is scored once.
    int64_t prefixEnd = row.prefixStart + row.prefixLength;
    int64_t ownEnd = row.start + (job->full ? row.length : first + tokens);
    // Positions that the window hides from the first query, the prefix's counted; negative: none yet.
    int64_t hidden = job->window ? row.prefixLength + first + 1 - job->window : 0;
    for (int64_t start = row.prefixStart, end; row.prefixLength && start < prefixEnd; start = end) {
      end = least(prefixEnd, start / PANEL * PANEL + KEY_BLOCK);
      backward_block(job, t, head, rows, start, end, end - start, hidden - (start - row.prefixStart));
    }
    for (int64_t start = row.start, end; start < ownEnd; start = end) {
      end = least(ownEnd, start / PANEL * PANEL + KEY_BLOCK);
      backward_block(job, t, head, rows, start, end, job->full ? end - start : row.start + first + 1 - start,
                     hidden - row.prefixLength - (start - row.start));
    }
    for (int64_t i = 0; i < rows; i++) {
      int64_t token = row.start + first + i / group, h = head * group + i % group;
      for (int64_t j = 0; j < headDim; j += LANES)
        store_some(job->dq + token * job->qStride + h * headDim + j, load(t->dq + i * padded + j) * job->scale,
                   headDim - j);
    }
  }
}

static void backward_chunk(void *data, int64_t chunk, int thread) {
  RowsJob *job = data;
  int64_t component = chunk / job->kvHeads, head = chunk % job->kvHeads;
  BackwardTile t;
  lay_out_backward(&t, job->tile + thread * job->tileBytes, job->tileTokens * job->group, job->padded);
  for (int64_t i = job->componentStart[component]; i < job->componentStart[component + 1]; i++)
    backward_row(job, &t, job->row[job->order[i]], head);
}

static int64_t place_backward(RowsJob *job, uint8_t *base) {
  int64_t used = 0, packed = times(times(job->kvHeads, job->panels), PANEL);
  PLACE_IN(base, used, job->row, Row, job->rows);
  PLACE_IN(base, used, job->owner, int32_t, job->tokens);
  PLACE_IN(base, used, job->parent, int32_t, job->rows);
  PLACE_IN(base, used, job->order, int32_t, job->rows);
  PLACE_IN(base, used, job->componentStart, int32_t, job->rows + 1);
  PLACE_IN(base, used, job->keyPanels, float, times(packed, job->headDim));
  PLACE_IN(base, used, job->valuePanels, float, times(packed, job->headDim));
  PLACE_IN(base, used, job->keyRows, float, times(packed, job->padded));
  PLACE_IN(base, used, job->tile, uint8_t, times(job->tileBytes, job->context->threads));
  return used;
}

static int32_t root_of(int32_t *parent, int32_t row) {
  while (parent[row] != row) row = parent[row] = parent[parent[row]];
  return row;
}
static void claim_tokens(RowsJob *job, int32_t row, int64_t start, int64_t count) {
  for (int64_t token = start; token < start + count; token++) {
    if (job->owner[token] < 0) job->owner[token] = row;
    int32_t a = root_of(job->parent, job->owner[token]), b = root_of(job->parent, row);
    if (a != b) job->parent[most(a, b)] = (int32_t)least(a, b);
  }
}

/* Groups rows that touch a common token; within a group they keep their order. */
static void find_components(RowsJob *job) {
  int32_t rows = (int32_t)job->rows;
  for (int64_t token = 0; token < job->tokens; token++) job->owner[token] = -1;
  for (int32_t r = 0; r < rows; r++) job->parent[r] = r;
  for (int32_t r = 0; r < rows; r++) claim_tokens(job, r, job->row[r].start, job->row[r].length);
  for (int32_t r = 0; r < rows; r++)
    if (job->row[r].length) claim_tokens(job, r, job->row[r].prefixStart, job->row[r].prefixLength);
  // A root is the first row of its group: number the groups by it, count, and place.
  for (int32_t r = 0; r <= rows; r++) job->componentStart[r] = 0;
  job->components = 0;
  for (int32_t r = 0; r < rows; r++) {
    int32_t root = root_of(job->parent, r);
    job->order[r] = root == r ? (int32_t)job->components++ : job->order[root];
  }
  for (int32_t r = 0; r < rows; r++) job->componentStart[job->order[r] + 1]++;
  for (int64_t c = 0; c < job->components; c++) job->componentStart[c + 1] += job->componentStart[c];
  int32_t *component = job->parent; // the roots are no longer needed
  for (int32_t r = 0; r < rows; r++) component[r] = job->order[r];
  for (int64_t c = job->components; c > 0; c--) job->componentStart[c] = job->componentStart[c - 1];
  if (job->components) job->componentStart[0] = 0;
  for (int32_t r = 0; r < rows; r++) job->order[job->componentStart[component[r] + 1]++] = r;
}

static int32_t op_attentionBackward(Call *call) {
  RowsJob job = {0};
  const int32_t *lists[4];
  take_rows(call, &job, lists);
  int64_t width = times(job.heads, job.headDim), kvWidth = times(job.kvHeads, job.headDim);
  int64_t qCount = span(job.tokens, job.qStride, width), kCount = span(job.tokens, job.kStride, kvWidth);
  int64_t vCount = span(job.tokens, job.vStride, kvWidth);
  job.q = take_floats(call, qCount);
  job.k = take_floats(call, kCount);
  job.v = take_floats(call, vCount);
  job.out = take_floats(call, times(job.tokens, width));
  job.logsumexp = take_floats(call, times(job.tokens, job.heads));
  job.dout = take_floats(call, times(job.tokens, width));
  job.dq = take_floats(call, qCount);
  job.dk = take_floats(call, kCount);
  job.dv = take_floats(call, vCount);
  if (call->error || !job.heads || !job.headDim || !job.tokens) return call->error;
  survey_rows(call, &job, lists);
  if (call->error || !job.rows) return call->error;
  job.tileTokens = most(1, BACKWARD_ROWS / job.group);
  job.tileBytes = lay_out_backward(NULL, NULL, job.tileTokens * job.group, job.padded);
  uint8_t *base = workspace(job.context, place_backward(&job, NULL));
  if (!base) return WORKSPACE;
  place_backward(&job, base);
  for (int64_t r = 0; r < job.rows; r++)
    if (copy_row(call, &job, lists, r, job.row + r)) return call->error;
  find_components(&job);
  parallel(job.context, job.kvHeads * divide_up(job.panels, PACK_PANELS), pack_rows_chunk, &job);
  parallel(job.context, job.components * job.kvHeads, backward_chunk, &job);
  return 0;
}
