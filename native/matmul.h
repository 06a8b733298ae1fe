// Matrix products on packed weights (pack.h). Sums are float32. Without PAIRS a block of a bfloat16 panel is widened in
// the thread's scratch before use, or as it is loaded where rows are few.
// Every output element is one chain of multiply-adds over the depth in order, starting from what y holds: blocking,
// tiling and threads cannot change its bits.

enum { DEPTH_BLOCK = 256, MOST_DEPTH = 320, AHEAD_HALVES = 2048, AHEAD_FLOATS = 2048 };

// Constants, for arrays whose used part the always-inlined tiles keep in registers.
enum { MOST_ROWS = TILE_ROWS, MOST_VECTORS = 4 * TILE_VECTORS, MOST_PANELS = 4 };

INLINE vec add_product(const int HALF, vec sum, vec factor, vec row) {
#if PAIRS
  if (HALF) return add_pairs(sum, factor, row);
#endif
  (void)HALF;
  return sum + factor * row;
}
INLINE vec load_weights(const int HALF, const float *b, int64_t at) {
  return HALF && !PAIRS ? load_widened((const uint16_t *)b + at) : load(b + at);
}
/* Weights are read before the hardware has seen enough of the stream to fetch it. Once for each cache line. */
INLINE void fetch_ahead(const int HALF, const float *b, int64_t at, const int v) {
  if (HALF && !PAIRS) {
    if (v * LANES % (2 * LINE) == 0) __builtin_prefetch((const uint16_t *)b + at + AHEAD_HALVES, 0, 2);
  } else if (v * LANES % LINE == 0) __builtin_prefetch(b + at + AHEAD_FLOATS, 0, 2);
}

// One tile: c[ROWS][VECTORS] (+)= a[ROWS][depth] · b[depth][VECTORS]. a(i, p) is a[i * rowStep + p * depthStep].
// HALF: a and b hold pairs of bfloat16; without PAIRS, a holds floats and b single ones, widened as they are loaded.
// b(p, v) is the vector at b[p * bStep + v * vectorStep]. FETCHED: b comes from memory, and is fetched ahead.
INLINE void tile_of(const int HALF, const int FETCHED, const int ROWS, const int VECTORS, int64_t depth, const float *a,
                    int64_t rowStep, int64_t depthStep, const float *b, int64_t bStep, int64_t vectorStep, float *c,
                    int64_t cStep, int fresh) {
  vec sum[MOST_ROWS][MOST_VECTORS];
  UNROLL for (int i = 0; i < ROWS; i++) {
    // What is only written is fetched too: it is there when the products are.
    __builtin_prefetch(c + i * cStep, 1);
    if (VECTORS * LANES > LINE) __builtin_prefetch(c + i * cStep + VECTORS * LANES - 1, 1);
    UNROLL for (int v = 0; v < VECTORS; v++) sum[i][v] = fresh ? (vec){0} : load(c + i * cStep + v * LANES);
  }
  for (int64_t p = 0; p < depth; p++) {
    vec row[MOST_VECTORS];
    UNROLL for (int v = 0; v < VECTORS; v++) {
      int64_t at = p * bStep + v * vectorStep;
      if (FETCHED) fetch_ahead(HALF, b, at, v);
      row[v] = load_weights(HALF, b, at);
    }
    UNROLL for (int i = 0; i < ROWS; i++) {
      vec factor = splat(a[i * rowStep + p * depthStep]);
      UNROLL for (int v = 0; v < VECTORS; v++) sum[i][v] = add_product(HALF, sum[i][v], factor, row[v]);
    }
  }
  UNROLL for (int i = 0; i < ROWS; i++) {
    UNROLL for (int v = 0; v < VECTORS; v++) store(c + i * cStep + v * LANES, sum[i][v]);
  }
}

