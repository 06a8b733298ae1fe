/**
 * The JavaScript around Python's interpreter. This function runs in a realm of its own, from its source text: it may
 * name nothing but its arguments and the language's own globals. Whatever Python finds of JavaScript is this realm:
 * there is no module loader, no process, no network, and text cannot become code. From the host come functions that
 * take and give numbers and text, and nothing else, because an object would bring the host's realm with it.
 */
export interface Host {
  /** 32 random bits. */
  word(): number;
  now(): number;
  /** Takes what is printed, a character for each byte. */
  write(stream: number, bytes: string): void;
}

export interface WorldParts {
  readonly module: WebAssembly.Module;
  readonly standardLibrary: Uint8Array;
  /** pyodide-lock.json, without packages. */
  readonly lock: string;
  /** A memory in which Python has started and knows `PYTHON_RUNNER`; absent: it starts, which takes seconds. */
  readonly snapshot: Uint8Array | undefined;
  /** Python source, run once before the snapshot is taken. */
  readonly runner: string;
  readonly diskBytes: number;
  readonly openFiles: number;
}

export interface World {
  /** How it ended, as JSON. */
  run(code: string, stdin: string): string;
  snapshot(): Uint8Array;
}

interface MemoryFile {
  usedBytes?: number;
}
interface Operations {
  write(
    stream: { node: MemoryFile },
    buffer: unknown,
    offset: number,
    length: number,
    position: number,
    canOwn?: boolean,
  ): number;
  allocate?: unknown;
}
interface Pyodide {
  runPython(code: string): unknown;
  pyimport(name: string): { run(code: string): string; close_doors(): void };
  makeMemorySnapshot(): Uint8Array;
  setStdin(options: { read(buffer: Uint8Array): number; isatty: boolean }): void;
  setStdout(options: { write(buffer: Uint8Array): number; isatty: boolean }): void;
  setStderr(options: { write(buffer: Uint8Array): number; isatty: boolean }): void;
  readonly FS: {
    MAX_OPEN_FDS: number;
    readonly ErrnoError: new (code: number) => Error;
    readonly streams: ({ node: MemoryFile } | null)[];
    readonly filesystems: {
      readonly MEMFS: {
        ops_table: {
          file: {
            node: { setattr(node: MemoryFile, attributes: { size?: number }): void };
            stream: Operations;
          };
          dir: { node: { unlink(parent: { contents: Record<string, MemoryFile> }, name: string): void } };
        };
      };
    };
  };
  readonly _api: { readonly config: Record<string, unknown> };
}

type Realm = Record<string, unknown> & {
  loadPyodide(options: object): Promise<Pyodide>;
  createPyodideModule: unknown;
};

