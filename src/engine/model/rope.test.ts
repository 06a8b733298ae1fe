import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parseRopeScaling, ropeFrequencies, ropeScalingJson } from './rope.ts';

const { cases } = JSON.parse(readFileSync('test/golden/engine/rope.json', 'utf8')) as {
  cases: { given: Record<string, unknown>; frequencies: number[]; attention: number }[];
};

test.each(cases)(
  '$given gives the frequencies that transformers computes',
  ({ given, frequencies, attention }) => {
    const ropeScaling = parseRopeScaling('rope_scaling', given, 131072, 'config.json')!;
    const computed = ropeFrequencies({ ropeBase: 500000, headSize: 128, ropeScaling });
    expect(computed.attention).toBeCloseTo(attention, 6);
    for (const [pair, frequency] of frequencies.entries()) {
      expect(Math.abs(computed.frequencies[pair]! / frequency - 1), `pair ${pair}`).toBeLessThan(1e-5); // torch: float32
    }
    expect(parseRopeScaling('rope_scaling', ropeScalingJson(ropeScaling), 131072, 'config.json')).toEqual(
      ropeScaling,
    );
  },
);

test('what is not implemented or missing is named', () => {
  const parse = (fields: Record<string, unknown>) =>
    parseRopeScaling('rope_scaling', fields, 4096, 'config.json');
  expect(parse({ rope_type: 'default' })).toBeUndefined();
  expect(() => parse({ rope_type: 'longrope' })).toThrow(
    /config\.json: rope_scaling\.rope_type "longrope" is not implemented; default, linear, llama3 and yarn are/,
  );
  expect(() => parse({ type: 'linear' })).toThrow(
    /rope_scaling\.factor is missing; a positive number is needed/,
  );
});
