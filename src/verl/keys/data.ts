import { flag, number } from '../../lib/setting.ts';
import { always, means, noEffect, notYet, same, type VerlRow, word } from '../row.ts';
import { asList, NO_LIMIT, oneOrMore } from './words.ts';

export const DATA_KEYS: readonly VerlRow[] = [
  means(
    'data.train_files',
    'tasks.files',
    oneOrMore,
    ['a.parquet', ['a.parquet', 'b.parquet']],
    (value) => ({ 'tasks.files': asList(value) }),
    { values: 'a path or a list of paths' },
  ),
  means(
    'data.val_files',
    'validation.files',
    oneOrMore,
    ['a.parquet', ['a.parquet', 'b.parquet']],
    (value) => ({ 'validation.files': asList(value) }),
    { values: 'a path or a list of paths' },
  ),
  same('data.train_batch_size', 'tasksPerStep', [256, 128]),
  same('data.prompt_key', 'tasks.promptKey', ['prompt', 'question']),
  same('data.image_key', 'tasks.imageKey', ['images', 'pictures']),
  same('data.max_prompt_length', 'tasks.maxPromptTokens', [1024, 2048]),
  means(
    'data.max_response_length',
    ['limits.tokensPerTrajectory', 'limits.tokensPerReply'],
    number,
    [1024, 2048],
    (tokens) => ({ 'limits.tokensPerTrajectory': tokens, 'limits.tokensPerReply': tokens }),
    { note: 'all turns together, observations included; one reply may use all of it' },
  ),
  means(
    'data.filter_overlong_prompts',
    'tasks.tooLong',
    flag,
    [true, false],
    (filter, { option }) => ({ 'tasks.tooLong': filter ? 'filter' : option('tasks.tooLong') }),
    { note: 'overrides data.truncation; tool schemas are counted', late: true },
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
    flag,
    [true, false],
    (shuffle, { option }) => ({ 'order.kind': shuffle ? option('order.kind') : 'sequential' }),
    { late: true },
  ),
  same('data.seed', 'seed', [1, 2]),
  means('data.train_max_samples', 'tasks.limit', number, [100, -1], (rows) => ({
    'tasks.limit': rows < 0 ? null : rows,
  })),
  means('data.val_max_samples', 'evaluation.limit', number, [100, -1], (rows) => ({
    'evaluation.limit': rows < 0 ? NO_LIMIT : rows,
  })),
  same('data.need_tools_kwargs', 'tasks.needToolsKwargs', [true, false], {
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
  word(
    'data.sampler.class_name',
    'order.kind',
    {
      RandomCurriculumSampler: 'shuffle',
      EasyToHardSampler: 'easy-to-hard',
      DifficultySampler: 'difficulty',
      ZoneSampler: 'zone',
    },
    {
      note: "verl's RandomCurriculumSampler draws at random and learns nothing from results; for a curriculum choose one of the others, which are ours",
    },
  ),
  noEffect(
    'data.sampler.class_path',
    'a Python module is not loaded; data.sampler.class_name chooses one of the samplers here',
    ['a.py', 'b.py'],
  ),
  always('data.return_raw_chat', true, false, 'messages are always kept beside tokens'),
  always('data.return_multi_modal_inputs', true, false, 'images always travel with their tokens'),
  noEffect('data.dataloader_num_workers', 'rows are read by the run itself', [8, 0]),
  noEffect('data.val_batch_size', 'validation runs all tasks at once, within `concurrency`', [null, 64]),
  always(
    'data.reward_fn_key',
    'data_source',
    'source',
    'the reward of a row is chosen by its column data_source',
  ),
  noEffect('data.filter_overlong_prompts_workers', 'as many as there are cores', [1, 8]),
  noEffect('data.trust_remote_code', 'no code of a model is run', [true, false]),
  noEffect('data.image_patch_size', "the model's own", [14, 16]),
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
