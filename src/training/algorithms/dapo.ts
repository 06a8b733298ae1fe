import { algorithm } from './define.ts';
import { grpo } from './grpo.ts';

/**
 * DAPO (Decoupled Clip and Dynamic sAmpling Policy Optimization, Yu et al. 2025): GRPO with a higher upper clip, groups
 * without spread replaced by new ones, every token equal, no KL, and, with `overlong`, a soft penalty on length.
 */
export const dapo = algorithm({
  name: 'dapo',
  title: 'DAPO',
  advantage: grpo.definition.advantage,
  fixed: { normalizeByStd: true },
  usual: { clip: [0.2, 0.28], dualClip: 10, dynamicSampling: {} },
});
