/** Ways out of a sandbox, and ways to use up its host. Each is one program; the suite runs it with and without walls. */
export interface Attempt {
  readonly name: string;
  /**
   * `reach`: prints REACHED, or makes the file OUT. `endless`: runs until it is ended. `greedy`: prints TAKEN once it has
   * more than its share. `flood`: prints more than it may.
   */
  readonly kind: 'reach' | 'endless' | 'greedy' | 'flood';
  /** FILE, FOLDER, OUT, PORT, SOCKET, PID, HOST stand for what the host has; RUN is another in every run. */
  readonly code: string;
  /** It goes for what lies beyond the process, and is tried also from outside the interpreter. */
  readonly outside?: boolean;
}

const beyond = (attempt: Attempt): Attempt => ({ ...attempt, outside: true });
const reach = (name: string, code: string): Attempt => ({ name, kind: 'reach', code });
const endless = (name: string, code: string): Attempt => ({ name, kind: 'endless', code });
const greedy = (name: string, code: string): Attempt => ({ name, kind: 'greedy', code });
const flood = (name: string, code: string): Attempt => ({ name, kind: 'flood', code });

export const JAVASCRIPT: readonly Attempt[] = [
  beyond(
    reach(
      'reads a file by require',
      `if (require('fs').readFileSync('FILE', 'utf8') === 'secret') console.log('REACHED')`,
    ),
  ),
  beyond(
    reach(
      'reads a file by import()',
      `import('node:fs').then((fs) => fs.readFileSync('FILE', 'utf8') === 'secret' && console.log('REACHED'))`,
    ),
  ),
  beyond(reach('writes a file', `require('fs').writeFileSync('OUT', 'x')`)),
  beyond(reach('reads the environment', `if (process.env.ROLLCALL_SECRET) console.log('REACHED')`)),
  reach(
    'finds process by the function constructor',
    `if ((() => {}).constructor('return process')().pid) console.log('REACHED')`,
  ),
  reach(
    'finds process by the constructor of a host function',
    `if (console.log.constructor('return process')().pid) console.log('REACHED')`,
  ),
  reach('finds process by this', `if ((function () { return this })().process.pid) console.log('REACHED')`),
  reach('finds process by indirect eval', `if ((0, eval)('process').pid) console.log('REACHED')`),
  reach(
    'lists the globals of a host',
    `if (Object.getOwnPropertyNames(globalThis).some((name) => /^(process|fetch|Buffer|WebSocket)$/.test(name))) console.log('REACHED')`,
  ),
  reach(
    'reads host frames of a stack',
    `Error.prepareStackTrace = (_, frames) => frames; if (new Error().stack.some((frame) => String(frame.getFileName()).startsWith('node:'))) console.log('REACHED')`,
  ),
  reach(
    'reads host names in a stack',
    `try { null.x } catch (error) { if (/node:|\\[eval\\]/.test(error.stack)) console.log('REACHED') }`,
  ),
  beyond(
    reach(
      'asks a server by fetch',
      `fetch('http://127.0.0.1:PORT').then((answer) => answer.text()).then((text) => text === 'hello' && console.log('REACHED'))`,
    ),
  ),
  beyond(
    reach(
      'asks a server by a socket',
      `require('net').connect(PORT, '127.0.0.1', () => { console.log('REACHED'); process.exit() })`,
    ),
  ),
  beyond(
    reach(
      'runs a program',
      `if (require('child_process').execSync('echo hi').length) console.log('REACHED')`,
    ),
  ),
  reach(
    'starts a thread',
    `new (require('worker_threads').Worker)('1', { eval: true }); console.log('REACHED')`,
  ),
  beyond(reach('signals the host', `process.kill(PID, 0); console.log('REACHED')`)),
  reach(
    'loads a built-in module by its loader',
    `if (process.getBuiltinModule || require('module')._load('fs')) console.log('REACHED')`,
  ),
  beyond(
    reach(
      'learns the name of the machine',
      `if (require('os').hostname() === 'HOST') console.log('REACHED')`,
    ),
  ),
  beyond(
    reach(
      'reads the environment of the host process',
      `if (require('fs').readFileSync('/proc/PID/environ').length > 0) console.log('REACHED')`,
    ),
  ),
  beyond(
    greedy(
      'starts processes',
      // They count once they run: on a busy machine those that the boundary ends are there for a while too.
      `const all = Array.from({ length: 4 }, () => require('child_process').spawn(process.execPath, ['-e', 'console.log(1); process.stdin.resume()'])); Promise.all(all.map((one) => new Promise((resolve) => { one.stdout?.on('data', () => resolve(true)); one.on('close', () => resolve(false)); one.on('error', () => resolve(false)) }))).then((began) => { if (began.every(Boolean)) console.log('TAKEN'); process.exit() })`,
    ),
  ),
  beyond(
    reach(
      'asks a server over a socket in the file system',
      `require('net').connect('SOCKET', () => { console.log('REACHED'); process.exit() })`,
    ),
  ),
  endless('loops', 'for (;;);'),
  endless('loops and catches what ends it', 'for (;;) { try { for (;;); } catch {} finally { continue } }'),
  endless('loops in microtasks', 'const again = () => Promise.resolve().then(again); again()'),
  endless('loops in a conversion', 'String({ toString() { for (;;); } })'),
  endless('loops in a comparison', '[2, 1].sort(() => { for (;;); })'),
  endless('loops in a regular expression', `/(a+)+$/.test('a'.repeat(60) + 'b')`),
  endless('loops in a generator', '[...(function* () { for (;;) yield 1; })()].length'),
  endless('loops in a proxy', 'const p = new Proxy({}, { get() { for (;;); } }); p.x'),
  endless('stays by a timer', 'setInterval(() => {}, 10)'),
  endless('waits for memory to change', 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)'),
  beyond(
    greedy(
      'takes memory in arrays',
      'const all = []; for (let i = 0; i < 400; i++) all.push(new Uint8Array(1048576).fill(1)); console.log("TAKEN")',
    ),
  ),
  beyond(greedy('takes memory at once', 'new Uint8Array(512 * 1048576).fill(1); console.log("TAKEN")')),
  greedy(
    'takes memory in a long text',
    `const text = 'x'.repeat(2 ** 28); if (text.lastIndexOf('y') === -1) console.log("TAKEN")`,
  ),
  greedy(
    'takes memory in objects',
    'const all = []; for (let i = 0; i < 2.5e6; i++) all.push({ i, j: i }); console.log("TAKEN")',
  ),
  greedy('takes memory of WebAssembly', 'new WebAssembly.Memory({ initial: 4096 }); console.log("TAKEN")'),
  flood('prints without end', `for (let i = 0; i < 5000; i++) console.log('x'.repeat(1000))`),
  flood('prints one long line', `console.log('x'.repeat(2e6))`),
  flood('prints to the error stream', `for (let i = 0; i < 5000; i++) console.error('x'.repeat(1000))`),
];

