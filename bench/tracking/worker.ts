/** The servers that `bench/tracking.ts` sends to, on a separate thread. */
import { parentPort } from 'node:worker_threads';
import { mlflowStandIn, wandbStandIn } from '../../test/trackers-stand-ins.ts';

const [mlflow, wandb] = await Promise.all([mlflowStandIn(), wandbStandIn('key')]);
parentPort!.postMessage({ mlflow: mlflow.url, wandb: wandb.url });
