import { always, elsewhere, means, notYet, same, type VerlRow, word } from '../verl-row.ts';
import { asList, NO_LIMIT } from './words.ts';

export const DATA_KEYS: readonly VerlRow[] = [
  means(
    'data.train_files',
    'tasks.files',
    ['a.parquet', ['a.parquet', 'b.parquet']],
    (value) => ({ 'tasks.files': asList(value) }),
    { seeds: '004', values: 'a path or a list of paths' },
  ),
  means(
    'data.val_files',
    'validation.files',
    ['a.parquet', ['a.parquet', 'b.parquet']],
    (value) => ({ 'validation.files': asList(value) }),
    { seeds: '004', values: 'a path or a list of paths' },
  ),
  same('data.train_batch_size', 'tasksPerStep', [256, 128], { seeds: '004' }),
  same('data.prompt_key', 'tasks.promptKey', ['prompt', 'question']),
  same('data.image_key', 'tasks.imageKey', ['images', 'pictures']),
  same('data.max_prompt_length', 'tasks.maxPromptTokens', [1024, 2048]),
  means(
    'data.max_response_length',
    ['limits.tokensPerTrajectory', 'limits.tokensPerReply'],
    [1024, 2048],
    (tokens: number) => ({ 'limits.tokensPerTrajectory': tokens, 'limits.tokensPerReply': tokens }),
    { note: 'all turns together, observations included; one reply may use all of it' },
  ),
  means(
    'data.filter_overlong_prompts',
    'tasks.tooLong',
    [true, false],
    (filter: boolean, { option }) => ({ 'tasks.tooLong': filter ? 'filter' : option('tasks.tooLong') }),
    { note: 'goes before data.truncation; tool schemas are counted', late: true },
  ),
  word(
    'data.truncation',
    'tasks.tooLong',
    { error: 'error', left: 'left', right: 'right', middle: 'middle' },
    { note: 'cuts the last user message, never the template' },
  ),
  means(
    'data.shuffle',
    'order.kind',
    [true, false],
    (shuffle: boolean, { option }) => ({ 'order.kind': shuffle ? option('order.kind') : 'sequential' }),
    { late: true },
  ),
  same('data.seed', 'seed', [1, 2]),
  means('data.train_max_samples', 'tasks.limit', [100, -1], (rows: number) => ({
    'tasks.limit': rows < 0 ? null : rows,
  })),
  means('data.val_max_samples', 'evaluation.tasks', [100, -1], (rows: number) => ({
    'evaluation.tasks': rows < 0 ? NO_LIMIT : rows,
  })),
  same('data.need_tools_kwargs', 'tasks.needToolsKwargs', [true, false], {
    seeds: '000',
    note: 'also extra_info.need_tools_kwargs in a row',
  }),
  same(
    'data.apply_chat_template_kwargs',
    'chat.templateOptions',
    [{ enable_thinking: false }, { enable_thinking: true }],
    { values: 'a mapping' },
  ),
  same('data.tool_config_path', 'tools.file', ['tools.yaml', 'other.yaml'], {
    note: 'schemas are counted in prompts',
  }),
  same('data.sampler.column', 'order.column', ['difficulty', 'level'], {
    note: 'ours: verl has a sampler class instead',
  }),
  means(
    'data.sampler.class_name',
    ['order.kind'],
    ['RandomCurriculumSampler', 'EasyToHardSampler'],
    (name: string) => ({
      'order.kind': /random/i.test(name)
        ? 'shuffle'
        : /zone/i.test(name)
          ? 'zone'
          : /difficulty/i.test(name)
            ? 'difficulty'
            : 'easy-to-hard',
    }),
    { seeds: '004', note: 'the curriculum script: easy tasks first, by measured success; its name decides' },
  ),
  elsewhere(
    'data.sampler.class_path',
    'a Python module is not loaded; data.sampler.class_name chooses one of the samplers here',
    ['a.py', 'b.py'],
  ),
  always('data.return_raw_chat', true, false, 'messages are always kept beside tokens', '002'),
  always('data.return_multi_modal_inputs', true, false, 'images always travel with their tokens'),
  elsewhere('data.dataloader_num_workers', 'rows are read by the run itself', [8, 0]),
  elsewhere('data.val_batch_size', 'validation runs all tasks at once, within `concurrency`', [null, 64]),
  elsewhere('data.reward_fn_key', 'the column is data_source', ['data_source', 'x']),
  elsewhere('data.filter_overlong_prompts_workers', 'as many as there are cores', [1, 8]),
  elsewhere('data.trust_remote_code', 'no code of a model is run', [true, false]),
  elsewhere('data.image_patch_size', "the model's own", [14, 16]),
  notYet(
    'data.gen_batch_size',
    null,
    512,
    'generating more tasks than a step trains; dynamic sampling refills instead',
  ),
  notYet(
    'data.custom_cls.path',
    null,
    'my.py',
    'a dataset class in Python; write `rollcall data map FILE.ts IN OUT`, or a TypeScript run file',
  ),
  notYet('data.custom_cls.name', null, 'MyDataset', 'a dataset class in Python'),
];
