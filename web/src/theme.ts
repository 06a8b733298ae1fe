import { useSyncExternalStore } from 'react';

const dark = matchMedia('(prefers-color-scheme: dark)');
let chosen: 'light' | 'dark' | undefined =
  (localStorageItem('theme') as 'light' | 'dark' | null) ?? undefined;
const listeners = new Set<() => void>();

function localStorageItem(name: string): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null; // a report opened from a file may have none
  }
}

function apply(): void {
  document.documentElement.dataset['theme'] = chosen ?? (dark.matches ? 'dark' : 'light');
  for (const listener of listeners) listener();
}
dark.addEventListener('change', apply);
apply();

export function toggleTheme(): void {
  chosen = currentTheme() === 'dark' ? 'light' : 'dark';
  try {
    localStorage.setItem('theme', chosen);
  } catch {
    // not kept, then
  }
  apply();
}

const currentTheme = () => document.documentElement.dataset['theme'] as 'light' | 'dark';

/** Changes with the theme: what is drawn on a canvas must be drawn again. */
export function useTheme(): 'light' | 'dark' {
  return useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, currentTheme);
}

export const cssColour = (name: string) =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** Colours of runs and lines: told apart by people who see no red or green, too (Okabe and Ito). */
const LINES = ['#0b8a6a', '#d55e00', '#3f7fd6', '#cc79a7', '#b58900', '#56b4e9', '#8a63d2', '#777777'];
export const lineColour = (index: number) => LINES[index % LINES.length]!;
