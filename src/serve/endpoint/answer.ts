/** An answer to a request, before it is written to a connection or handed over in this process. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | ReadableStream<Uint8Array>;
}

export const jsonAnswer = (
  value: object,
  status = 200,
  headers: Readonly<Record<string, string>> = {},
): Answer => ({
  status,
  headers: { 'content-type': 'application/json', ...headers },
  body: JSON.stringify(value),
});

export const responseOf = ({ body, ...init }: Answer): Response => new Response(body, init);
