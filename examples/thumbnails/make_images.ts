/**
 * Draws the images in `images/`, so that they are nobody's but this project's: `deno run -A
 * examples/thumbnails/make_images.ts`.
 *
 * @module
 */
import { mkdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import sharp, { type Sharp } from "sharp";

type Colour = [red: number, green: number, blue: number];

const folder = fileURLToPath(new URL("images/", import.meta.url));

/** A canvas whose every pixel is what `colour` says about its place, from 0 to 1 each way. */
function draw(width: number, height: number, colour: (x: number, y: number) => Colour): Sharp {
  const pixels = new Uint8ClampedArray(width * height * 3);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      pixels.set(colour(x / width, y / height).map((part) => part * 255), (y * width + x) * 3);
    }
  }
  return sharp(pixels, { raw: { width, height, channels: 3 } });
}

/** A Julia set: how fast a point runs away gives its colour. */
function julia(x: number, y: number): Colour {
  let [re, im, steps] = [(x - 0.5) * 3.2, (y - 0.5) * 2, 0];
  while (re * re + im * im < 16 && steps < 120) {
    [re, im] = [re * re - im * im - 0.79, 2 * re * im + 0.15];
    steps++;
  }
  if (steps === 120) return [0.02, 0.03, 0.1];
  const t = Math.sqrt((steps - Math.log2(Math.log2(re * re + im * im))) / 40);
  return [t * 1.2, t * t * 0.9, 0.25 + t * 0.4];
}

/** Waves of three colours over each other. */
function waves(x: number, y: number): Colour {
  const wave = (angle: number, shift: number): number =>
    0.5 +
    0.5 * Math.sin((x * Math.cos(angle) + y * Math.sin(angle)) * 14 + shift + 2 * Math.sin(y * 5 + x * 2));
  return [wave(0.3, 0), wave(1.2, 2) * 0.8, wave(2.2, 4)];
}

/** Hills at dusk, the nearer the darker. */
function hills(x: number, y: number): Colour {
  for (let near = 4; near >= 1; near--) {
    const ridge = 0.3 + near * 0.13 + 0.07 * Math.sin(x * (13 - near * 2) + near * 9) +
      0.02 * Math.sin(x * 41 * near);
    if (y > ridge) return [0.36 - near * 0.08, 0.3 - near * 0.06, 0.45 - near * 0.08];
  }
  const sun = Math.hypot(x - 0.62, (y - 0.3) * 1.4) < 0.07;
  return sun ? [1, 0.93, 0.7] : [0.98 - y * 0.2, 0.62 - y * 0.3, 0.42 + y * 0.3];
}

await mkdir(folder, { recursive: true });
await draw(480, 300, julia).jpeg({ quality: 72, mozjpeg: true }).toFile(`${folder}julia.jpg`);
await draw(300, 225, waves).png({ palette: true, colours: 24, dither: 0 }).toFile(`${folder}waves.png`);
// As a phone held upright stores it: the pixels lie on their side, and a tag says how to turn them.
await draw(480, 720, hills).rotate(270).withMetadata({ orientation: 6 }).jpeg({ quality: 72, mozjpeg: true })
  .toFile(`${folder}hills.jpg`);
