import { expect, test } from 'vitest';
import { encodeLoss } from './protobuf.ts';
import { datumOf } from './wire.ts';

/** Made by the official client, tinker 0.36.0: `forward_backward_request_to_proto(…).SerializeToString(deterministic=True)`. */
const GOLDEN =
  'CgtydW46dHJhaW46MBCsAhpkChAKDgoMAQAAAAIAAABwEQEAEjAKDXRhcmdldF90b2tlbnMSHwoYAgAAAAAAAABwEQEAAAAAAAQAAAAAAAAAGAIiAQMS' +
  'HgoHd2VpZ2h0cxITCgwAAAAAAAAAvwAAoD8YASIBAxpECggKBgoEBwAAABIgCg10YXJnZXRfdG9rZW5zEg8KCAkAAAAAAAAAGAIiAQESFgoHd2Vp' +
  'Z2h0cxILCgQAAIA/GAEiAQEiDWNyb3NzX2VudHJvcHk=';
/** What `forward_only` adds: field 6, true. */
const FORWARD_ONLY = Buffer.of(0x30, 0x01);

test('a batch is the bytes that the official client sends', () => {
  const row = (...ids: number[]) => ({ ids: Int32Array.from(ids), targets: new Uint8Array(ids.length) });
  const data = [
    datumOf(row(1, 2, 70_000, 4), { weights: Float32Array.of(0, 0, -0.5, 1.25) }),
    datumOf(row(7, 9), { weights: Float32Array.of(0, 1) }),
  ];
  const input = { data, loss_fn: 'cross_entropy' } as const;
  const request = { model: 'run:train:0', sequence: 300, input };
  expect(encodeLoss({ ...request, forwardOnly: false }).toString('base64')).toBe(GOLDEN);
  const scored = Buffer.concat([Buffer.from(GOLDEN, 'base64'), FORWARD_ONLY]);
  expect(encodeLoss({ ...request, forwardOnly: true })).toEqual(scored);
});
