import { expect, test } from 'vitest';
import { hideCredentials, hideSecrets, keepNamedSecrets, keepSecret, withoutSecrets } from './secrets.ts';

test('values are kept secret by their names, in every form in which they are written', () => {
  keepNamedSecrets({
    WANDB_API_KEY: 'w4ndb/key+1',
    authorization: 'Bearer bearer-token-1',
    PATH: '/usr/bin:/bin',
    MONKEY_HOUSE: 'not-a-secret',
    tokens: 'not-a-secret',
    DB_PASSWORD: 'short',
  });
  keepSecret('quoted"key');
  expect(hideSecrets('w4ndb/key+1 w4ndb%2Fkey%2B1 {"a":"quoted\\"key"} bearer-token-1')).toBe(
    '[secret] [secret] {"a":"[secret]"} [secret]',
  );
  expect(hideSecrets('/usr/bin:/bin not-a-secret short')).toBe('/usr/bin:/bin not-a-secret short');
});

test('the password of an address is hidden wherever the address stands', () => {
  expect(hideCredentials('connect to http://me:pass@host:80/x failed')).toBe(
    'connect to http://me:[secret]@host:80/x failed',
  );
  expect(withoutSecrets({ urls: ['https://a:b@c'], n: 1, none: null })).toEqual({
    urls: ['https://a:[secret]@c'],
    n: 1,
    none: null,
  });
});
