/** Stands for Node's file functions, which a page has not. */
const none = (): never => {
  throw new Error('a page has no files');
};

export const closeSync = none;
export const existsSync = none;
export const fstatSync = none;
export const fsyncSync = none;
export const mkdirSync = none;
export const openSync = none;
export const readFileSync = none;
export const readSync = none;
export const renameSync = none;
export const writeSync = none;
export const basename = none;
export const dirname = none;
export const join = none;
