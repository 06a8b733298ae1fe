import { Option } from 'commander';

export const weightsOption = () =>
  new Option('--weights <precision>', 'how linear layers are held in memory; products are float32 either way')
    .choices(['float32', 'bfloat16'])
    .default('float32');
