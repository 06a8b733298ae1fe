import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { questionsApp } from './questions.ts';

const KEY = '0123456789abcdef';

function setUp() {
  const directory = mkdtempSync(join(tmpdir(), 'rollcall-questions-'));
  const question = { key: KEY, trajectory: 't', interaction: 'human', messages: [], askedAt: '2026-01-01' };
  writeFileSync(join(directory, `${KEY}.question.json`), JSON.stringify(question));
  const app = questionsApp(directory, 'token');
  const headers = { authorization: 'Bearer token', 'content-type': 'application/json' };
  const post = (key: string, body: unknown, more = headers) =>
    app.request(`/questions/${key}`, { method: 'POST', headers: more, body: JSON.stringify(body) });
  return { directory, app, headers, post };
}

test('questions are listed and answered for who has the token', async () => {
  const { app, headers, post, directory } = setUp();
  expect(await (await app.request('/questions', { headers })).json()).toMatchObject([{ key: KEY }]);
  expect((await post(KEY, { text: 'Yes.', rating: 1 })).status).toBe(200);
  expect(JSON.parse(readFileSync(join(directory, `${KEY}.answer.json`), 'utf8'))).toEqual({
    text: 'Yes.',
    done: false,
    rating: 1,
  });
  expect(await (await app.request('/questions', { headers })).json()).toEqual([]);
  expect((await post(KEY, { text: 'No.' })).status).toBe(409);
});

test('no token, a wrong one, a bad body and an unknown question are refused', async () => {
  const { app, headers, post } = setUp();
  expect((await app.request('/questions')).status).toBe(401);
  expect((await post(KEY, { text: 'x' }, { ...headers, authorization: 'Bearer other' })).status).toBe(401);
  expect((await post(KEY, { words: 'x' })).status).toBe(400);
  expect((await post('fedcba9876543210', { text: 'x' })).status).toBe(409);
});
