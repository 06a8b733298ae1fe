import { useMemo, useState } from 'react';
import type { TokenColumns } from '../../src/watch/dashboard/api.ts';
import { short } from './numbers.ts';

export const COLOURINGS = ['role', 'log-prob', 'advantage', 'entropy', 'difference', 'version'] as const;
export type Colouring = (typeof COLOURINGS)[number];

const EXPLAINED: Readonly<Record<Colouring, string>> = {
  role: 'green: sampled and trained; yellow: sampled, not trained; plain: context',
  'log-prob': 'the stronger, the less likely the token was when it was sampled',
  advantage: 'green: made more likely; red: made less likely',
  entropy: 'the stronger, the less certain the policy was',
  difference: 'the stronger, the more the trainer’s log-prob differs from the engine’s',
  version: 'a colour for each version of the weights that sampled',
};

interface StripProps {
  readonly tokens: TokenColumns;
  readonly colouring: Colouring;
  readonly label: string;
  readonly onTurn: (turn: number | undefined) => void;
}

const BLOCK = 256;

/** Every token in the colour of one of its columns; pointing at one, or arrow keys, tell all about it. */
export function TokenStrip({ tokens, colouring, label, onTurn }: StripProps) {
  const [at, setAt] = useState<number>();
  const count = tokens.ids.length;
  const colours = useMemo(() => coloursOf(tokens, colouring), [tokens, colouring]);
  const differing = useMemo(() => differingOf(tokens), [tokens]);
  const select = (next: number | undefined) => {
    setAt(next);
    onTurn(next === undefined ? undefined : tokens.turns[next] || undefined);
  };
  const blocks = Array.from({ length: Math.ceil(count / BLOCK) }, (_, block) => block * BLOCK);
  return (
    <div className="strip">
      <p className="quiet hint">{EXPLAINED[colouring]}</p>
      <div
        className="tokens"
        role="listbox"
        aria-label={label}
        aria-activedescendant={at === undefined ? undefined : `token-${at}`}
        tabIndex={0}
        onPointerOver={(event) => {
          const token = (event.target as HTMLElement).closest('[data-token]');
          if (token) select(Number((token as HTMLElement).dataset['token']));
        }}
        onKeyDown={(event) => {
          const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
          if (by === undefined) return;
          event.preventDefault();
          event.stopPropagation();
          select(Math.max(0, Math.min(count - 1, (at ?? -1) + by)));
        }}
      >
        {blocks.map((start) => (
          <div key={start} className="block">
            {tokens.ids.slice(start, start + BLOCK).map((id, offset) => {
              const token = start + offset;
              return (
                <span
                  key={token}
                  id={`token-${token}`}
                  data-token={token}
                  role="option"
                  aria-selected={token === at}
                  className={`token${token === at ? ' selected' : ''}${differing.has(token) ? ' differs' : ''}`}
                  style={{ background: colours[token] }}
                >
                  {visible(tokens.texts[token], id)}
                </span>
              );
            })}
          </div>
        ))}
      </div>
      <TokenFacts tokens={tokens} at={at} />
      {tokens.retokenised.length > 0 && <Differences tokens={tokens} />}
    </div>
  );
}

const SHOWN_DIFFERENCES = 20;

