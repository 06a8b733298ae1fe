/** A server that refuses what the contract does not know. It shares nothing with src/. */
import { createServer } from 'node:http';

export class Refusal extends Error {
  /** `body` where the server answers otherwise than with `{error: {message}}`. */
  constructor(status, message, body = { error: { message } }) {
    super(message);
    this.status = status;
    this.body = body;
  }
}

/** Every field of `given` is known, and every one of `required` is there. */
export function checkFields(where, given, required, optional = []) {
  if (typeof given !== 'object' || given === null) throw new Refusal(422, `${where} is not an object`);
  for (const name of Object.keys(given)) {
    if (!required.includes(name) && !optional.includes(name)) {
      throw new Refusal(422, `${where} has the unknown field ${name}`);
    }
  }
  for (const name of required) {
    if (!(name in given)) throw new Refusal(422, `${where} lacks the field ${name}`);
  }
}

/** `routes['POST /path'](body, request, response, query)` returns JSON, or undefined if it answered itself. */
export function listen(routes) {
  const calls = [];
  const server = createServer(async (request, response) => {
    const url = new URL(request.url, 'http://stand-in');
    const name = `${request.method} ${url.pathname}`;
    try {
      if (name === 'GET /stand-in/calls') return answer(response, 200, calls);
      const route = routes[name];
      if (!route) return answer(response, 404, { detail: 'Not Found' }); // as FastAPI says it
      let text = '';
      for await (const chunk of request) text += chunk;
      const body = text === '' ? undefined : JSON.parse(text);
      calls.push({ name, body, query: url.search, headers: request.headers });
      const reply = await route(body, request, response, url.searchParams);
      if (reply !== undefined) answer(response, 200, reply);
    } catch (error) {
      if (!response.headersSent)
        answer(response, error.status ?? 500, error.body ?? { error: { message: error.message } });
      else response.destroy();
    }
  });
  server.listen(Number(process.env.PORT ?? 0), '127.0.0.1', () =>
    console.log(`listening ${server.address().port}`),
  );
}

/** What a route returns whose server answers with its status alone. */
export const EMPTY = Symbol('empty');

function answer(response, status, value) {
  if (value === EMPTY) return response.writeHead(status).end();
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(value));
}

/** Which versions sampled which tokens. */
export function spans(versions) {
  const starts = versions.flatMap((one, at) => (at === 0 || one !== versions[at - 1] ? [at] : []));
  return starts.map((start, at) => ({
    version: versions[start],
    start,
    end: starts[at + 1] ?? versions.length,
  }));
}

export const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
