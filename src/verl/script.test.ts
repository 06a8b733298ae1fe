import { expect, test } from 'vitest';
import { readScript } from './script.ts';

const read = (text: string, environment: Record<string, string> = { HOME: '/home/me' }) =>
  readScript(text, 'run.sh', {
    environment,
    directory: '/projects/verl',
    now: new Date('2026-03-04T05:06:07Z'),
  });

test('the words that a script gives to the trainer are read as a shell would split them', () => {
  const script = `
# run on 8 GPUs
set -x
ulimit -n 65535
PROJECT_DIR="$(pwd)"
CONFIG_PATH="$PROJECT_DIR/examples/config"
function now() {
    date '+%d-%H-%M'
}
NAME="baseline_$(now)"
max_prompt_length=$((1024 * 2))
TRAIN=\${TRAIN:-"\${HOME}/data"}
python3 -m verl.trainer.main_ppo \\
    --config-path="$CONFIG_PATH" \\
    --config-name='gsm8k_multiturn_grpo' \\
    data.max_prompt_length=\${max_prompt_length} \\
    data.max_response_length=$((max_prompt_length * 2)) \\
    trainer.logger='["console","wandb"]' \\
    data.train_files=$TRAIN/train.parquet \\
    # a comment in between
    trainer.experiment_name=$NAME \\
    trainer.total_epochs=15 $@ > run.log 2>&1 &
`;
  expect(read(script)).toEqual({
    configPath: '/projects/verl/examples/config',
    configName: 'gsm8k_multiturn_grpo',
    overrides: [
      'data.max_prompt_length=2048',
      'data.max_response_length=4096',
      'trainer.logger=["console","wandb"]',
      'data.train_files=/home/me/data/train.parquet',
      'trainer.experiment_name=baseline_2026-03-04-05-06',
      'trainer.total_epochs=15',
    ],
  });
});

test('conditions are passed over, and what only a shell knows is an error with its line', () => {
  const conditional = `if [ "$1" = "x" ]; then
  export VLLM_USE_V1=1
fi
python3 -m verl.trainer.main_ppo a.b="$WORDS"`;
  expect(read(conditional, { WORDS: '[1, 2]' }).overrides).toEqual(['a.b=[1, 2]']);
  expect(() => read('X=1\\npython -m verl.trainer.main_ppo a=$GPUS'.replace('\\n', '\n'))).toThrow(
    'run.sh:2: the variable GPUS is set neither in the script nor in the environment; set it: GPUS=…',
  );
  expect(() => read('python -m verl.trainer.main_ppo a=$(nproc)')).toThrow(
    'run.sh:1: $(nproc) would have to be run',
  );
  expect(() => read('python -m verl.trainer.sft_trainer a=1')).toThrow('does not call verl.trainer.main_ppo');
  expect(() => read("python -m verl.trainer.main_ppo a='1")).toThrow('is not closed');
});
