import type { End } from '../types.ts';

type Failed = Extract<End, { kind: 'failed' }>;

/** Why an attempt failed, in a word for groups and lists, and what to do about it. */
export interface FailureAdvice {
  readonly cause: string;
  readonly suggestion: string;
}

interface Rule extends FailureAdvice {
  readonly boundary?: Failed['boundary'];
  readonly message: RegExp;
}

/** The first rule that fits is taken. */
const RULES: readonly Rule[] = [
  {
    boundary: 'agent',
    message: /^the agent returned without asking the model/,
    cause: 'no model request',
    suggestion:
      'call sample() on a chat of context.model, or send requests to context.endpoint(), in every attempt',
  },
  {
    message: /\bENOSPC\b|no space left/i,
    cause: 'disk full',
    suggestion: 'free some space and continue with --resume; checkpoints.keep sets how many checkpoints stay',
  },
  {
    message: /\bEMFILE\b|too many open files/i,
    cause: 'too many open files',
    suggestion: 'raise the limit (ulimit -n) or lower `concurrency`',
  },
  {
    message: /out of memory|\bOOM\b|\bENOMEM\b|heap limit/i,
    cause: 'out of memory',
    suggestion: 'lower `concurrency`, the context length or the share of memory that the server takes',
  },
  {
    message: /\bECONNREFUSED\b|\bENOTFOUND\b|\bEAI_AGAIN\b|\bEHOSTUNREACH\b/,
    cause: 'cannot be reached',
    suggestion: 'check that the address is right and that what listens there is up',
  },
  {
    message: /\bECONNRESET\b|\bEPIPE\b|socket hang up|other side closed|terminated/i,
    cause: 'connection cut',
    suggestion:
      'look into the log of the other side for the moment of the cut; a proxy may have a time limit',
  },
  {
    message: /\b(401|403)\b|unauthori[sz]ed|api key/i,
    cause: 'not authorised',
    suggestion: 'check the key and that it is passed to this process',
  },
  {
    message: /\b429\b|rate limit|too many requests/i,
    cause: 'rate limit',
    suggestion: 'lower `concurrency`, or give the service a limit with requestLimiter()',
  },
  {
    message: /no answer until time was up/,
    cause: 'no answer in time',
    suggestion:
      'see rollcall servers for the load of the server; raise limits.secondsPerReply if it is only slow',
  },
  {
    message: /timed out|took longer than|time limit|\bETIMEDOUT\b|timeout/i,
    cause: 'time limit',
    suggestion: 'raise the time limit, or find out why it takes so long with the timeline',
  },
  {
    boundary: 'reward',
    message: /finite number|is NaN|Infinity/,
    cause: 'reward is no number',
    suggestion: 'return a finite number from the reward, also where the reply has no answer in it',
  },
];

const BY_BOUNDARY: Readonly<Record<Failed['boundary'], FailureAdvice>> = {
  infrastructure: {
    cause: 'server failed',
    suggestion: 'look at rollcall servers and at the logs in servers/ of the run directory',
  },
  environment: {
    cause: 'environment failed',
    suggestion:
      "a tool's open() failed: try the tool in a program of its own, and look at the service behind it",
  },
  agent: {
    cause: 'agent threw',
    suggestion: 'run it once with rollcall --debug preview FILE, which shows where it threw',
  },
  reward: {
    cause: 'reward failed',
    suggestion: 'score stored trajectories with rollcall score RUN until the reward is mended',
  },
};

export function adviceFor({ boundary, message }: Pick<Failed, 'boundary' | 'message'>): FailureAdvice {
  const rule = RULES.find(
    (one) => (one.boundary === undefined || one.boundary === boundary) && one.message.test(message),
  );
  const { cause, suggestion } = rule ?? BY_BOUNDARY[boundary];
  return { cause, suggestion };
}
