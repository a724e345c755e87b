/**
 * `deno run -A bench/redis/faults.ts`: what becomes of jobs while Redis misbehaves. Two workers of 20 and a dispatcher of
 * about 300 jobs a second in one process (but for the worker that is killed), a lease of 5 s, all else at its defaults; a server of its own for each fault.
 *
 * @module
 */
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { type Job, Queue } from "../../mod.ts";
import { Program } from "../../tests/process.ts";
import { RedisServer } from "../../tests/redis_server.ts";
import { SilentProxy } from "../../tests/silent_proxy.ts";

/** A fault: what to do to the server, and then to undo it. */
interface Fault {
  readonly name: string;
  readonly options?: readonly string[];
  readonly lasts: number;
  /** Whether the first worker is a process of its own; the second one is started when that has been killed. */
  readonly process?: boolean;
  begin(server: RedisServer, proxy: SilentProxy, worker: Program | null): Promise<unknown> | void;
  end?(server: RedisServer, proxy: SilentProxy): Promise<unknown> | void;
}

const AOF = (fsync: string): readonly string[] => ["--appendonly", "yes", "--appendfsync", fsync];

const only = process.argv[2] ?? "";
const FAULTS: readonly Fault[] = [
  {
    name: "kill -9 of a worker",
    lasts: 0,
    process: true,
    begin: (_server, _proxy, worker) => worker!.end("SIGKILL"),
  },
  {
    name: "kill -9 and restart after 2 s, AOF everysec",
    options: AOF("everysec"),
    lasts: 2000,
    begin: (server) => server.signal("SIGKILL"),
    end: (server) => server.start(),
  },
  {
    name: "kill -9 and restart after 2 s, AOF always",
    options: AOF("always"),
    lasts: 2000,
    begin: (server) => server.signal("SIGKILL"),
    end: (server) => server.start(),
  },
  {
    name: "SIGSTOP for 10 s",
    lasts: 10_000,
    begin: (server) => server.signal("SIGSTOP"),
    end: (server) => server.signal("SIGCONT"),
  },
  { name: "SCRIPT FLUSH", lasts: 0, begin: (server) => server.client.script("FLUSH") },
  {
    name: "CLIENT KILL of all",
    lasts: 0,
    begin: (server) => server.client.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"),
  },
  {
    name: "CLIENT PAUSE for 7 s",
    lasts: 7000,
    begin: (server) => server.client.call("CLIENT", "PAUSE", "7000", "ALL"),
  },
  {
    name: "silent connection for 10 s",
    lasts: 10_000,
    begin: (_, proxy) => void (proxy.silent = true),
    end: (_, proxy) => void (proxy.silent = false),
  },
  {
    name: "out of memory for 3 s",
    lasts: 3000,
    begin: (server) => server.client.config("SET", "maxmemory", "1mb"),
    end: (server) => server.client.config("SET", "maxmemory", "0"),
  },
  {
    name: "a replica for 3 s",
    lasts: 3000,
    begin: (server) => server.client.call("REPLICAOF", "127.0.0.1", "1"),
    end: (server) => server.client.call("REPLICAOF", "NO", "ONE"),
  },
];

console.log("| fault | accepted | lost | run twice | refused | of these stored | recovered in |");
console.log("|---|---:|---:|---:|---:|---:|---:|");
for (const fault of FAULTS.filter(({ name }) => name.includes(only))) console.log(await measure(fault));
process.exit(0);

async function measure(
  { name, options = [], lasts, process: apart = false, begin, end }: Fault,
): Promise<string> {
  const server = await RedisServer.start(...options);
  const proxy = await SilentProxy.start(server.port);
  const runs = new Map<string, number>();
  const accepted = new Set<string>();
  const refused = new Set<string>();
  const log = { warn() {}, error() {} };
  const store = {
    database: ":memory:",
    connection: "redis",
    redis: { url: proxy.url, prefix: "app:" },
    retryAfter: { seconds: 5 },
  } as const;
  const ran = (payload: string): void => void runs.set(payload, (runs.get(payload) ?? 0) + 1);
  const queue = new Queue({
    ...store,
    env: {},
    log,
    jobs: {
      record: async (job: Job<string>) => {
        await sleep(5);
        ran(job.payload);
      },
    },
  });
  const worker = apart ? new Program("worker", { ...store, concurrency: 20 }) : null;
  await worker?.says("open");
  const workers = apart ? [] : [queue.start(20), queue.start(20)];
  let count = 0;
  let acceptedAt = 0;
  let ranAt = 0;
  let over = false;
  const dispatching = Promise.all(Array.from({ length: 6 }, async () => {
    while (!over) {
      const payload = String(count++);
      try {
        await queue.dispatch("record", payload);
        accepted.add(payload);
        acceptedAt ||= performance.now();
      } catch {
        refused.add(payload);
      }
      await sleep(20);
    }
  }));
  await sleep(2000);
  if (worker !== null) {
    // So that its slots are full when it is killed.
    const burst = Array.from({ length: 500 }, (_, index) => `burst ${index}`);
    await queue.dispatchMany(burst.map((payload) => ["record", payload]));
    for (const payload of burst) accepted.add(payload);
  }
  await begin(server, proxy, worker);
  if (worker !== null) workers.push(queue.start(20));
  for (const [, payload] of worker?.all("ran") ?? []) ran(payload as string);
  // What the killed worker held runs again once its leases are over.
  const held = worker === null ? [] : [...accepted].filter((payload) => !runs.has(payload));
  await sleep(lasts);
  await end?.(server, proxy);
  const ended = performance.now();
  acceptedAt = 0;
  const before = runs.size;
  while (ranAt === 0 || acceptedAt === 0 || held.some((payload) => !runs.has(payload))) {
    await sleep(5);
    if (ranAt === 0 && runs.size > before) ranAt = performance.now();
    if (performance.now() - ended > 60_000) break;
  }
  const recovered = (worker === null ? Math.max(ranAt, acceptedAt) : performance.now()) - ended;
  await sleep(2000);
  over = true;
  await dispatching;
  for (let left = 300; left > 0 && [...accepted].some((payload) => !runs.has(payload)); left--) {
    await sleep(100);
  }
  await Promise.all(workers.map((worker) => worker.stop()));
  await queue.close();
  await proxy.stop();
  await server.stop();
  const lost = [...accepted].filter((payload) => !runs.has(payload)).length;
  const twice = [...runs.values()].filter((times) => times > 1).length;
  const stored = [...refused].filter((payload) => runs.has(payload)).length;
  return `| ${name} | ${accepted.size} | ${lost} | ${twice} | ${refused.size} | ${stored} | ${
    (recovered / 1000).toFixed(1)
  } s |`;
}
