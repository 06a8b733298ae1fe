/** What the person gave: the mean of the ratings of a dialogue. */
export function compute_score(
  _source: string,
  _solution: string,
  _truth: unknown,
  info: { turn_scores: number[] },
) {
  const ratings = info.turn_scores;
  return ratings.reduce((sum, rating) => sum + rating, 0) / Math.max(1, ratings.length);
}
