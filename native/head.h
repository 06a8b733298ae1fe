// Ops on rows of logits: the outputs a loss is made of and their gradient, penalties, and sampling.

typedef struct {
  double sum, first, second; // Σ e, Σ e·d, Σ e² with e = exp(d), d = (logit − peak) / temperature
  float peak;                // the highest logit
} RowSums;

/* Sums run by vectors within blocks and in double across them. */
INLINE RowSums row_sums(const float *logits, int64_t vocabulary, float inverseTemperature, const int MOMENTS) {
  vec highest = splat(-__builtin_inff());
  for (int64_t j = 0; j < vocabulary; j += LANES)
    highest = maximum(load_some(logits + j, vocabulary - j, -__builtin_inff()), highest);
  RowSums sums = {0, 0, 0, max_lanes(highest)};
  for (int64_t block = 0; block < vocabulary; block += 1024) {
    vec sum = {0}, first = {0}, second = {0};
    for (int64_t j = block; j < least(vocabulary, block + 1024); j += LANES) {
      vec d = (load_some(logits + j, vocabulary - j, -__builtin_inff()) - sums.peak) * inverseTemperature;
      vec e = exponential(d);
      sum += e;
      if (MOMENTS) {
        first += choose(e > 0.0f, e * d, (vec){0});
        second += e * e;
      }
    }
    sums.sum += sum_lanes_double(sum);
    if (MOMENTS) {
      sums.first += sum_lanes_double(first);
      sums.second += sum_lanes_double(second);
    }
  }
  return sums;
}
static RowSums plain_sums(const float *logits, int64_t vocabulary, float inverseTemperature) {
  return row_sums(logits, vocabulary, inverseTemperature, 0);
}
static RowSums moment_sums(const float *logits, int64_t vocabulary, float inverseTemperature) {
  return row_sums(logits, vocabulary, inverseTemperature, 1);
}
INLINE float row_logprob(const float *logits, int64_t id, float inverseTemperature, const RowSums *sums) {
  return (float)((double)((logits[id] - sums->peak) * inverseTemperature) - logarithm(sums->sum));
}

typedef struct {
  Context *context;
  float *logits;
  const int32_t *targets;
  int64_t rows, vocabulary;
  float inverseTemperature;
  float *logprob, *logsumexp, *entropy, *sumSquares;
  const float *dLogprob, *dEntropy, *dSumSquares;
} LossJob;

static void take_loss(Call *call, LossJob *job) {
  job->context = call->context;
  job->rows = take_size(call);
  job->vocabulary = take_size(call);
  job->inverseTemperature = (float)(1 / take_number(call, 1e-6, 1e6));
  job->logits = take_floats(call, times(job->rows, job->vocabulary));
  job->targets = take_ints(call, job->rows);
  if (call->error) return;
  for (int64_t i = 0; i < job->rows; i++)
    if (job->targets[i] < 0 || job->targets[i] >= job->vocabulary) fail_element(call, 4, i, job->targets[i]);
}

static void loss_chunk(void *data, int64_t row, int thread) {
  (void)thread;
  LossJob *job = data;
  const float *logits = job->logits + row * job->vocabulary;
  int64_t target = job->targets[row];
  if (target < 0 || target >= job->vocabulary) return; // overwritten by this very call
  int moments = job->entropy || job->sumSquares;
  RowSums sums = moments ? moment_sums(logits, job->vocabulary, job->inverseTemperature)
                         : plain_sums(logits, job->vocabulary, job->inverseTemperature);
  double log = logarithm(sums.sum);
  if (job->logprob) job->logprob[row] = row_logprob(logits, target, job->inverseTemperature, &sums);
  if (job->logsumexp) job->logsumexp[row] = (float)((double)sums.peak * job->inverseTemperature + log);
  if (job->entropy) job->entropy[row] = (float)(log - sums.first / sums.sum);
  if (job->sumSquares) job->sumSquares[row] = (float)(sums.second / sums.sum / sums.sum);
}

static int32_t op_lossForward(Call *call) {
  LossJob job = {0};
  take_loss(call, &job);
  job.logprob = take_optional(call, job.rows);
  job.logsumexp = take_optional(call, job.rows);
  job.entropy = take_optional(call, job.rows);
  job.sumSquares = take_optional(call, job.rows);
  if (call->error) return call->error;
  parallel(call->context, job.rows, loss_chunk, &job);
  return 0;
}

