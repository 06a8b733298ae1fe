import { type Answer, jsonAnswer } from './answer.ts';

/** OpenAI's and Anthropic's fields in one object. */
const POLICY = {
  id: 'policy',
  object: 'model',
  type: 'model',
  display_name: 'policy',
  created: 0,
  created_at: '1970-01-01T00:00:00Z',
  owned_by: 'rollcall',
};

/** The list of models, or the one that is asked for: every name is the policy. */
export function models(path: string): Answer {
  const id = decodeURIComponent(path.slice('/v1/models/'.length));
  if (id !== '') return jsonAnswer({ ...POLICY, id });
  return jsonAnswer({
    object: 'list',
    data: [POLICY],
    has_more: false,
    first_id: POLICY.id,
    last_id: POLICY.id,
  });
}