INLINE void tile(const int ROWS, const int VECTORS, int64_t depth, const float *a, int64_t rowStep, int64_t depthStep,
                 const float *b, int64_t bStep, float *c, int64_t cStep, int fresh) {
  tile_of(0, 0, ROWS, VECTORS, depth, a, rowStep, depthStep, b, bStep, LANES, c, cStep, fresh);
}

// The same for few rows over several panels at once: enough independent chains to hide the latency of one.
INLINE void wide_tile(const int ROWS, const int PANELS, const int VECTORS, const int HALF, int64_t depth,
                      const float *a, int64_t rowStep, const float *const *b, int64_t bStep, float *c, int64_t cStep,
                      int fresh) {
  vec sum[MOST_ROWS][MOST_VECTORS];
  const float *panel[MOST_PANELS];
  UNROLL for (int v = 0; v < PANELS; v++) panel[v] = b[v];
  UNROLL for (int i = 0; i < ROWS; i++) {
    UNROLL for (int v = 0; v < PANELS * VECTORS; v++)
      sum[i][v] = fresh ? (vec){0} : load(c + i * cStep + v * LANES);
  }
  for (int64_t p = 0; p < depth; p++) {
    vec factor[MOST_ROWS];
    UNROLL for (int i = 0; i < ROWS; i++) factor[i] = splat(a[i * rowStep + p]);
    UNROLL for (int v = 0; v < PANELS * VECTORS; v++) {
      const float *from = panel[v / VECTORS];
      int64_t at = p * bStep + (v % VECTORS) * LANES;
      if (HALF) fetch_ahead(HALF, from, at, v);
      vec row = load_weights(HALF, from, at);
      UNROLL for (int i = 0; i < ROWS; i++) sum[i][v] = add_product(HALF, sum[i][v], factor[i], row);
    }
  }
  UNROLL for (int i = 0; i < ROWS; i++) {
    UNROLL for (int v = 0; v < PANELS * VECTORS; v++) store(c + i * cStep + v * LANES, sum[i][v]);
  }
}

#define EACH_ROW_COUNT_4(X) X(1) X(2) X(3) X(4)
#if TILE_ROWS >= 6
#define EACH_ROW_COUNT_6(X) EACH_ROW_COUNT_4(X) X(5) X(6)
#else
#define EACH_ROW_COUNT_6(X) EACH_ROW_COUNT_4(X)
#endif
#if TILE_ROWS >= 12
#define EACH_ROW_COUNT(X) EACH_ROW_COUNT_6(X) X(7) X(8) X(9) X(10) X(11) X(12)
#else
#define EACH_ROW_COUNT(X) EACH_ROW_COUNT_6(X)
#endif

// Attention works on panels of 16: in one go, or in halves where a tile is narrower.
#define PANEL 16
#if TILE_WIDTH >= PANEL
#define PANEL_VECTORS (PANEL / LANES)
#else
#define PANEL_VECTORS TILE_VECTORS
#endif
#define PANEL_PART (PANEL_VECTORS * LANES)

typedef void (*TileFunction)(int64_t, const float *, int64_t, const float *, int64_t, float *, int64_t, int);
typedef void (*WideFunction)(int64_t, const float *, int64_t, const float *const *, float *, int64_t, int);

// by_row_N: a is row-major (depthStep 1). by_column_N: a is depth-major (rowStep 1, `step` is the depth's).
#define DEFINE_TILES(N)                                                                                               \
  static void by_row_##N(int64_t depth, const float *a, int64_t step, const float *b, int64_t bStep, float *c,        \
                         int64_t cStep, int fresh) {                                                                  \
    tile(N, TILE_VECTORS, depth, a, step, 1, b, bStep, c, cStep, fresh);                                              \
  }                                                                                                                   \
  static void by_column_##N(int64_t depth, const float *a, int64_t step, const float *b, int64_t bStep, float *c,     \
                            int64_t cStep, int fresh) {                                                               \
    tile(N, TILE_VECTORS, depth, a, 1, step, b, bStep, c, cStep, fresh);                                              \
  }                                                                                                                   \
  static void half_first_by_row_##N(int64_t depth, const float *a, int64_t step, const float *b, int64_t bStep,       \
                                    float *c, int64_t cStep, int fresh) {                                             \
    tile_of(1, 1, N, TILE_VECTORS, depth, a, step, 1, b, bStep, LANES, c, cStep, fresh);                              \
  }                                                                                                                   \
  static void first_by_row_##N(int64_t depth, const float *a, int64_t step, const float *b, int64_t bStep, float *c,  \
                               int64_t cStep, int fresh) {                                                            \
    tile_of(0, 1, N, TILE_VECTORS, depth, a, step, 1, b, bStep, LANES, c, cStep, fresh);                              \
  }
