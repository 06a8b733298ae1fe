/** `rollcall/torch`: the trainer on PyTorch, for real models on GPUs. */
export { type TorchOptions, torch } from '../torch/torch.ts';
