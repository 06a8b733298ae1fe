/** The discounted sum of rewards from each token on:  G_t = r_t + γ G_{t+1} */
export function returnsToGo(rewards: Float64Array, discount: number): Float64Array {
  const returns = new Float64Array(rewards.length);
  let next = 0;
  for (let t = rewards.length - 1; t >= 0; t--) {
    next = rewards[t]! + discount * next;
    returns[t] = next;
  }
  return returns;
}