EACH_ROW_COUNT(DEFINE_TILES)
#if PAIRS
#define DEFINE_PAIR_TILES(N)                                                                                          \
  static void pairs_by_row_##N(int64_t depth, const float *a, int64_t step, const float *b, int64_t bStep, float *c,  \
                               int64_t cStep, int fresh) {                                                            \
    tile_of(1, 0, N, TILE_VECTORS, depth, a, step, 1, b, bStep, LANES, c, cStep, fresh);                              \
  }                                                                                                                   \
  static void pairs_by_column_##N(int64_t depth, const float *a, int64_t step, const float *b, int64_t bStep,         \
                                  float *c, int64_t cStep, int fresh) {                                               \
    tile_of(1, 0, N, TILE_VECTORS, depth, a, 1, step, b, bStep, LANES, c, cStep, fresh);                              \
  }
EACH_ROW_COUNT(DEFINE_PAIR_TILES)
#endif
#if PANEL_VECTORS != TILE_VECTORS
#define DEFINE_PANEL_TILES(N)                                                                                         \
  static void panel_by_row_##N(int64_t depth, const float *a, int64_t step, const float *b, int64_t bStep, float *c,  \
                               int64_t cStep, int fresh) {                                                            \
    tile(N, PANEL_VECTORS, depth, a, step, 1, b, bStep, c, cStep, fresh);                                             \
  }                                                                                                                   \
  static void panel_by_column_##N(int64_t depth, const float *a, int64_t step, const float *b, int64_t bStep,         \
                                  float *c, int64_t cStep, int fresh) {                                               \
    tile(N, PANEL_VECTORS, depth, a, 1, step, b, bStep, c, cStep, fresh);                                             \
  }
EACH_ROW_COUNT(DEFINE_PANEL_TILES)
#endif

#define WIDE_PANELS 4
#define DEFINE_WIDE(ROWS, PANELS)                                                                                     \
  static void wide_##ROWS(int64_t depth, const float *a, int64_t step, const float *const *b, float *c,               \
                          int64_t cStep, int fresh) {                                                                 \
    wide_tile(ROWS, PANELS, TILE_VECTORS, 0, depth, a, step, b, TILE_WIDTH, c, cStep, fresh);                         \
  }                                                                                                                   \
  static void half_wide_##ROWS(int64_t depth, const float *a, int64_t step, const float *const *b, float *c,          \
                               int64_t cStep, int fresh) {                                                            \
    wide_tile(ROWS, PANELS, TILE_VECTORS, 1, depth, a, step, b, TILE_WIDTH, c, cStep, fresh);                         \
  }
DEFINE_WIDE(1, 4)
DEFINE_WIDE(2, 2)
DEFINE_WIDE(3, 2)
static const WideFunction wideTiles[2][4] = {{0, wide_1, wide_2, wide_3}, {0, half_wide_1, half_wide_2, half_wide_3}};

#define ENTRY_BY_ROW(N) by_row_##N,
#define ENTRY_BY_COLUMN(N) by_column_##N,
#define ENTRY_FIRST_BY_ROW(N) first_by_row_##N,
#define ENTRY_HALF_FIRST_BY_ROW(N) half_first_by_row_##N,
static const TileFunction byRow[TILE_ROWS + 1] = {0, EACH_ROW_COUNT(ENTRY_BY_ROW)};
static const TileFunction firstByRow[2][TILE_ROWS + 1] = {{0, EACH_ROW_COUNT(ENTRY_FIRST_BY_ROW)},
                                                          {0, EACH_ROW_COUNT(ENTRY_HALF_FIRST_BY_ROW)}};
