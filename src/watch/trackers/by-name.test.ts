import { expect, test } from 'vitest';
import { type NamedTrackersOptions, namedTrackers } from './by-name.ts';

const names = (more: Partial<NamedTrackersOptions>) =>
  namedTrackers({
    loggers: [],
    project: 'p',
    experiment: 'e',
    trace: { backend: null, text: false, samplesPerStep: null },
    environment: { MLFLOW_TRACKING_URI: 'http://127.0.0.1:5000', WANDB_API_KEY: 'key' },
    ...more,
  }).map(({ name, tracedTasksPerStep }) =>
    tracedTasksPerStep === undefined ? name : `${name} of ${tracedTasksPerStep} tasks`,
  );

test("loggers by verl's names; console and file need no tracker", () => {
  expect(names({ loggers: ['console', 'file'] })).toEqual([]);
  expect(names({ loggers: ['console', 'wandb', 'mlflow', 'tensorboard'] })).toEqual([
    'wandb',
    'mlflow',
    'tensorboard',
  ]);
  expect(names({ loggers: ['wandb'], environment: { WANDB_MODE: 'offline' } })).toEqual(['wandb']);
  expect(names({ loggers: ['wandb'], environment: { WANDB_MODE: 'disabled' } })).toEqual([]);
});

test('traces by their back end, of a share of the tasks', () => {
  for (const backend of ['mlflow', 'weave', 'otlp']) {
    expect(names({ trace: { backend, text: true, samplesPerStep: 5 } })).toEqual([
      `${backend} traces of 5 tasks`,
    ]);
  }
});

test('what cannot be is refused with what can', () => {
  expect(() => names({ loggers: ['swanlab'] })).toThrow(
    /loggers has "swanlab"; use some of console, file, tensorboard/,
  );
  expect(() => names({ trace: { backend: 'trackio', text: false, samplesPerStep: null } })).toThrow(
    /trace\.backend is "trackio"; use one of mlflow, wandb, weave, otlp/,
  );
  const store = (uri: string) => ({ MLFLOW_TRACKING_URI: uri, PATH: '/nowhere' });
  expect(() => names({ loggers: ['mlflow'], environment: store('sqlite:///mlflow.db') })).toThrow(
    /"sqlite:\/\/\/mlflow\.db" is a database.*pip install mlflow.*MLFLOW_TRACKING_URI=\.\/mlruns/s,
  );
  expect(names({ loggers: ['mlflow'], environment: store('./mlruns') })).toEqual(['mlflow']);
  expect(() =>
    names({ trace: { backend: 'mlflow', text: true, samplesPerStep: null }, environment: store('./mlruns') }),
  ).toThrow(/no traces of ours in a folder.*sqlite:\/\/\/mlflow\.db/s);
});
