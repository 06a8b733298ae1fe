import type { GatewayOptions } from '../gateway/gateway.ts';
import type { ServerInfo } from '../inference/server.ts';
import { isOffPolicy, type Mode } from '../modes/mode.ts';

/**
 * What happens to requests in progress when new weights come. Where old and new weights may meet in a trajectory, they are
 * not waited for: they are frozen where servers then say which tokens are of which weights, and else cut and continued.
 */
export function whileUpdatingIn(
  mode: Mode,
  asked: GatewayOptions['whileUpdating'],
  servers: readonly Pick<ServerInfo, 'can'>[],
): GatewayOptions['whileUpdating'] {
  const overlaps = isOffPolicy(mode) && mode.kind !== 'one-step-off';
  if (!overlaps || asked !== 'wait') return asked;
  return servers.every(({ can }) => can.has('pauseKeep') && can.has('versionSpans')) ? 'keep' : 'abort';
}
