/** A picture in memory: rows from the top, three bytes a pixel. */
export interface Pixels {
  readonly width: number;
  readonly height: number;
  /** [height, width, 3], red, green, blue. */
  readonly rgb: Uint8Array;
}