export function prepareWorld(
  word: Host['word'],
  now: Host['now'],
  write: Host['write'],
): (parts: WorldParts) => Promise<World> {
  const realm = globalThis as unknown as Realm;
  const NO_SPACE = 51;

  class Utf8Decoder {
    decode(given?: Uint8Array): string {
      if (given === undefined) return '';
      const bytes = new Uint8Array(given.buffer, given.byteOffset, given.byteLength);
      const parts: string[] = [];
      let text = '';
      for (let at = 0; at < bytes.length; ) {
        const first = bytes[at++]!;
        const more = first < 0xc0 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
        let code = more === 0 ? first : first & (0x3f >> more);
        for (let i = 0; i < more; i++) code = (code << 6) | (bytes[at++]! & 0x3f);
        text += String.fromCodePoint(code > 0x10ffff ? 0xfffd : code);
        if (text.length > 8192) {
          parts.push(text);
          text = '';
        }
      }
      return parts.join('') + text;
    }
  }
  class Utf8Encoder {
    encode(text: string): Uint8Array {
      const bytes = new Uint8Array(3 * text.length);
      return bytes.slice(0, this.encodeInto(text, bytes).written);
    }
    encodeInto(text: string, bytes: Uint8Array) {
      let at = 0;
      const put = (code: number, shift: number) => {
        bytes[at++] = 0x80 | ((code >> shift) & 0x3f);
      };
      for (const character of text) {
        const code = character.codePointAt(0)!;
        if (code < 0x80) bytes[at++] = code;
        else if (code < 0x800) {
          bytes[at++] = 0xc0 | (code >> 6);
          put(code, 0);
        } else if (code < 0x10000) {
          bytes[at++] = 0xe0 | (code >> 12);
          put(code, 6);
          put(code, 0);
        } else {
          bytes[at++] = 0xf0 | (code >> 18);
          for (const shift of [12, 6, 0]) put(code, shift);
        }
      }
      return { read: text.length, written: at };
    }
  }
  const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
  const randomBase64 = (count: number) => {
    let text = '';
    for (let at = 0; at < count; at += 3) {
      const bits = word();
      for (const [place, shift] of [18, 12, 6, 0].entries()) {
        text += at + place - 1 < count ? LETTERS[(bits >> shift) & 63] : '=';
      }
    }
    return text;
  };
  const latin = (bytes: Uint8Array) => {
    let text = '';
    for (let at = 0; at < bytes.length; at += 8192) {
      text += String.fromCharCode(...bytes.subarray(at, at + 8192));
    }
    return text;
  };
  const say = (...words: unknown[]) =>
    write(2, latin(new Utf8Encoder().encode(`${words.map(String).join(' ')}\n`)));
  // What Pyodide looks for in a JavaScript shell: it runs there without Node and without a browser.
  const refuse = () => {
    throw new Error('there are no files here');
  };
  Object.assign(realm, {
    TextDecoder: Utf8Decoder,
    TextEncoder: Utf8Encoder,
    performance: { now: () => now() },
    console: { log: say, warn: say, error: say },
    read: refuse,
    load: refuse,
    // Its way to random numbers there is a shell command, of which only the count matters.
    os: {
      system: (_: string, words: string[]) => randomBase64(Number(/-c(\d+)/.exec(words[1] ?? '')?.[1] ?? 0)),
    },
    setTimeout: () => 0,
    clearTimeout: () => {},
  });

  // A trace would name the host's files.
  Object.defineProperty(Error, 'prepareStackTrace', { value: undefined });

  /** The disk lies in this realm, outside the memory that is bounded, and has its own bound. */
  function boundDisk({ FS }: Pyodide, diskBytes: number): void {
    const { file, dir } = FS.filesystems.MEMFS.ops_table;
    let used = 0;
    const grow = (node: MemoryFile, size: number) => {
      const more = size - (node.usedBytes ?? 0);
      if (more > 0 && used + more > diskBytes) throw new FS.ErrnoError(NO_SPACE);
      used += more;
    };
    const { write: plainWrite } = file.stream;
    file.stream.write = (stream, buffer, offset, length, position, canOwn) => {
      grow(stream.node, Math.max(stream.node.usedBytes ?? 0, position + length));
      return plainWrite(stream, buffer, offset, length, position, canOwn);
    };
    file.stream.allocate = () => {
      throw new FS.ErrnoError(NO_SPACE);
    };
    const { setattr } = file.node;
    file.node.setattr = (node, attributes) => {
      if (attributes.size !== undefined) grow(node, attributes.size);
      setattr(node, attributes);
    };
    const { unlink } = dir.node;
    dir.node.unlink = (parent, name) => {
      const node = parent.contents[name];
      unlink(parent, name);
      // A file that is still open keeps its place.
      if (node && !FS.streams.some((stream) => stream?.node === node)) used -= node.usedBytes ?? 0;
    };
  }

  return async ({ module, standardLibrary, lock, snapshot, runner, diskBytes, openFiles }) => {
    // An object of the host's realm becomes one of this: nothing of the host is left to be reached by it.
    Object.setPrototypeOf(module, WebAssembly.Module.prototype);
    const library = new Uint8Array(standardLibrary.length);
    library.set(standardLibrary);
    realm['readbuffer'] = (name: string) => (name.endsWith('.zip') ? library : new Uint8Array(0));
    const instantiate = WebAssembly.instantiate as (what: unknown, imports: unknown) => Promise<unknown>;
    Object.assign(WebAssembly, {
      instantiate: async (what: { length?: number }, imports: unknown) =>
        what.length === 0
          ? { instance: await instantiate(module, imports), module }
          : instantiate(what, imports),
    });
    const pyodide = await realm.loadPyodide({
      createPyodideModule: realm.createPyodideModule,
      indexURL: '/pyodide/',
      lockFileContents: JSON.parse(lock),
      jsglobals: {},
      env: { HOME: '/tmp', PYTHONINSPECT: '' },
      ...(snapshot ? { _loadSnapshot: snapshot } : { _makeSnapshot: true }),
    });
    Object.assign(WebAssembly, { instantiate });
    for (const name of ['_loadSnapshot', 'createPyodideModule', 'lockFileContents', 'fsInit']) {
      delete pyodide._api.config[name];
    }
    for (const name of ['readbuffer', 'read', 'load', 'loadPyodide', 'createPyodideModule'])
      delete realm[name];
    if (snapshot === undefined) {
      pyodide.runPython(runner);
      return {
        run: () => '',
        snapshot: () => pyodide.makeMemorySnapshot(),
      };
    }
    boundDisk(pyodide, diskBytes);
    pyodide.FS.MAX_OPEN_FDS = openFiles;
    const box = pyodide.pyimport('_rollcall');
    box.close_doors();
    const printer = (stream: number) => (bytes: Uint8Array) => {
      write(stream, latin(bytes));
      return bytes.length;
    };
    pyodide.setStdout({ write: printer(1), isatty: false });
    pyodide.setStderr({ write: printer(2), isatty: false });
    return {
      run: (code, stdin) => {
        let rest = new Utf8Encoder().encode(stdin);
        const read = (buffer: Uint8Array) => {
          const part = rest.subarray(0, buffer.length);
          buffer.set(part);
          rest = rest.subarray(part.length);
          return part.length;
        };
        pyodide.setStdin({ read, isatty: false });
        try {
          return String(box.run(code));
        } catch (error) {
          say(error); // the interpreter itself gave up
          return 'broken';
        }
      },
      snapshot: () => new Uint8Array(0),
    };
  };
}
