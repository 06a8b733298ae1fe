import { defineConfig } from 'vitepress';
import { ENTRIES, pageOf } from '../api-pages.ts';
import { PLACES } from '../make-pages.ts';
import { CHAPTERS } from '../outline.ts';

const chapters = CHAPTERS.map(({ text, pages }) => ({
  text,
  collapsed: false,
  items: pages.map(([file, name]) => ({ text: name, link: `/${PLACES.get(file)}` })),
}));
const recipes = [...PLACES]
  .filter(([file]) => /^recipes\/.+\/README\.md$/.test(file))
  .map(([file, place]) => ({ text: file.split('/')[1]!, link: `/${place}` }));
const api = [...ENTRIES.keys()].map((path) => ({ text: path, link: `/api/${pageOf(path)}.md` }));

export default defineConfig({
  title: 'Rollcall',
  description: 'Train the model behind a tool-using TypeScript agent by reinforcement learning.',
  srcDir: 'pages',
  outDir: 'dist',
  cacheDir: '../node_modules/.cache/vitepress',
  head: [
    [
      'link',
      {
        rel: 'icon',
        href: 'data:image/svg+xml,<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><circle cx="8" cy="8" r="7" fill="%230b6e4f"/></svg>',
      },
    ],
  ],
  ignoreDeadLinks: 'localhostLinks', // addresses in examples; any other dead link fails the build
  themeConfig: {
    search: {
      provider: 'local',
      options: {
        detailedView: true,
        miniSearch: {
          searchOptions: { combineWith: 'AND', boostDocument: (id) => (id.includes('/api/') ? 0.5 : 1) },
        },
      },
    },
    outline: [2, 3],
    nav: [
      { text: 'Guide', link: '/overview.md' },
      { text: 'Recipes', link: '/recipes/index.md' },
      { text: 'API', link: '/api/index.md' },
      { text: 'Coming from verl', link: '/from-verl.md' },
    ],
    sidebar: {
      '/': [{ text: 'Overview', link: '/overview.md' }, ...chapters],
      '/recipes/': [{ text: 'Recipes', link: '/recipes/index.md', items: recipes }],
      '/api/': [{ text: 'API', link: '/api/index.md', items: api }],
    },
  },
});
