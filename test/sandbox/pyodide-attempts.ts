/** Ways from Python to the JavaScript around it. Without walls, in a plain Pyodide on Node, each succeeds. */
import type { Attempt } from './attempts.ts';

const reach = (name: string, code: string): Attempt => ({ name, kind: 'reach', code });

/** Finds a JsProxy by whatever means the text says, then asks it for Node's process by the constructor of a function. */
const byConstructor = (name: string, find: string) =>
  reach(
    name,
    `${find}\nprocess = proxy.constructor.constructor('return typeof process === "undefined" ? null : process')()\nprint('REACHED' if process is not None and process.pid else '')`,
  );

export const PYODIDE: readonly Attempt[] = [
  reach('finds process by js', `import js\nprint('REACHED' if js.process.pid else '')`),
  reach('evaluates JavaScript by js', `import js\nprint('REACHED' if js.eval('process.pid') else '')`),
  reach(
    'evaluates JavaScript by run_js',
    `from pyodide.code import run_js\nprint('REACHED' if run_js('process.pid') else '')`,
  ),
  reach(
    'makes a function of JavaScript',
    `import js\nprint('REACHED' if js.Function.new('return process.pid')() else '')`,
  ),
  reach(
    'asks js for a built-in module',
    `import js\nprint('REACHED' if js.process.binding('fs') or js.process.getBuiltinModule else '')`,
  ),
  reach(
    'reads a file by a mounted folder',
    `import pyodide_js\npyodide_js.mountNodeFS('/mnt', 'FOLDER')\nprint('REACHED' if open('/mnt/secret.txt').read() == 'secret' else '')`,
  ),
  reach(
    'reads a file by the file systems of Emscripten',
    `import pyodide_js\nfs = pyodide_js._module.FS\nfs.mkdir('/host')\nfs.mount(fs.filesystems.NODEFS, pyodide_js._api.config.__class__ and __import__('pyodide.ffi', fromlist=['x']).to_js({'root': 'FOLDER'}, dict_converter=__import__('js').Object.fromEntries), '/host')\nprint('REACHED' if open('/host/secret.txt').read() == 'secret' else '')`,
  ),
  reach(
    'writes a file by a mounted folder',
    `import pyodide_js\npyodide_js.mountNodeFS('/mnt', 'FOLDER')\nopen('/mnt/' + 'OUT'.rsplit('/', 1)[1], 'w').write('x')`,
  ),
  reach(
    'evaluates JavaScript by a foreign function',
    `import ctypes\nctypes.CDLL(None).emscripten_run_script(b"process.stdout.write('REACHED')")`,
  ),
  reach('runs a command by a foreign function', `import ctypes\nctypes.CDLL(None).system(b'touch OUT')`),
  reach(
    'finds foreign functions behind the import system',
    `import importlib.machinery as m, _imp\nctypes = _imp.create_builtin(m.ModuleSpec('_ctypes', m.BuiltinImporter))\n_imp.exec_builtin(ctypes)\nhandle = ctypes.dlopen(None, 0)\naddress = ctypes.dlsym(handle, 'emscripten_run_script')\nclass F(ctypes.CFuncPtr):\n  _flags_ = ctypes.FUNCFLAG_CDECL\n  _restype_ = None\nF(address)(b"process.stdout.write('REACHED')")`,
  ),
  byConstructor(
    'finds JavaScript by importlib',
    `import importlib\nproxy = importlib.import_module('js').Object`,
  ),
  byConstructor(
    'finds JavaScript by the core behind the import system',
    `import importlib.machinery as m, _imp, sys\ncore = sys.modules.get('_pyodide_core') or _imp.create_builtin(m.ModuleSpec('_pyodide_core', m.BuiltinImporter))\nproxy = core.to_js([1])`,
  ),
  byConstructor(
    'finds JavaScript in the loaded modules',
    `import sys\nproxy = sys.modules['pyodide_js'].loadPackage`,
  ),
  byConstructor(
    'finds JavaScript by the finders of modules',
    `import sys\nfinder = next(one for one in sys.meta_path if hasattr(one, 'jsproxies'))\nproxy = finder.jsproxies['pyodide_js']`,
  ),
  byConstructor(
    'finds JavaScript among all objects',
    `import gc\nfound = [one for one in gc.get_objects() if type(one).__name__ == 'JsFinder']\nproxy = found[0].jsproxies['pyodide_js'].loadPackage`,
  ),
  byConstructor(
    'finds JavaScript by walking what objects refer to',
    `import gc, sys\nseen, todo, proxy = set(), gc.get_objects(), None\nwhile todo and proxy is None:\n  one = todo.pop()\n  if id(one) in seen: continue\n  seen.add(id(one))\n  if type(one).__name__.startswith('JsProxy') or type(one).__name__ == 'JsCallable': proxy = one\n  else: todo.extend(gc.get_referents(one))`,
  ),
  byConstructor(
    'finds JavaScript by stack frames',
    `import sys\nframe = sys._getframe()\nwhile frame.f_back: frame = frame.f_back\nproxy = frame.f_builtins['__import__']('pyodide_js').loadPackage`,
  ),
  byConstructor(
    'finds JavaScript by the frames of an error',
    `import sys\ntry:\n  import pyodide_js\n  pyodide_js.FS.readFile('/none')\nexcept ImportError: raise\nexcept Exception as error: proxy = error.js_error if hasattr(error, 'js_error') else error.constructor`,
  ),
  byConstructor(
    'finds JavaScript by the subclasses of object',
    `import sys\nowner = next(c for c in object.__subclasses__() if c.__module__.startswith(('pyodide', '_pyodide')))\nproxy = sys.modules['pyodide_js']._api`,
  ),
  reach(
    'asks a server by fetch',
    `import js\npromise = js.eval("(async () => { const answer = await fetch('http://127.0.0.1:PORT'); process.stdout.write(await answer.text() === 'hello' ? 'REACHED' : '') })()")`,
  ),
  reach(
    'opens a socket by js',
    `import js\nsocket = js.eval("import('node:net').then((net) => net.connect(PORT, '127.0.0.1', () => { process.stdout.write('REACHED'); process.exit() }))")`,
  ),
  reach(
    'installs a package from the network',
    `import pyodide_js\nprint('REACHED' if pyodide_js.loadPackage and str(pyodide_js._api.config.cdnUrl).startswith('https:') else '')`,
  ),
  reach(
    'starts a program by js',
    `import js\njs.eval("import('node:child_process').then((one) => one.execSync('touch OUT'))")`,
  ),
  reach(
    'reads the environment by js',
    `import js\nprint('REACHED' if js.process.env.ROLLCALL_SECRET else '')`,
  ),
  reach(
    'leaves work behind in the event loop',
    `import asyncio\nasync def later():\n  await asyncio.sleep(0.05)\n  import js\n  js.process.stdout.write('REACHED')\nasyncio.ensure_future(later())`,
  ),
];
