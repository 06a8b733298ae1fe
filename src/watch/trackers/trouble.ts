/** What went wrong, as what follows "the tracker NAME …". */
export function troubleOf(error: unknown): string {
  const { message, cause } = error instanceof Error ? error : new Error(String(error));
  const because = cause instanceof Error && cause.message !== '' ? ` (${cause.message})` : '';
  const told = /^(is|took|answered|cannot) /.test(message);
  return `${told ? '' : 'failed: '}${message}${because}`;
}
