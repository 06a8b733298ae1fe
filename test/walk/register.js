// `--import` of a traced run: the functions named in WALK (JSON, names by file) say when they are entered.
import { register } from 'node:module';

register('./hooks.js', import.meta.url, { data: { names: JSON.parse(process.env.WALK ?? '{}') } });
