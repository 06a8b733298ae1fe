import { existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { Command } from 'commander';
import type { Tool, ToolBox } from '../agent/tool.ts';
import { ConfigError } from '../errors.ts';
import { loadExport } from '../lib/load-export.ts';
import { loadOptional } from '../lib/optional-package.ts';
import { loadToolFile, loadToolModule } from '../verl/tool-file.ts';
import { port, positive } from './number.ts';

export function registerTools(program: Command): void {
  const tools = program.command('tools').description('what agents can call');
  tools
    .command('list')
    .description('the tools of a file, as a model sees them')
    .argument('<file>', 'a tool YAML, a module (all tools it exports), or path.ts#export')
    .action(async (file: string) => {
      const box = await openTools(file);
      console.log(
        JSON.stringify(
          box.tools.map(({ schema }) => schema),
          null,
          2,
        ),
      );
      await box.close();
    });
  tools
    .command('serve')
    .description('offers the tools of a file as an MCP server: on stdin and stdout, or over HTTP')
    .argument('<file>', 'a tool YAML, a module (all tools it exports), or path.ts#export')
    .option('--http <port>', 'streamable HTTP on 127.0.0.1; 0 takes a free port', port)
    .option('--idle-minutes <minutes>', 'an HTTP session silent for this long is closed', positive, 60)
    .action(async (file: string, { http, idleMinutes }: { http?: number; idleMinutes: number }) => {
      const { serveToolsOnHttp, serveToolsOnStdio } = await loadOptional(
        'Offering tools as an MCP server',
        ['@modelcontextprotocol/node', '@modelcontextprotocol/server'],
        () => import('../agent/mcp-server.ts'),
      );
      const box = await openTools(file);
      const served =
        http === undefined
          ? await serveToolsOnStdio(box.tools)
          : await serveToolsOnHttp(box.tools, {
              port: http,
              idleMs: 60_000 * idleMinutes,
            });
      if (served.url !== undefined) console.log(`serving ${box.tools.length} tools at ${served.url}`);
      await new Promise<void>((stop) => {
        for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop());
        if (http === undefined) process.stdin.once('close', () => stop());
      });
      await served.close();
      await box.close();
    });
}

async function openTools(file: string): Promise<ToolBox> {
  if (!file.includes('#')) {
    if (!existsSync(file)) throw new ConfigError(`there is no tool file ${resolve(file)}`);
    if (/\.m?[jt]s$/.test(file)) return loadToolModule(resolve(file), process.cwd(), file);
    return loadToolFile(file);
  }
  const [path, name] = file.split('#');
  const exported = await loadExport(`${resolve(path!)}#${name}`, dirname(resolve(path!)), file);
  const list = Array.isArray(exported) ? exported : [exported];
  if (!list.every((one): one is Tool => (one as Tool | undefined)?.kind === 'tool')) {
    throw new ConfigError(`${file} is neither a tool nor a list of tools, as tool() makes them`);
  }
  return { tools: list, close: async () => {} };
}