/** What was sampled, and what encoding its text again would make of it, place by place. */
function Differences({ tokens }: { readonly tokens: TokenColumns }) {
  const { retokenised } = tokens;
  const places = `${retokenised.length} place${retokenised.length === 1 ? '' : 's'}`;
  return (
    <section className="differences" aria-label="Tokens encoded again">
      <p className="tag warn">
        Encoding the text again would give other tokens at {places} (underlined). What was sampled is what is
        trained.
      </p>
      <ul>
        {retokenised.slice(0, SHOWN_DIFFERENCES).map(({ start, end, ids, texts }) => (
          <li key={start}>
            <span className="quiet">token {start}: sampled</span>{' '}
            <Pieces ids={tokens.ids.slice(start, end)} texts={tokens.texts.slice(start, end)} />{' '}
            <span className="quiet">again</span> <Pieces ids={ids} texts={texts} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function Pieces({ ids, texts }: { readonly ids: readonly number[]; readonly texts: readonly string[] }) {
  return ids.map((id, at) => (
    <code key={at} title={JSON.stringify(texts[at] ?? '')}>
      {id} {JSON.stringify(texts[at] ?? '')}
    </code>
  ));
}

const differingOf = ({ retokenised }: TokenColumns) =>
  new Set(
    retokenised.flatMap(({ start, end }) =>
      Array.from({ length: end - start }, (_, offset) => start + offset),
    ),
  );

function TokenFacts({ tokens, at }: { readonly tokens: TokenColumns; readonly at: number | undefined }) {
  if (at === undefined) {
    return (
      <dl className="token-facts" aria-live="polite">
        <div className="quiet">Point at a token, or move with ← →, for its numbers.</div>
      </dl>
    );
  }
  const isSampled = tokens.sampled[at] === 1;
  const rollout = tokens.rolloutLogprobs[at] ?? null;
  const facts: [string, string][] = [
    ['token', `${at} of ${tokens.ids.length}`],
    ['id', String(tokens.ids[at])],
    ['text', JSON.stringify(tokens.texts[at] ?? '')],
    ['role', tokens.trained[at] ? 'sampled, trained' : isSampled ? 'sampled, not trained' : 'context'],
    ['turn', String(tokens.turns[at])],
    ['rollout log-prob', isSampled ? `${short(rollout)} (p ${short(Math.exp(rollout ?? 0))})` : '–'],
    ['trainer log-prob', short(tokens.trainerLogprobs[at])],
    ['entropy', short(tokens.entropies[at])],
    ['advantage', short(tokens.advantages[at])],
    ['version', isSampled ? String(tokens.versions[at]) : '–'],
  ];
  return (
    <dl className="token-facts" aria-live="polite">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A line break is shown, and still breaks. */
function visible(text: string | undefined, id: number): string {
  if (text === undefined) return `${id} `;
  return text === '' ? '·' : text.replaceAll('\n', '⏎\n');
}

function coloursOf(tokens: TokenColumns, colouring: Colouring): (string | undefined)[] {
  const sampledOnly = (column: readonly (number | null)[]) =>
    column.map((value, at) => (tokens.sampled[at] ? value : null));
  const scaled = (column: readonly (number | null)[], name: string) => {
    const most = Math.max(1e-9, ...column.map((value) => Math.abs(value ?? 0)));
    return column.map((value) =>
      value === null || value === 0 ? undefined : mix(name, Math.abs(value) / most),
    );
  };
  switch (colouring) {
    case 'role':
      return tokens.ids.map((_, at) =>
        tokens.trained[at] ? mix('good', 0.55) : tokens.sampled[at] ? mix('warn', 0.55) : undefined,
      );
    case 'log-prob':
      // Five nats (p = 0.7 %) is the strongest, in every trajectory: strips can be compared.
      return sampledOnly(tokens.rolloutLogprobs).map((value) =>
        value === null ? undefined : mix('orange', Math.min(1, -value / 5)),
      );
    case 'advantage': {
      const most = Math.max(1e-9, ...tokens.advantages.map((value) => Math.abs(value ?? 0)));
      return tokens.advantages.map((value, at) =>
        value === null || !tokens.trained[at] || value === 0
          ? undefined
          : mix(value > 0 ? 'good' : 'bad', 0.2 + (0.6 * Math.abs(value)) / most),
      );
    }
    case 'entropy':
      return scaled(sampledOnly(tokens.entropies), 'violet');
    case 'difference':
      return scaled(
        tokens.trainerLogprobs.map((value, at) =>
          value === null || !tokens.sampled[at] ? null : value - (tokens.rolloutLogprobs[at] ?? 0),
        ),
        'bad',
      );
    case 'version':
      return tokens.versions.map((version) =>
        version < 0 ? undefined : `hsl(${(version * 67) % 360} 60% 60% / 0.45)`,
      );
  }
}

const mix = (name: string, share: number) =>
  `color-mix(in srgb, var(--${name}) ${Math.round(share * 80)}%, transparent)`;
