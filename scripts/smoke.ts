// Uses a built binary as a user would, in an empty folder, with nothing on the PATH, and no home:
//   deno run -A scripts/smoke.ts dist/queue-bun
// Where root runs this, the binary is run as the user of the image in deploy/Dockerfile, whose commands it takes, too.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  chownSync,
  copyFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { root } from "./runtimes.ts";
import { VERSION } from "../version.ts";

const jobs = `
import { appendFileSync } from "node:fs";
import process from "node:process";

export default {
  crash: { tries: 1, handle: () => process.exit(3) },
  stop: () => {
    process.kill(process.pid, "SIGTERM");
    return new Promise((resolve) => setTimeout(resolve, 100));
  },
  spin: { tries: 1, timeout: 100, handle: () => { for (;;); } },
  greet: (job: { data: { name: string }; attempt: number }) =>
    appendFileSync("greeted.txt", job.data.name + " " + job.attempt),
};
`;

/** Throws where the binary does not do what its user expects. */
export function smoke(binary: string): void {
  const image = readFileSync(join(root, "deploy", "Dockerfile"), "utf8");
  const [, uid, gid] = /^USER (\d+):(\d+)$/m.exec(image)!;
  const user = process.getuid?.() === 0 ? { uid: Number(uid), gid: Number(gid) } : {};
  const folder = mkdtempSync(join(tmpdir(), "queue-smoke-"));
  const program = join(folder, "queue");
  const expect = (status: number, ...args: string[]): string => {
    const answer = spawnSync(program, args, {
      ...user,
      cwd: folder,
      env: { PATH: "", HOME: "/nonexistent" },
      encoding: "utf8",
      timeout: 60_000,
    });
    const seen = `${args.join(" ")}: ${
      answer.error?.message ?? `status ${answer.status ?? answer.signal}`
    }, not ${status}`;
    assert.equal(answer.status, status, `${seen}\n${answer.stdout}${answer.stderr}`);
    return answer.stdout;
  };
  try {
    // To where that user may read it.
    copyFileSync(binary, program);
    if (user.uid !== undefined) chownSync(folder, user.uid, user.gid);
    assert.equal(expect(0, "--version").trim(), VERSION);
    assert.match(expect(0, "queue:work", "--help"), /--stop-when-empty/);
    assert.match(expect(0, "--help"), /queue:dispatch/);
    expect(2, "queue:wrok");

    // The folder has no jobs module yet, so there is nothing that a worker could run.
    expect(2, "queue:work", "--stop-when-empty");

    // What would run code of the folder's own in the binary, or change its settings, must not.
    writeFileSync(join(folder, "bunfig.toml"), 'preload = ["./preload.ts"]\n');
    writeFileSync(join(folder, "preload.ts"), 'throw new Error("preloaded");\n');

    writeFileSync(join(folder, "jobs.ts"), jobs);
    expect(0, "queue:dispatch", "greet", '{"name":"Ada"}');
    assert.equal(existsSync(join(folder, "greeted.txt")), false, "a dispatch alone ran the job");
    expect(0, "queue:work", "--stop-when-empty");
    assert.equal(readFileSync(join(folder, "greeted.txt"), "utf8"), "Ada 1");
    expect(0, "queue:status", "--json");

    // As in a container: the health command, and a worker that is told to stop and exits with 0.
    const [, health] = /^HEALTHCHECK .*CMD (.*)$/m.exec(image)!;
    expect(0, ...JSON.parse(health).slice(1));
    expect(0, "queue:dispatch", "stop");
    assert.match(expect(0, "queue:work", "--grace=60"), /stop .* DONE\n$/);

    // The binary starts itself again for the processes.
    for (const name of ["crash", "spin", "greet"]) expect(0, "queue:dispatch", name, '{"name":"Bob"}');
    const worked = expect(0, "queue:work", "--processes=2", "--stop-when-empty");
    assert.match(worked, /greet .* DONE/);
    assert.equal(readFileSync(join(folder, "greeted.txt"), "utf8"), "Ada 1Bob 1");
    const failed: { name: string; error: string }[] = JSON.parse(expect(0, "queue:failed", "--json")).failed;
    assert.deepEqual(
      failed.map(({ name, error }) => `${name} ${error}`).sort(),
      ["crash crashed: exit 3", "spin timed out after 0.1 s"],
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

if (import.meta.main) {
  smoke(process.argv[2]);
  console.log(`${process.argv[2]} works`);
}
