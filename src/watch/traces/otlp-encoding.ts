import { type Attributes, type HrTime, SpanKind, SpanStatusCode, TraceFlags } from '@opentelemetry/api';
import { ProtobufTraceSerializer } from '@opentelemetry/otlp-transformer';
import { type Resource, resourceFromAttributes } from '@opentelemetry/resources';
import type { TraceSpan } from './trajectory-spans.ts';

/** Spans as the body of an OTLP request, all under one resource. */
export function spanEncoder(
  resource: Readonly<Record<string, string>>,
): (spans: readonly TraceSpan[]) => Uint8Array {
  const made = resourceFromAttributes(resource);
  return (spans) => {
    const body = ProtobufTraceSerializer.serializeRequest(spans.map((span) => readable(span, made)));
    if (body === undefined) throw new Error('spans cannot be encoded');
    return body;
  };
}

type ReadableSpan = Parameters<typeof ProtobufTraceSerializer.serializeRequest>[0][number];

function readable(span: TraceSpan, resource: Resource): ReadableSpan {
  const { traceId, spanId, parentId, name, start, end, error, attributes } = span;
  const contextOf = (id: string) => ({ traceId, spanId: id, traceFlags: TraceFlags.SAMPLED });
  return {
    name,
    kind: SpanKind.INTERNAL,
    spanContext: () => contextOf(spanId),
    ...(parentId === undefined ? {} : { parentSpanContext: contextOf(parentId) }),
    startTime: hrTime(start),
    endTime: hrTime(end),
    duration: hrTime(end - start),
    status:
      error === undefined ? { code: SpanStatusCode.OK } : { code: SpanStatusCode.ERROR, message: error },
    attributes: attributes as Attributes,
    links: [],
    events: [],
    ended: true,
    resource,
    instrumentationScope: { name: 'rollcall' },
    droppedAttributesCount: 0,
    droppedEventsCount: 0,
    droppedLinksCount: 0,
  };
}

function hrTime(milliseconds: number): HrTime {
  const seconds = Math.floor(milliseconds / 1000);
  return [seconds, Math.round((milliseconds - seconds * 1000) * 1e6)];
}