/* By z:  d log π_t = δ − π,  dH = −π·(log π + H),  dΣπ² = 2·π·(π − Σπ²);  and dz = dlogits · temperature. */
static void loss_backward_chunk(void *data, int64_t row, int thread) {
  (void)thread;
  LossJob *job = data;
  float *logits = job->logits + row * job->vocabulary;
  int64_t target = job->targets[row];
  if (target < 0 || target >= job->vocabulary) return;
  float scale = job->inverseTemperature, log = job->logsumexp[row];
  float a = job->dLogprob ? job->dLogprob[row] : 0, b = job->dEntropy ? job->dEntropy[row] : 0;
  float c = job->dSumSquares ? job->dSumSquares[row] : 0;
  float entropy = job->dEntropy ? job->entropy[row] : 0, squares = job->dSumSquares ? job->sumSquares[row] : 0;
  if (a == 0 && b == 0 && c == 0) {
    for (int64_t j = 0; j < job->vocabulary; j += LANES) store_some(logits + j, (vec){0}, job->vocabulary - j);
    return;
  }
  for (int64_t j = 0; j < job->vocabulary; j += LANES) {
    int64_t left = job->vocabulary - j;
    vec logp = load_some(logits + j, left, 0) * scale - log, p = exponential(logp);
    vec inner = 2 * c * (p - squares) - a - choose(p > 0.0f, b * (logp + entropy), (vec){0});
    store_some(logits + j, p * inner * scale, left);
  }
  logits[target] += a * scale;
}

static int32_t op_lossBackward(Call *call) {
  LossJob job = {0};
  take_loss(call, &job);
  job.logsumexp = take_floats(call, job.rows);
  job.entropy = take_optional(call, job.rows);
  job.sumSquares = take_optional(call, job.rows);
  job.dLogprob = take_optional(call, job.rows);
  job.dEntropy = take_optional(call, job.rows);
  job.dSumSquares = take_optional(call, job.rows);
  if (job.dEntropy && !job.entropy) fail(call, 6, BAD_ADDRESS);
  if (job.dSumSquares && !job.sumSquares) fail(call, 7, BAD_ADDRESS);
  if (call->error) return call->error;
  parallel(call->context, job.rows, loss_backward_chunk, &job);
  return 0;
}

static int32_t op_penalize(Call *call) {
  int64_t rows = take_size(call), vocabulary = take_size(call), entries = take_size(call);
  float *logits = take_floats(call, times(rows, vocabulary));
  const int32_t *offsets = take_ints(call, rows + 1);
  const int32_t *ids = take_ints(call, entries), *counts = take_ints(call, entries);
  const float *repetition = take_floats(call, rows), *presence = take_floats(call, rows);
  const float *frequency = take_floats(call, rows);
  if (call->error) return call->error;
  for (int64_t r = 0; r < rows; r++)
    if (offsets[r] < 0 || offsets[r + 1] < offsets[r] || offsets[r + 1] > entries)
      return fail_element(call, 4, r, offsets[r]), call->error;
  for (int64_t i = rows ? offsets[0] : 0; rows && i < offsets[rows]; i++)
    if (ids[i] < 0 || ids[i] >= vocabulary) return fail_element(call, 5, i, ids[i]), call->error;
  for (int64_t r = 0; r < rows; r++)
    if (!(repetition[r] > 0)) return fail_element(call, 7, r, repetition[r]), call->error;
  for (int64_t r = 0; r < rows; r++) {
    int64_t first = offsets[r], end = offsets[r + 1];
    for (int64_t i = most(0, first); i < least(entries, end); i++) {
      int64_t id = ids[i];
      if (id < 0 || id >= vocabulary) continue; // overwritten by this very call
      float *logit = logits + r * vocabulary + id;
      *logit = *logit > 0 ? *logit / repetition[r] : *logit * repetition[r];
      if (counts[i] > 0) *logit -= presence[r] + frequency[r] * (float)counts[i];
    }
  }
  return 0;
}

typedef struct {
  Context *context;
  const float *logits, *temperature, *topP, *minP;
  const int32_t *topK, *targets;
  const double *uniform;
  int64_t rows, vocabulary;
  int32_t *ids, *wrong;
  float *logprob;
  uint64_t *candidates; // [threads][vocabulary]
} SampleJob;