#if PAIRS
#define ENTRY_PAIRS_BY_ROW(N) pairs_by_row_##N,
#define ENTRY_PAIRS_BY_COLUMN(N) pairs_by_column_##N,
static const TileFunction pairsByRow[TILE_ROWS + 1] = {0, EACH_ROW_COUNT(ENTRY_PAIRS_BY_ROW)};
static const TileFunction pairsByColumn[TILE_ROWS + 1] = {0, EACH_ROW_COUNT(ENTRY_PAIRS_BY_COLUMN)};
#else
#define pairsByRow byRow
#define pairsByColumn byColumn
#endif
static const TileFunction byColumn[TILE_ROWS + 1] = {0, EACH_ROW_COUNT(ENTRY_BY_COLUMN)};
#if PANEL_VECTORS != TILE_VECTORS
#define ENTRY_PANEL_BY_ROW(N) panel_by_row_##N,
#define ENTRY_PANEL_BY_COLUMN(N) panel_by_column_##N,
static const TileFunction panelByRow[TILE_ROWS + 1] = {0, EACH_ROW_COUNT(ENTRY_PANEL_BY_ROW)};
static const TileFunction panelByColumn[TILE_ROWS + 1] = {0, EACH_ROW_COUNT(ENTRY_PANEL_BY_COLUMN)};
#else
#define panelByRow byRow
#define panelByColumn byColumn
#endif

/* A tile of which only `columns` of the `width` columns exist in c. */
static void edge_tile(TileFunction function, int64_t rows, int64_t columns, int64_t width, int64_t depth,
                      const float *a, int64_t step, const float *b, int64_t bStep, float *c, int64_t cStep, int fresh) {
  float part[TILE_ROWS * 32] __attribute__((aligned(64)));
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < width; j++) part[i * width + j] = fresh || j >= columns ? 0 : c[i * cStep + j];
  function(depth, a, step, b, bStep, part, width, 0);
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++) c[i * cStep + j] = part[i * width + j];
}

typedef struct {
  Context *context;
  const float *x, *bias;
  const void *packed;
  float *y;
  int64_t m, n, k, xStride, yStride, rowStep, panelStep, panelChunks; // k: depth in floats, or in pairs
  int accumulate, half;
} MatmulJob;

/* The job with its inputs rounded to bfloat16, in the workspace. */
static int32_t round_matmul(MatmulJob *job) {
  const int64_t depth = PAIRS ? divide_up(job->k, 2) : job->k;
  uint8_t *room = workspace(job->context, times(4, times(job->m, depth)));
  if (!room) return WORKSPACE;
  RoundInputsJob round = {job->x, (float *)room, job->m, job->k, job->xStride, depth,
                          chunk_items(most(1, job->k), 1 << 12)};
  parallel(job->context, divide_up(job->m, round.step), round_inputs_chunk, &round);
  job->x = round.rounded;
  job->k = job->xStride = depth;
  return 0;
}

/* `depth` rows of a panel from `begin` on: in place, or widened into `room`. */
INLINE const float *panel_block(const MatmulJob *job, int64_t panel, int64_t begin, int64_t depth, float *room) {
  int64_t at = (panel * job->k + begin) * TILE_WIDTH;
  if (!job->half || PAIRS) return (const float *)job->packed + at;
  const uint16_t *from = (const uint16_t *)job->packed + at;
  for (int64_t i = 0; i < depth * TILE_WIDTH; i += LANES) store(room + i, load_widened(from + i));
  return room;
}

