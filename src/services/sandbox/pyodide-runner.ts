/**
 * What Python knows before a program comes: how to run one, and which doors to close first. The doors to JavaScript and
 * to C are closed in Python so that programs get a plain ImportError; what holds is the realm behind them.
 */
export const PYTHON_RUNNER = `
import sys, types

def _make():
    import asyncio, time, traceback, warnings

    closed = {'js', 'pyodide_js', 'pyodide', '_pyodide', '_pyodide_core', 'ctypes', '_ctypes', 'micropip', 'webbrowser'}

    class Closed:
        def find_spec(self, name, path=None, target=None):
            if name.partition('.')[0] in closed:
                raise ModuleNotFoundError(f"No module named {name!r}: it is closed in this sandbox", name=name)

    class Waiting:
        """Stands where a loop has its selector: there is nothing to select, only time to pass."""
        def select(self, timeout=None):
            if timeout is None: raise RuntimeError('everything waits, and nothing can wake it')
            if timeout > 0: time.sleep(timeout)
            return []
        def close(self): pass

    class Loop(asyncio.BaseEventLoop):
        def __init__(self):
            super().__init__()
            self._selector = Waiting()
        def _process_events(self, events): pass
        def _write_to_self(self): pass

    def close_doors():
        for name in list(sys.modules):
            if name.partition('.')[0] in closed: del sys.modules[name]
        sys.meta_path[:] = [Closed()] + [one for one in sys.meta_path if 'pyodide' not in type(one).__module__]
        sys.modules.pop('_rollcall', None)
        # Pyodide's own need the page's event loop, which is not there.
        asyncio.run, time.sleep = asyncio.runners.run, time.sleep.__wrapped__
        asyncio.events._set_running_loop(None)
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            class Policy(asyncio.DefaultEventLoopPolicy):
                def new_event_loop(self): return Loop()
            asyncio.set_event_loop_policy(Policy())

    names = {'__name__': '__main__', '__builtins__': __builtins__}

    def run(code):
        sys.argv = ['program.py']
        try:
            exec(compile(code, 'program.py', 'exec'), names)
            return 'ok'
        except SystemExit as exit:
            if exit.code is None or exit.code == 0: return 'ok'
            if not isinstance(exit.code, int): print(exit.code, file=sys.stderr)
            return 'error'
        except BaseException as error:
            kind = 'memory' if isinstance(error, MemoryError) else 'error'
            trace = error.__traceback__
            traceback.print_exception(type(error), error, trace and trace.tb_next)
            return kind
        finally:
            for stream in (sys.stdout, sys.stderr):
                try: stream.flush()
                except BaseException: pass

    module = types.ModuleType('_rollcall')
    module.close_doors, module.run = close_doors, run
    sys.modules['_rollcall'] = module

_make()
del _make
`;
