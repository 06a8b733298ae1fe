/**
 * Stands in for a Tinker server in tests, with the answers of SkyRL's (test/data/tinker-skyrl-0.3.0.json). Its model is a
 * table of logits by the token before, trained by AdamW in float64. It shares nothing with src/.
 */
import { createServer } from 'node:http';
import { gzipSync } from 'node:zlib';

/** A tar of an adapter's two files, as `tar czf` writes one. */
function archive({ table }) {
  const bytes = Buffer.from(new Float32Array(table).buffer);
  const name = 'base_model.model.model.layers.0.mlp.up_proj.lora_A.weight';
  const header = JSON.stringify({
    [name]: { dtype: 'F32', shape: [table.length], data_offsets: [0, bytes.length] },
  });
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  const files = {
    'adapter_config.json': Buffer.from(JSON.stringify({ peft_type: 'LORA', r: 4, target_modules: null })),
    'adapter_model.safetensors': Buffer.concat([length, Buffer.from(header), bytes]),
  };
  const blocks = Object.entries(files).flatMap(([file, data]) => {
    const head = Buffer.alloc(512);
    head.write(file);
    head.write(data.length.toString(8).padStart(11, '0'), 124);
    head.write('0', 156);
    return [head, data, Buffer.alloc((512 - (data.length % 512)) % 512)];
  });
  return gzipSync(Buffer.concat([...blocks, Buffer.alloc(1024)]));
}