/* Fetches parts [part, partEnd) of `parts` of what is multiplied next into the second-level cache. */
INLINE void fetch_lines(const uint8_t *next, int64_t bytes, int64_t part, int64_t partEnd, int64_t parts) {
  const int64_t lines = bytes / (4 * LINE);
  for (int64_t line = lines * part / parts; line < lines * partEnd / parts; line++)
    __builtin_prefetch(next + line * 4 * LINE, 0, 2);
}

/* Rows [i, end) are cut into tiles as equal as can be: 32 rows by 6 are 6 6 5 5 5 5, never 6 6 6 6 6 2. */
INLINE int64_t next_rows(int64_t i, int64_t end) {
  int64_t left = end - i;
  return divide_up(left, divide_up(left, TILE_ROWS));
}

static void matmul_chunk(void *data, int64_t chunk, int thread) {
  MatmulJob *job = data;
  float *room = scratch(job->context, thread);
  const int64_t n = job->n, k = job->k, panels = divide_up(n, TILE_WIDTH);
  const int64_t row = chunk / job->panelChunks * job->rowStep, rowEnd = least(job->m, row + job->rowStep);
  const int64_t first = chunk % job->panelChunks * job->panelStep, last = least(panels, first + job->panelStep);
  const int64_t column = first * TILE_WIDTH, columnEnd = least(n, last * TILE_WIDTH);
  int fresh = !job->accumulate && !job->bias;
  if (job->bias)
    for (int64_t i = row; i < rowEnd; i++) {
      float *y = job->y + i * job->yStride;
      if (job->accumulate)
        for (int64_t j = column; j < columnEnd; j++) y[j] += job->bias[j];
      else
        for (int64_t j = column; j < columnEnd; j++) y[j] = job->bias[j];
    }
  const int widened = job->half && !PAIRS;
  const TileFunction *const tiles = job->half ? pairsByRow : byRow;
  const int64_t rows = rowEnd - row, wide = rows == 1 ? 4 : rows <= 3 ? 2 : 1, bytes = widened ? 2 : 4;
  // Blocks as equal as can be: sums are read and written once for each, however short it is.
  const int64_t block = divide_up(k, most(1, divide_up(k, MOST_DEPTH)));
  int64_t begin = 0;
  do {
    int64_t depth = least(block, k - begin);
    for (int64_t panel = first; panel < last;) {
      if (wide > 1 && (panel + wide) * TILE_WIDTH <= n && panel + wide <= last) {
        const float *several[WIDE_PANELS];
        for (int64_t i = 0; i < wide; i++)
          several[i] = (const void *)((const uint8_t *)job->packed + bytes * ((panel + i) * k + begin) * TILE_WIDTH);
        wideTiles[job->half][rows](depth, job->x + row * job->xStride + begin, job->xStride, several,
                                   job->y + row * job->yStride + panel * TILE_WIDTH, job->yStride, fresh);
        panel += wide;
        continue;
      }
      int64_t width = least(TILE_WIDTH, n - panel * TILE_WIDTH);
      if (widened && rows <= TILE_ROWS && width == TILE_WIDTH) { // each number is used once: no room is needed
        const uint16_t *b = (const uint16_t *)job->packed + (panel * k + begin) * TILE_WIDTH;
        firstByRow[1][rows](depth, job->x + row * job->xStride + begin, job->xStride, (const void *)b, TILE_WIDTH,
                            job->y + row * job->yStride + panel * TILE_WIDTH, job->yStride, fresh);
        panel++;
        continue;
      }
      const float *b = panel_block(job, panel, begin, depth, room);
      const uint8_t *next = (const uint8_t *)job->packed + bytes * ((panel + 1) * k + begin) * TILE_WIDTH;
      const int64_t nextBytes = widened && panel + 1 < last ? bytes * depth * TILE_WIDTH : 0;
      for (int64_t i = row; i < rowEnd;) {
        int64_t count = next_rows(i, rowEnd);
        fetch_lines(next, nextBytes, i - row, i - row + count, rows);
        const float *x = job->x + i * job->xStride + begin;
        float *y = job->y + i * job->yStride + panel * TILE_WIDTH;
        if (width == TILE_WIDTH)
          (i == row && !widened ? firstByRow[job->half] : tiles)[count](depth, x, job->xStride, b, TILE_WIDTH, y,
                                                                        job->yStride, fresh);
        else if (width == PANEL_PART && !job->half)
          panelByRow[count](depth, x, job->xStride, b, TILE_WIDTH, y, job->yStride, fresh);
        else
          edge_tile(tiles[count], count, width, TILE_WIDTH, depth, x, job->xStride, b, TILE_WIDTH, y, job->yStride,
                    fresh);
        i += count;
      }
      panel++;
    }
    fresh = 0;
    begin += block;
  } while (begin < k);
}

