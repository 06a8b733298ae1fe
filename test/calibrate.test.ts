/** `npm run bench rollout`: what it measures and forecasts, on a server of which all is known. */
import { simulatedEngine, virtualClock } from 'rollcall/testing';
import { expect, test } from 'vitest';
import { asPlayed, boundSeconds, calibrate, forecast } from '../bench/rollout/calibrate.ts';
import { drawBatch } from '../bench/rollout/draw.ts';
import { playBatch, SCHEDULERS } from '../bench/rollout/play.ts';

const HARDWARE = {
  stepMs: 6,
  sequenceMs: 0.05,
  contextMs: 0.0005,
  prefillMs: 0.02,
  requestMs: 2,
  maxBatch: 64,
  chunkTokens: 8192,
  kvTokens: 500_000,
  prefixCache: true,
};

function simulated() {
  const clock = virtualClock();
  const server = simulatedEngine({
    clock,
    hardware: HARDWARE,
    replyTokens: ({ sampling }) => sampling.maxTokens,
  });
  return { clock, server };
}

function calibrated() {
  const { clock, server } = simulated();
  const probe = { requests: 64, promptTokens: 256, replyTokens: 128 };
  return calibrate(server, { clock, vocabulary: 1000, maxBatch: 64, ...probe });
}

test('a server is measured as it was made', async () => {
  const { hardware, saturatedTokensPerSecond } = await calibrated();
  for (const name of ['stepMs', 'sequenceMs', 'contextMs', 'prefillMs', 'requestMs'] as const) {
    expect(hardware[name]! / HARDWARE[name], name).toBeGreaterThan(0.95);
    expect(hardware[name]! / HARDWARE[name], name).toBeLessThan(1.06);
  }
  // 64 requests, each step 6 + 64 · 0.05 + 64 · 0.0005 · 72 tokens in context on average, is 11.5 ms: 5,560 tokens a second,
  // less the time of prompts and requests.
  expect(saturatedTokensPerSecond).toBeGreaterThan(4500);
  expect(saturatedTokensPerSecond).toBeLessThan(5560);
});

test.each(SCHEDULERS)(
  '%s: the forecast is near what is played, and the bound is above it',
  async (scheduler) => {
    const calibration = await calibrated();
    const plans = drawBatch({
      trajectories: 32,
      turns: 3,
      toolSeconds: 0.5,
      toolSigma: 0.6,
      promptTokens: 256,
      replyTokens: 64,
      resultTokens: 64,
      seed: 1,
    });
    const { clock, server } = simulated();
    const options = { scheduler, seed: 1, vocabulary: 1000, sharesPrefixes: true };
    const { trajectories, trajectoriesPerSecond, failed } = await playBatch(server, plans, {
      ...options,
      clock,
    });
    expect(failed).toBe(0);
    const expected = await forecast(trajectories.map(asPlayed), calibration, options);
    expect(expected / trajectoriesPerSecond).toBeGreaterThan(0.95);
    expect(expected / trajectoriesPerSecond).toBeLessThan(1.05);
    expect(32 / boundSeconds(trajectories, calibration)).toBeGreaterThan(trajectoriesPerSecond);
  },
);