// A candidate is one integer that sorts by falling logit and then by rising id.
INLINE uint64_t candidate(float logit, int64_t id) {
  union { float value; uint32_t bits; } u = {logit + 0.0f};
  uint32_t rising = u.bits & 0x80000000u ? ~u.bits : u.bits | 0x80000000u;
  return (uint64_t)~rising << 32 | (uint32_t)id;
}
INLINE int64_t candidate_id(uint64_t value) { return (int64_t)(uint32_t)value; }

static void sift(uint64_t *heap, int64_t at, int64_t count) {
  for (int64_t child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count && heap[child + 1] > heap[child]) child++;
    if (heap[child] <= heap[at]) return;
    uint64_t other = heap[at];
    heap[at] = heap[child];
    heap[child] = other;
  }
}
static void sort(uint64_t *values, int64_t count) {
  for (int64_t at = count / 2 - 1; at >= 0; at--) sift(values, at, count);
  for (int64_t end = count - 1; end > 0; end--) {
    uint64_t other = values[0];
    values[0] = values[end];
    values[end] = other;
    sift(values, 0, end);
  }
}

INLINE double weight_of(const float *logits, int64_t id, float inverseTemperature, float peak) {
  return exponential(splat((logits[id] - peak) * inverseTemperature))[0];
}

/* The id at which the mass of tokens with weight ≥ `floor`, in id order, passes `uniform`. */
static int64_t choose_all(const float *logits, int64_t vocabulary, float inverseTemperature, float peak, float floor,
                          double uniform) {
  double total = 0;
  int64_t chosen = -1;
  for (int pass = 0; pass < 2; pass++) {
    double mass = 0, limit = uniform * total;
    for (int64_t j = 0; j < vocabulary; j += LANES) {
      vec e = exponential((load_some(logits + j, vocabulary - j, -__builtin_inff()) - peak) * inverseTemperature);
      for (int lane = 0; lane < LANES && lane < vocabulary - j; lane++) {
        if (!(e[lane] >= floor) || e[lane] == 0) continue;
        mass += e[lane];
        if (pass) {
          chosen = j + lane;
          if (mass > limit) return chosen;
        }
      }
    }
    total = mass;
  }
  return chosen;
}

/* Ranks, truncates, and chooses among the kept ones in id order. */
static int64_t choose_kept(const float *logits, int64_t vocabulary, float inverseTemperature, const RowSums *sums,
                           int64_t topK, double topP, double minP, double uniform, uint64_t *candidates) {
  int64_t count = 0;
  for (float reach = 8;; reach *= 4) { // only tokens near the top need ranking
    double mass = 0;
    count = 0;
    for (int64_t id = 0; id < vocabulary; id++)
      if (reach > 200 || (logits[id] - sums->peak) * inverseTemperature >= -reach) {
        candidates[count++] = candidate(logits[id], id);
        if (topK >= vocabulary) mass += weight_of(logits, id, inverseTemperature, sums->peak);
      }
    if (count == vocabulary || reach > 200) break;
    if (topK < vocabulary ? count >= topK : mass >= topP * sums->sum) break;
  }
  sort(candidates, count);
  count = least(count, topK);
  double total = 0, mass = 0;
  for (int64_t i = 0; i < count; i++)
    total += weight_of(logits, candidate_id(candidates[i]), inverseTemperature, sums->peak);
  if (topK >= vocabulary) total = sums->sum;
  int64_t kept = 0;
  while (kept < count) {
    double weight = weight_of(logits, candidate_id(candidates[kept]), inverseTemperature, sums->peak);
    if (kept && (weight < minP || weight == 0)) break;
    mass += weight;
    kept++;
    if (topP < 1 && mass >= topP * total) break;
  }
  for (int64_t i = 0; i < kept; i++) candidates[i] = (uint32_t)candidates[i];
  sort(candidates, kept);
  double passed = 0;
  for (int64_t i = 0; i < kept; i++) {
    passed += weight_of(logits, (int64_t)candidates[i], inverseTemperature, sums->peak);
    if (passed > uniform * mass) return (int64_t)candidates[i];
  }
  return (int64_t)candidates[kept - 1];
}