static int32_t op_matmul(Call *call) {
  MatmulJob job = {call->context};
  job.m = take_size(call);
  job.n = take_size(call);
  job.k = take_size(call);
  job.xStride = take_stride(call, job.k);
  job.yStride = take_stride(call, job.n);
  job.accumulate = take_flag(call);
  job.half = take_flag(call);
  job.x = take_floats(call, span(job.m, job.xStride, job.k));
  job.packed = take_packed(call, job.n, job.k, job.half);
  job.y = take_floats(call, span(job.m, job.yStride, job.n));
  job.bias = take_optional(call, job.n);
  if (call->error || !job.m || !job.n) return call->error;
  if (job.half && job.k && (call->error = round_matmul(&job))) return call->error;
  int64_t panels = divide_up(job.n, TILE_WIDTH), threads = call->context->threads;
  // Few rows: share out the panels. Many: blocks of rows, which stay in the second-level cache, by panels.
  job.rowStep = least(job.m, 16 * TILE_ROWS);
  if (job.m < 4 * TILE_ROWS * threads) job.rowStep = job.m;
  int64_t rowChunks = divide_up(job.m, job.rowStep);
  job.rowStep = round_up(divide_up(job.m, rowChunks), TILE_ROWS);
  rowChunks = divide_up(job.m, job.rowStep);
  int64_t perPanel = times(least(job.m, job.rowStep), most(1, job.k) * TILE_WIDTH);
  job.panelStep = chunk_items(perPanel, 1 << 17);
  if (threads > 1) job.panelStep = most(job.panelStep, divide_up(panels * rowChunks, 64 * threads));
  else job.panelStep = panels;
  if (job.panelStep < panels && job.m <= 3) job.panelStep = round_up(job.panelStep, WIDE_PANELS);
  job.panelChunks = divide_up(panels, job.panelStep);
  parallel(call->context, rowChunks * job.panelChunks, matmul_chunk, &job);
  return 0;
}

typedef struct {
  Context *context;
  const float *dy, *x;
  float *dw;
  int64_t m, n, k, dyStride, xStride, dwStride, rowStep, panelStep, panelChunks;
  int half;
  // Of a block of tokens, as tiles read them: [panel of x][depth][TILE_WIDTH] and [tile of dy][depth][TILE_ROWS].
  float *packedX, *packedY;
  int64_t begin, depth, yStep, packStep; // begin, depth: tokens, or pairs of tokens
} GradientJob;

enum { GRADIENT_COLUMNS = 256, GRADIENT_ROWS = 96, PACKED_AT_ONCE = 32, PACKED_FLOATS = 3 << 16 };

/* A vector of a token: as it is, or rounded to bfloat16, with PAIRS beside the next token's, which may be missing. */
INLINE vec token_vector(const int HALF, const float *from, const float *next, int64_t left) {
  vec first = load_some(from, left, 0);
#if PAIRS
  if (HALF) return paired(first, next ? load_some(next, left, 0) : (vec){0});
#endif
  (void)next;
  return HALF ? rounded_bf16(first) : first;
}

