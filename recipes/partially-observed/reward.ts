/** Only for a hunt that ran out of turns or tokens: the agent scores all others itself. */
export const compute_score = () => 0;
