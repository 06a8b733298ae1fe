import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { chatmlFormat, familyFormat, templateFile } from '../../test/chat-models.ts';
import { FAMILIES, schemaFor } from '../../test/tool-call-families.ts';
import type { Message } from '../types.ts';

/** What a model may sample as an argument: JSON of any kind, with any characters. */
const value = fc.oneof(
  fc.jsonValue({ maxDepth: 2, stringUnit: 'binary' }),
  fc.constantFrom<unknown>(null, 0.1, 1e-7, 1e21, -0, '\u0000', '\ud800', '\ufdd0', '<|im_end|>', '</think>'),
);
const given = fc.dictionary(fc.string({ unit: 'binary', minLength: 1, maxLength: 6 }), value, {
  maxKeys: 4,
  noNullPrototype: true,
});

describe.each(FAMILIES.filter(({ template }) => template).map((family) => [family.format, family] as const))(
  'the template of %s',
  (_, family) => {
    const { format } = familyFormat(family);
    test('writes calls with null, floats and odd characters, and never throws', () => {
      fc.assert(
        fc.property(given, (args) => {
          const call = { id: 'call_0', name: 'plan', arguments: args };
          const messages: Message[] = [
            { role: 'user', content: 'Go.' },
            { role: 'assistant', content: '', toolCalls: [call] },
          ];
          const answer: Message = { role: 'tool', content: 'ok', toolCallId: 'call_0', name: 'plan' };
          const tools = schemaFor([{ name: 'plan', arguments: {} }]);
          const whole = format.renderPrompt([...messages, answer], tools).ids;
          expect(format.decode(whole)).toContain('plan');
          const request = { ids: whole, replyLength: 0, messages, newMessages: [answer], tools };
          expect(format.extend(request)?.ids.length).toBeGreaterThan(0);
        }),
        { numRuns: 30 },
      );
    });
  },
);

describe('reasoning of an earlier reply', () => {
  const messages: Message[] = [
    { role: 'user', content: 'Go.' },
    { role: 'assistant', content: 'Gone.', reasoning: 'So far so good.' },
    { role: 'user', content: 'Where?' },
  ];
  test.each(['reasoning_content', 'thinking'])('reaches a template that reads it as %s', (name) => {
    const template = templateFile('chatml').replaceAll('message.reasoning_content', `message.${name}`);
    const format = chatmlFormat({ template });
    expect(format.decode(format.renderPrompt(messages, []).ids)).toContain(
      '<think>\nSo far so good.\n</think>',
    );
  });
});