/** The fields of a protobuf message, by number: numbers, or bytes. */
function fieldsOf(bytes) {
  const fields = {};
  let at = 0;
  const varint = () => {
    let value = 0;
    for (let shift = 1; ; shift *= 128) {
      const byte = bytes[at++];
      value += (byte & 127) * shift;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const key = varint();
    let value = varint();
    if (key % 8 === 2) {
      at += value;
      value = bytes.subarray(at - value, at);
    }
    fields[key >> 3] ??= [];
    fields[key >> 3].push(value);
  }
  return fields;
}

/** A `ForwardBackwardRequest` of the service's schema, as its JSON. */
function lossRequest(bytes) {
  const whole = fieldsOf(bytes);
  const numbers = (type, data) => Array.from(new type(Uint8Array.from(data).buffer), Number);
  const data = (whole[3] ?? []).map((datum) => {
    const { 1: chunks, 2: inputs } = fieldsOf(datum);
    const tensors = inputs.map((entry) => {
      const { 1: name, 2: tensor } = fieldsOf(entry);
      const { 1: dense, 3: dtype } = fieldsOf(tensor[0]);
      return [name.toString(), { data: numbers(dtype[0] === 2 ? BigInt64Array : Float32Array, dense[0]) }];
    });
    const tokens = chunks.flatMap((chunk) => numbers(Int32Array, fieldsOf(fieldsOf(chunk)[1][0])[1][0]));
    return { model_input: { chunks: [{ tokens }] }, loss_fn_inputs: Object.fromEntries(tensors) };
  });
  const type = whole[6]?.[0] === 1 ? 'forward' : 'forward_backward';
  const input = { data, loss_fn: whole[4].toString() };
  return { type, model_id: whole[1].toString(), seq_id: whole[2][0], [`${type}_input`]: input };
}

const fail = (status, detail) => Object.assign(new Error(String(detail)), { status, detail });

/**
 * `disk` is a Map that outlives the server, as a folder of checkpoints does. `reduction` is sequence-mean or token-sum.
 * `before(name, request)` is called with each call before it is answered; it may break the connection, or give a status and a
 * body to answer with instead.
 */
export async function startTinker({
  vocabulary = 8,
  reduction = 'sequence-mean',
  disk = new Map(),
  port = 0,
  apiKey,
  before = () => {},
} = {}) {
  const name = (kind) => `${kind}_${Math.random().toString(16).slice(2, 10)}`;
  const sessions = new Set();
  const models = new Map();
  const samplers = new Map();
  const futures = new Map();
  const calls = [];

  /** Models that were made, also those that are unloaded; what is asked of these fails later. */
  const made = new Set();
  const model = (id) => models.get(id) ?? (made.has(id) ? undefined : lost(404, 'Model not found'));
  const lost = (status, detail) => {
    throw fail(status, detail);
  };
  const unloaded = (id) => lost(400, `Model ${id} not loaded (likely stale request from previous server)`);
  const future = (work) => {
    const id = String(futures.size + 1);
    let result;
    try {
      result = { status: 200, answer: work() };
    } catch (error) {
      result = { status: 400, answer: { detail: error.message } };
    }
    futures.set(id, result);
    return { future_id: id, status: 'pending', request_id: id };
  };

  const logprobs = (table, previous) => {
    const row = table.slice(previous * vocabulary, (previous + 1) * vocabulary);
    const top = row.reduce((most, z) => Math.max(most, z), Number.NEGATIVE_INFINITY);
    const total = top + Math.log(row.reduce((sum, z) => sum + Math.exp(z - top), 0));
    return row.map((z) => z - total);
  };

  /** Loss of each token, and its derivative by the token's log-prob. */
  const LOSSES = {
    cross_entropy: (logp, { weights }) => [-weights * logp, -weights],
    importance_sampling: (logp, { weights, logprobs: old, advantages }) => {
      const ratio = Math.exp(logp - old);
      return [-weights * ratio * advantages, -weights * ratio * advantages];
    },
    ppo: (logp, { weights, logprobs: old, advantages }) => {
      const ratio = Math.exp(logp - old);
      const clipped = Math.min(1.2, Math.max(0.8, ratio));
      const isClipped = clipped * advantages < ratio * advantages;
      return [
        -weights * Math.min(ratio * advantages, clipped * advantages),
        isClipped ? 0 : -weights * ratio * advantages,
      ];
    },
  };

  const pass = ({ table, gradient, counts }, { data, loss_fn: kind }, isBackward) => ({
    loss_fn_output_type: 'scalar',
    loss_fn_outputs: data.map(({ model_input, loss_fn_inputs: inputs }) => {
      const tokens = model_input.chunks.flatMap((chunk) => chunk.tokens);
      const weights = inputs.weights?.data ?? tokens.map(() => 1);
      const divisor =
        reduction === 'token-sum'
          ? 1
          : Math.max(
              1e-9,
              weights.reduce((sum, w) => sum + w, 0),
            );
      if (isBackward) counts.sequences++;
      const found = tokens.map((previous, at) => {
        const row = logprobs(table, previous);
        const target = inputs.target_tokens.data[at];
        const given = Object.fromEntries(
          Object.entries(inputs).map(([key, { data: values }]) => [key, values[at]]),
        );
        const [loss, slope] = LOSSES[kind](row[target], { ...given, weights: weights[at] });
        if (isBackward && weights[at] !== 0) {
          row.forEach((logp, next) => {
            const by = (next === target ? 1 : 0) - Math.exp(logp);
            gradient[previous * vocabulary + next] += (slope * by) / divisor;
          });
        }
        return { loss: weights[at] === 0 ? 0 : loss, logprob: row[target] };
      });
      const tensor = (values) => ({ data: values, dtype: 'float32', shape: [values.length] });
      return {
        elementwise_loss: tensor(found.map(({ loss }) => loss)),
        logprobs: tensor(found.map(({ logprob }) => logprob)),
      };
    }),
    metrics: {},
  });

  const step = (
    state,
    { learning_rate: rate, beta1 = 0.9, beta2 = 0.95, eps = 1e-12, weight_decay: decay = 0 },
  ) => {
    const divisor = reduction === 'token-sum' ? 1 : Math.max(1, state.counts.sequences);
    const gradient = state.gradient.map((value) => value / divisor);
    state.steps++;
    state.table.forEach((value, at) => {
      state.first[at] = beta1 * state.first[at] + (1 - beta1) * gradient[at];
      state.second[at] = beta2 * state.second[at] + (1 - beta2) * gradient[at] ** 2;
      const mean = state.first[at] / (1 - beta1 ** state.steps);
      const spread = Math.sqrt(state.second[at] / (1 - beta2 ** state.steps));
      state.table[at] = value - rate * (mean / (spread + eps) + decay * value);
    });
    state.gradient.fill(0);
    state.counts.sequences = 0;
    const norm = Math.sqrt(gradient.reduce((sum, value) => sum + value ** 2, 0));
    return { metrics: { 'skyrl.ai/grad_norm': norm, 'skyrl.ai/learning_rate': rate } };
  };

  const fresh = () => {
    const size = vocabulary * vocabulary;
    const [table, gradient, first, second] = Array.from({ length: 4 }, () => new Float64Array(size));
    for (let at = 0; at < size; at++) table[at] = ((at * 7919) % 13) / 8;
    return { table, gradient, first, second, steps: 0, counts: { sequences: 0 } };
  };

  const sample = (table, { prompt, sampling_params: params, prompt_logprobs: scores }) => {
    const ids = prompt.chunks.flatMap((chunk) => chunk.tokens);
    const start = ids.length;
    let state = params.seed >>> 0;
    const found = [];
    let reason = 'length';
    while (found.length < params.max_tokens) {
      const row = logprobs(table, ids.at(-1) % vocabulary);
      state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9 + ids.length) >>> 0;
      let left = state / 2 ** 32;
      let id =
        params.temperature === 0
          ? row.indexOf(Math.max(...row))
          : row.findIndex((logp) => {
              left -= Math.exp(logp);
              return left < 0;
            });
      if (id < 0) id = vocabulary - 1;
      found.push(row[id]);
      ids.push(id);
      if (params.stop?.includes(id)) {
        reason = 'stop';
        break;
      }
    }
    const before = ids.slice(0, start);
    return {
      sequences: [{ stop_reason: reason, tokens: ids.slice(start), logprobs: found }],
      prompt_logprobs: scores
        ? before.slice(1).map((id, at) => logprobs(table, before[at] % vocabulary)[id])
        : null,
    };
  };

  const stored = (path, kind) => disk.get(`${kind} ${path}`) ?? lost(404, `Checkpoint not found: ${path}`);
  const copy = ({ table, first, second, steps }) => structuredClone({ table, first, second, steps });
  const session = (id) => (sessions.has(id) ? id : lost(404, 'Session not found'));

  const routes = {
    create_session: () => {
      const id = name('session');
      sessions.add(id);
      return {
        type: 'create_session',
        info_message: null,
        warning_message: null,
        error_message: null,
        session_id: id,
      };
    },
    session_heartbeat: ({ session_id: id }) => {
      session(id);
      return { type: 'session_heartbeat' };
    },
    create_model: ({ session_id: id, base_model, lora_config }) => {
      session(id);
      const model_id = name('model');
      const { rank, seed } = lora_config;
      const { request_id } = future(() => {
        models.set(model_id, fresh());
        made.add(model_id);
        const config = { rank, alpha: 32, seed, train_attn: true, train_mlp: true, train_unembed: false };
        return { model_id, base_model, lora_config: config };
      });
      return { model_id, base_model, lora_config: { rank, seed }, status: 'created', request_id };
    },
    forward: ({ model_id: id, forward_input: input }) => {
      const state = model(id);
      return future(() => pass(state ?? unloaded(id), input, false));
    },
    forward_backward: ({ model_id: id, forward_backward_input: input }) => {
      if (!LOSSES[input.loss_fn])
        lost(422, [{ type: 'literal_error', loc: ['body', 'forward_backward_input', 'loss_fn'] }]);
      const state = model(id);
      return future(() => pass(state ?? unloaded(id), input, true));
    },
    optim_step: ({ model_id: id, adam_params: params }) => {
      const state = model(id);
      return future(() => step(state ?? unloaded(id), params));
    },
    save_weights: ({ model_id: id, path: as }) => {
      const path = `tinker://${id}/weights/${as}`;
      if (disk.has(`state ${path}`)) lost(409, `Checkpoint '${as}' already exists for model '${id}'`);
      const state = model(id);
      return future(() => {
        disk.set(`state ${path}`, copy(state ?? unloaded(id)));
        return { path, type: 'save_weights' };
      });
    },
    load_weights: ({ model_id: id, path }) => {
      const saved = stored(path, 'state');
      const state = model(id);
      return future(() => {
        Object.assign(state ?? unloaded(id), copy(saved));
        return { type: 'load_weights' };
      });
    },
    save_weights_for_sampler: ({ model_id: id, path: as }) => {
      const state = model(id);
      return future(() => {
        const path = `tinker://${id}/${as}`;
        disk.set(`sampler ${path}`, copy(state ?? unloaded(id)));
        return { path, type: 'save_weights_for_sampler', sampling_session_id: null };
      });
    },
    create_sampling_session: ({ session_id, model_path, base_model }) => {
      session(session_id);
      const id = name('sampling');
      samplers.set(id, { path: model_path, base: base_model });
      return { type: 'create_sampling_session', sampling_session_id: id };
    },
    asample: (body) => {
      const sampler = samplers.get(body.sampling_session_id) ?? lost(404, 'Sampling session not found');
      return future(() => {
        if (sampler.path === undefined) return sample(fresh().table, body);
        const [, owner] = /^tinker:\/\/([^/]+)\//.exec(sampler.path);
        if (!models.has(owner)) unloaded(owner);
        return sample(stored(sampler.path, 'sampler').table, body);
      });
    },
    unload_model: ({ model_id: id }) => {
      model(id);
      const { request_id } = future(() => {
        models.delete(id);
        return { model_id: id, status: 'unloaded', type: 'unload_model' };
      });
      return { request_id, model_id: id };
    },
    retrieve_future: ({ request_id: id }) => {
      const { status, answer } = futures.get(id) ?? lost(404, 'Future not found');
      if (status !== 200) lost(status, answer.detail);
      return answer;
    },
  };

  const server = createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    const call = request.url.replace('/api/v1/', '');
    const say = (status, value) => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(value));
    };
    try {
      if (call === 'healthz') return say(200, { status: 'ok' });
      if (apiKey && request.headers['x-api-key'] !== apiKey) lost(401, 'Invalid API key');
      if (call === '/openapi.json')
        return say(200, { components: { schemas: { AdamParams: { properties: { eps: {} } } } } });
      const [, run, checkpoint] = /^training_runs\/([^/]+)\/checkpoints\/(.+)\/archive$/.exec(call) ?? [];
      if (run) return response.writeHead(302, { location: `/files/${run}/${checkpoint}` }).end();
      const [, file] = /^\/files\/(.+)$/.exec(call) ?? [];
      if (file) return response.end(archive(stored(`tinker://${file}`, 'sampler')));
      if (!routes[call]) lost(404, 'Not Found');
      const isProtobuf = request.headers['content-type'] === 'application/x-protobuf';
      const body = isProtobuf
        ? lossRequest(Buffer.concat(parts))
        : JSON.parse(Buffer.concat(parts).toString());
      calls.push({ call, body });
      const instead = before(call, request);
      if (instead) return say(...instead);
      const answer = routes[isProtobuf ? body.type : call](body);
      if (!request.socket.destroyed) say(200, answer);
    } catch (error) {
      say(error.status ?? 500, { detail: error.detail ?? error.message });
    }
  });
  server.listen(port, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    port: server.address().port,
    calls,
    /** At once, with connections and all that is not on disk. */
    kill: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}