export const PYTHON: readonly Attempt[] = [
  reach('reads a file', `print('REACHED' if open('FILE').read() == 'secret' else '')`),
  reach('writes a file', `open('OUT', 'w').write('x')`),
  reach(
    'reads a file by a link',
    `import os\nos.symlink('FILE', '/tmp/link-RUN')\nprint('REACHED' if open('/tmp/link-RUN').read() == 'secret' else '')`,
  ),
  reach(
    'reads a file by the C library',
    `import ctypes\nlibc = ctypes.CDLL(None)\nfd = libc.open(b'FILE', 0)\nprint('REACHED' if fd >= 0 else '')`,
  ),
  reach(
    'reads a file by the root of the host process',
    `print('REACHED' if open('/proc/PID/root' + 'FILE').read() == 'secret' else '')`,
  ),
  reach(
    'reads a file by a shell',
    `import subprocess\nprint('REACHED' if subprocess.run(['/bin/sh', '-c', 'cat FILE'], capture_output=True).stdout == b'secret' else '')`,
  ),
  reach(
    'becomes a shell that reads a file',
    `import os\nos.execv('/bin/sh', ['sh', '-c', 'grep -q secret FILE && echo REACHED'])`,
  ),
  reach(
    'imports a module of the host',
    `import sys\nsys.path.insert(0, 'FOLDER')\nimport hostmodule\nprint('REACHED')`,
  ),
  reach('reads the list of users', `print('REACHED' if 'root' in open('/etc/passwd').read() else '')`),
  reach('lists a folder of the host', `import os\nos.listdir('FOLDER')\nprint('REACHED')`),
  reach(
    'lists the disk of the host',
    `import os\nprint('REACHED' if {'etc', 'var'} & set(os.listdir('/')) else '')`,
  ),
  reach('reads the environment', `import os\nprint('REACHED' if os.environ.get('ROLLCALL_SECRET') else '')`),
  reach(
    'reads the environment of the host process',
    `print('REACHED' if len(open('/proc/PID/environ', 'rb').read()) > 0 else '')`,
  ),
  reach(
    'reads the command line of the host process',
    `print('REACHED' if b'node' in open('/proc/PID/cmdline', 'rb').read() else '')`,
  ),
  reach('signals the host process', `import os\nos.kill(PID, 0)\nprint('REACHED')`),
  reach(
    'asks a server over TCP',
    `import socket\nsocket.create_connection(('127.0.0.1', PORT), 10)\nprint('REACHED')`,
  ),
  reach(
    'asks a server over HTTP',
    `import urllib.request\nprint('REACHED' if urllib.request.urlopen('http://127.0.0.1:PORT', timeout=10).read() == b'hello' else '')`,
  ),
  reach(
    'asks a server over a socket in the file system',
    `import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('SOCKET')\nprint('REACHED')`,
  ),
  reach(
    'learns the name of the machine',
    `import socket\nprint('REACHED' if socket.gethostname() == 'HOST' else '')`,
  ),
  reach(
    'leaves a process behind',
    `import os, time\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0:\n    os.close(0); os.close(1); os.close(2)\n    time.sleep(0.2)\n    open('OUT', 'w').write('x')\n  os._exit(0)`,
  ),
  endless('loops', 'while True: pass'),
  endless(
    'sleeps and ignores what would end it',
    `import signal, time\nfor s in range(1, 30):\n  try: signal.signal(s, signal.SIG_IGN)\n  except (OSError, ValueError): pass\nwhile True: time.sleep(1)`,
  ),
  endless('loops in a regular expression', `import re\nre.match('(a+)+$', 'a' * 60 + 'b')`),
  endless('computes a number that is too long', '10 ** 10 ** 9'),
  greedy('takes memory', `x = bytearray(512 * 1048576)\nprint('TAKEN')`),
  greedy(
    'takes memory by unpacking',
    `import zlib\npacked = zlib.compressobj(1)\ndata = b''.join(packed.compress(bytes(1048576)) for _ in range(200)) + packed.flush()\nprint('TAKEN' if len(zlib.decompress(data)) > 2e8 else '')`,
  ),
  greedy('takes memory in a list', `x = [0] * 80_000_000\nprint('TAKEN')`),
  greedy(
    'makes processes',
    `import os, time\nmade = []\nfor i in range(40):\n  p = os.fork()\n  if p == 0:\n    time.sleep(1.5); os._exit(0)\n  made.append(p)\nprint('TAKEN', flush=True)\nfor p in made: os.kill(p, 9)`,
  ),
  greedy(
    'makes threads',
    `import threading, time\nfor i in range(100): threading.Thread(target=time.sleep, args=(0.3,), daemon=True).start()\nprint('TAKEN')`,
  ),
  greedy(
    'fills the disk',
    `with open('/tmp/big-RUN', 'wb') as f:\n  for i in range(64): f.write(bytes(1048576))\nprint('TAKEN')\nimport os\nos.remove('/tmp/big-RUN')`,
  ),
  greedy('opens files', `files = [open('/dev/null') for i in range(300)]\nprint('TAKEN')`),
  flood('prints without end', `for i in range(5000): print('x' * 1000)`),
  flood('prints to the error stream', `import sys\nfor i in range(5000): print('x' * 1000, file=sys.stderr)`),
];