static void sample_chunk(void *data, int64_t row, int thread) {
  SampleJob *job = data;
  const int64_t vocabulary = job->vocabulary;
  const float *logits = job->logits + row * vocabulary;
  float temperature = job->temperature[row], inverse = temperature > 0 ? 1 / temperature : 1;
  RowSums sums = plain_sums(logits, vocabulary, inverse);
  job->wrong[row] = !(sums.sum >= 1 && sums.peak - sums.peak == 0);
  if (job->wrong[row]) return;
  int64_t topK = job->topK[row], chosen = 0;
  double topP = job->topP[row], minP = job->minP[row], uniform = job->uniform[row];
  if (topK <= 0 || topK > vocabulary) topK = vocabulary;
  if (!(temperature > 0)) {
    for (int64_t id = 1; id < vocabulary; id++)
      if (logits[id] > logits[chosen]) chosen = id;
  } else if (topK >= vocabulary && topP >= 1)
    chosen = choose_all(logits, vocabulary, inverse, sums.peak, (float)(minP > 1 ? 1 : minP),
                        uniform);
  else
    chosen = choose_kept(logits, vocabulary, inverse, &sums, topK, topP, minP, uniform,
                         job->candidates + (int64_t)thread * vocabulary);
  if (chosen < 0) chosen = 0;
  job->ids[row] = (int32_t)chosen;
  job->logprob[row] = row_logprob(logits, chosen, inverse, &sums);
}

static int32_t op_sample(Call *call) {
  SampleJob job = {call->context};
  job.rows = take_size(call);
  job.vocabulary = take_whole(call, 1, 0x7fffffff);
  job.logits = take_floats(call, times(job.rows, job.vocabulary));
  job.temperature = take_floats(call, job.rows);
  job.topK = take_ints(call, job.rows);
  job.topP = take_floats(call, job.rows);
  job.minP = take_floats(call, job.rows);
  job.uniform = take_bytes(call, job.rows, 8);
  job.ids = take_ints(call, job.rows);
  job.logprob = take_floats(call, job.rows);
  if (call->error) return call->error;
  for (int64_t r = 0; r < job.rows; r++) {
    if (!(job.temperature[r] == 0 || (job.temperature[r] >= 1e-6f && job.temperature[r] <= 1e6f)))
      return fail_element(call, 3, r, job.temperature[r]), call->error;
    if (!(job.topP[r] > 0)) return fail_element(call, 5, r, job.topP[r]), call->error;
    if (!(job.minP[r] >= 0)) return fail_element(call, 6, r, job.minP[r]), call->error;
    if (!(job.uniform[r] >= 0 && job.uniform[r] < 1)) return fail_element(call, 7, r, job.uniform[r]), call->error;
  }
  int64_t lists = round_up(times(job.rows, 4), 64);
  uint8_t *base = workspace(call->context, plus(lists, times(times(job.vocabulary, 8), call->context->threads)));
  if (!base) return WORKSPACE;
  job.wrong = (int32_t *)base;
  job.candidates = (uint64_t *)(base + lists);
  parallel(call->context, job.rows, sample_chunk, &job);
  for (int64_t r = 0; r < job.rows; r++)
    if (job.wrong[r]) {
      call->context->arguments[DETAILS] = (double)r;
      return fail(call, 2, BAD_ROW), call->error;
    }
  return 0;
}

static void logprobs_chunk(void *data, int64_t row, int thread) {
  (void)thread;
  SampleJob *job = data;
  const float *logits = job->logits + row * job->vocabulary;
  int64_t target = job->targets[row];
  if (target < 0 || target >= job->vocabulary) return; // overwritten by this very call
  float temperature = job->temperature[row], inverse = temperature > 0 ? 1 / temperature : 1;
  RowSums sums = plain_sums(logits, job->vocabulary, inverse);
  job->logprob[row] = row_logprob(logits, target, inverse, &sums);
}

static int32_t op_logprobs(Call *call) {
  SampleJob job = {call->context};
  job.rows = take_size(call);
  job.vocabulary = take_size(call);
  job.logits = take_floats(call, times(job.rows, job.vocabulary));
  job.targets = take_ints(call, job.rows);
  job.temperature = take_floats(call, job.rows);
  job.logprob = take_floats(call, job.rows);
  if (call->error) return call->error;
  for (int64_t r = 0; r < job.rows; r++) {
    if (job.targets[r] < 0 || job.targets[r] >= job.vocabulary)
      return fail_element(call, 3, r, job.targets[r]), call->error;
    if (!(job.temperature[r] == 0 || (job.temperature[r] >= 1e-6f && job.temperature[r] <= 1e6f)))
      return fail_element(call, 4, r, job.temperature[r]), call->error;
  }
  parallel(call->context, job.rows, logprobs_chunk, &job);
  return 0;
}
