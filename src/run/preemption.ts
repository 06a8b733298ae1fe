/**
 * The reason of an abort that leaves time to save: the machine is wanted by others (SIGTERM). What is in progress is given
 * up at once, and the last finished step gets its checkpoint.
 */
export class Preemption extends Error {
  override readonly name = 'Preemption';

  constructor() {
    super('the run was asked to end (SIGTERM)');
  }
}