INLINE void pack_tokens(const int HALF, const GradientJob *job, int64_t chunk) {
  const int64_t together = HALF && PAIRS ? 2 : 1, end = least(job->depth, (chunk + 1) * job->packStep);
  for (int64_t p = chunk * job->packStep; p < end; p++) {
    const int64_t token = (job->begin + p) * together;
    const float *x = job->x + token * job->xStride, *dy = job->dy + token * job->dyStride;
    const int next = together == 2 && token + 1 < job->m;
    for (int64_t row = together * AHEAD_ROWS; row < together * (AHEAD_ROWS + 1); row++) {
      fetch_row(x + row * job->xStride, job->k);
      fetch_row(dy + row * job->dyStride, job->n);
    }
    for (int64_t at = 0; at < job->k; at += LANES) {
      float *to = job->packedX + at / TILE_WIDTH * TILE_WIDTH * job->depth + p * TILE_WIDTH + at % TILE_WIDTH;
      store(to, token_vector(HALF, x + at, next ? x + job->xStride + at : NULL, job->k - at));
    }
    for (int64_t i = 0; i < job->n; i += TILE_ROWS) {
      float *to = job->packedY + i / TILE_ROWS * job->yStep + p * TILE_ROWS;
      // Whole vectors: what is written too far, the next token writes again; past the chunk stands another one's.
      UNROLL for (int j = 0; j < TILE_ROWS; j += LANES) {
        const float *from = dy + i + j;
        vec value = token_vector(HALF, from, next ? from + job->dyStride : NULL, job->n - i - j);
        if (p + 1 < end) store(to + j, value);
        else __builtin_memcpy(to + j, &value, TILE_ROWS - j < LANES ? 4 * (TILE_ROWS - j) : sizeof value);
      }
    }
  }
}
static void pack_tokens_chunk(void *data, int64_t chunk, int thread) {
  (void)thread;
  const GradientJob *job = data;
  if (job->half) pack_tokens(1, job, chunk);
  else pack_tokens(0, job, chunk);
}

/* A chunk is a block of dw. */
static void gradient_chunk(void *data, int64_t chunk, int thread) {
  (void)thread;
  const GradientJob *job = data;
  const int64_t row = chunk / job->panelChunks * job->rowStep, rowEnd = least(job->n, row + job->rowStep);
  const int64_t column = chunk % job->panelChunks * job->panelStep * TILE_WIDTH, depth = job->depth;
  const int64_t columnEnd = least(job->k, column + job->panelStep * TILE_WIDTH);
  const TileFunction *const tiles = job->half ? pairsByColumn : byColumn;
  for (int64_t first = column; first < columnEnd; first += TILE_WIDTH) {
    const float *b = job->packedX + first * depth;
    int64_t width = least(TILE_WIDTH, job->k - first);
    for (int64_t i = row; i < rowEnd; i += TILE_ROWS) {
      const float *a = job->packedY + i / TILE_ROWS * job->yStep;
      int64_t count = least(TILE_ROWS, rowEnd - i);
      float *c = job->dw + i * job->dwStride + first;
      if (width == TILE_WIDTH) tiles[count](depth, a, TILE_ROWS, b, TILE_WIDTH, c, job->dwStride, 0);
      else if (width == PANEL_PART && !job->half)
        panelByColumn[count](depth, a, TILE_ROWS, b, TILE_WIDTH, c, job->dwStride, 0);
      else edge_tile(tiles[count], count, width, TILE_WIDTH, depth, a, TILE_ROWS, b, TILE_WIDTH, c, job->dwStride, 0);
    }
  }
}

/* Tokens (or pairs) of a block: what is packed of them stays in the second-level cache. A multiple of 16, so that tiles
   of dy do not begin a page apart. */
INLINE int64_t gradient_block(int64_t depth, int64_t width) {
  return least(depth, most(64, least(DEPTH_BLOCK, PACKED_FLOATS / width / 16 * 16)));
}

