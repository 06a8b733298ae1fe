/** What our tests, and our users' tests, run against. */
export {};
