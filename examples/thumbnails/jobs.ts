/**
 * A job that makes thumbnails of an image file, with sharp: it is well kept, its binaries come as plain npm packages
 * without install scripts, and it runs on Deno (with `--allow-ffi`), Bun and Node.
 *
 * @module
 */
import { mkdir, rename, rm } from "node:fs/promises";
import { join, parse } from "node:path";
import type { Job, Jobs } from "@x/queue";
import sharp from "sharp";

/** The payload of a `thumbnail` job. A queue carries small things: the path of an image, not the image. */
export interface Thumbnail {
  /** The image: JPEG, PNG, WebP, GIF, AVIF or TIFF. */
  readonly source: string;
  /** Where the thumbnails go. */
  readonly folder: string;
}

/** The longer side of each thumbnail, in pixels. */
export const sizes: readonly number[] = [96, 320];

/** Where the thumbnail of this size goes. */
export function thumbnailPath({ source, folder }: Thumbnail, size: number): string {
  return join(folder, `${parse(source).name}-${size}.webp`);
}

/** Makes a thumbnail in every size. Running twice leaves what running once does. */
async function thumbnail(job: Job<Thumbnail>): Promise<void> {
  await mkdir(job.data.folder, { recursive: true });
  for (const size of sizes) {
    job.signal.throwIfAborted();
    const target = thumbnailPath(job.data, size);
    const unfinished = `${target}.${job.id}-${job.attempt}`;
    try {
      await sharp(job.data.source)
        .autoOrient()
        .resize(size, size, { fit: "inside", withoutEnlargement: true })
        .webp({ quality: 80 })
        .toFile(unfinished);
      // In one step, so that nobody ever sees half an image, whenever this process ends.
      await rename(unfinished, target);
    } finally {
      await rm(unfinished, { force: true });
    }
  }
}

const jobs = {
  thumbnail: { handle: thumbnail, timeout: { seconds: 30 } },
} satisfies Jobs;

export default jobs;
