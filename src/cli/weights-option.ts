import { Option } from 'commander';

export const weightsOption = () =>
  new Option(
    '--weights <precision>',
    'how linear layers are held in memory; with int8 products are rounded too',
  )
    .choices(['float32', 'bfloat16', 'int8'])
    .default('float32');