static int32_t op_weightGradient(Call *call) {
  GradientJob job = {call->context};
  job.m = take_size(call);
  job.n = take_size(call);
  job.k = take_size(call);
  job.dyStride = take_stride(call, job.n);
  job.xStride = take_stride(call, job.k);
  job.dwStride = take_stride(call, job.k);
  job.half = take_flag(call);
  job.dy = take_floats(call, span(job.m, job.dyStride, job.n));
  job.x = take_floats(call, span(job.m, job.xStride, job.k));
  job.dw = take_floats(call, span(job.n, job.dwStride, job.k));
  if (call->error || !job.m || !job.n || !job.k) return call->error;
  const int64_t depth = job.half && PAIRS ? divide_up(job.m, 2) : job.m, block = gradient_block(depth, job.n + job.k);
  const int64_t tiles = divide_up(job.n, TILE_ROWS), panels = divide_up(job.k, TILE_WIDTH);
  const int64_t floatsX = panels * TILE_WIDTH * block;
  float *room = (float *)workspace(call->context, 4 * (floatsX + tiles * (block * TILE_ROWS + LANES)));
  if (!room) return WORKSPACE;
  job.packedX = room;
  job.packedY = room + floatsX;
  job.packStep = least(PACKED_AT_ONCE, chunk_items(2 * (job.n + job.k), 1 << 14));
  job.panelStep = least(panels, GRADIENT_COLUMNS / TILE_WIDTH);
  job.rowStep = GRADIENT_ROWS / TILE_ROWS * TILE_ROWS;
  while (divide_up(job.n, job.rowStep) * divide_up(panels, job.panelStep) < 4 * call->context->threads) {
    if (job.rowStep > 4 * TILE_ROWS) job.rowStep = round_up(job.rowStep / 2, TILE_ROWS);
    else if (job.panelStep > 4) job.panelStep = divide_up(job.panelStep, 2);
    else break;
  }
  job.panelChunks = divide_up(panels, job.panelStep);
  for (job.begin = 0; job.begin < depth; job.begin += block) {
    job.depth = least(block, depth - job.begin);
    job.yStep = job.depth * TILE_ROWS + LANES;
    parallel(call->context, divide_up(job.depth, job.packStep), pack_tokens_chunk, &job);
    parallel(call->context, divide_up(job.n, job.rowStep) * job.panelChunks, gradient_chunk, &job);
  }
  return 0;
}

static void bias_chunk(void *data, int64_t chunk, int thread) {
  (void)thread;
  GradientJob *job = data;
  int64_t end = least(job->n, (chunk + 1) * job->panelStep);
  for (int64_t j = chunk * job->panelStep; j < end; j += 4 * LANES) {
    vec sum[4];
    for (int v = 0; v < 4; v++) sum[v] = load_some(job->dw + j + v * LANES, most(0, end - j - v * LANES), 0);
    if (j + 4 * LANES <= end)
      for (int64_t i = 0; i < job->m; i++)
        UNROLL for (int v = 0; v < 4; v++) sum[v] += load(job->dy + i * job->dyStride + j + v * LANES);
    else
      for (int64_t i = 0; i < job->m; i++)
        for (int v = 0; v < 4; v++)
          sum[v] += load_some(job->dy + i * job->dyStride + j + v * LANES, most(0, end - j - v * LANES), 0);
    for (int v = 0; v < 4; v++) store_some(job->dw + j + v * LANES, sum[v], most(0, end - j - v * LANES));
  }
}

static int32_t op_biasGradient(Call *call) {
  GradientJob job = {call->context};
  job.m = take_size(call);
  job.n = take_size(call);
  job.dyStride = take_stride(call, job.n);
  job.dy = take_floats(call, span(job.m, job.dyStride, job.n));
  job.dw = take_floats(call, job.n);
  if (call->error || !job.m || !job.n) return call->error;
  job.panelStep = round_up(chunk_items(job.m, 1 << 16), 4 * LANES);
  parallel(call->context, divide_up(job.n, job.panelStep), bias_chunk, &job);
  return 0;
}
