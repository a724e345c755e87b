import assert from "node:assert/strict";
import { describe, it, test } from "node:test";
import { widthOf } from "../cli/width.ts";
import { alertsOf, alertText } from "../cli/monitor/alerts.ts";
import { bar, perSecond, signed, sparkline } from "../cli/monitor/cells.ts";
import { History } from "../cli/monitor/history.ts";
import { keysIn } from "../cli/monitor/keys.ts";
import type { Look } from "../cli/monitor/look.ts";
import { record, report, watchLines } from "../cli/monitor/plain.ts";
import { render, type View } from "../cli/monitor/screen.ts";
import { Watcher } from "../cli/monitor/watcher.ts";
import { SqliteDriver } from "../drivers/sqlite.ts";
import { type FailedJob, Queue, type QueueCounts, QueueError, type WorkerInfo } from "../mod.ts";
import { VERSION } from "../version.ts";
import { Screen } from "./screen.ts";
import { changed, inSession } from "./session.ts";

const NOW = new Date(2026, 11, 1, 12, 4, 5).getTime();

function counts(queue: string, changes: Partial<QueueCounts> = {}): QueueCounts {
  return { queue, ready: 0, delayed: 0, reserved: 0, failed: 0, oldest: null, ...changes };
}

function worker(changes: Partial<WorkerInfo> = {}): WorkerInfo {
  return {
    id: "w1",
    host: "web1",
    pid: 4242,
    startedAt: NOW - 3_600_000,
    seenAt: NOW,
    queues: null,
    concurrency: 10,
    processed: 100,
    busy: 0,
    running: [],
    names: ["mail", "thumbnail"],
    version: VERSION,
    ...changes,
  };
}

function found(changes: Partial<Look> = {}): Look {
  return {
    at: NOW,
    queues: [],
    paused: { all: false, queues: [] },
    workers: [worker()],
    progress: new Map(),
    failures: [],
    ...changes,
  };
}

function failure(id: string, error: string): FailedJob {
  const job = {
    name: "mail",
    payload: "{}",
    queue: "default",
    priority: 0,
    attempts: 3,
    stack: null,
    history: [],
  };
  return { ...job, id, error, failedAt: NOW - 60_000 };
}

describe("an alert", () => {
  const said = (look: Partial<Look>, limits: Parameters<typeof alertsOf>[1] = {}): string[] =>
    alertsOf(found(look), limits).map((alert) => `${alert.kind} ${alert.queue} ${alertText(alert)}`);

  it("is not raised where nothing is wrong", () => {
    const queues = [counts("a", { ready: 5, oldest: NOW - 1000, failed: 7 }), counts("b", { delayed: 9 })];
    assert.deepEqual(said({ queues }, { max: 5, oldest: 1000 }), []);
    assert.deepEqual(said({ queues: [] }), []);
  });

  it("says that more jobs are ready than the limit", () => {
    assert.deepEqual(said({ queues: [counts("a", { ready: 6 }), counts("b", { ready: 5 })] }, { max: 5 }), [
      "max a in a 6 jobs wait, more than 5: start more workers, or see what holds up those that run",
    ]);
    assert.equal(said({ queues: [counts("a", { ready: 1 })] }, { max: 0 }).length, 1, "0 is a limit");
  });

  it("says that a job has been ready for longer than the limit", () => {
    const queues = [counts("a", { ready: 1, oldest: NOW - 300_001 }), counts("b", { ready: 1 })];
    assert.deepEqual(said({ queues }, { oldest: 300_000 }), [
      "oldest a in a a job has been waiting for 5 m, longer than 5 m: start more workers, or see what holds up those that run",
    ]);
  });

  it("says that a queue is paused while jobs are ready, and not while there are none", () => {
    const queues = [counts("a", { ready: 1 }), counts("b", { delayed: 3 }), counts("c", { ready: 2 })];
    assert.deepEqual(said({ queues, paused: { all: false, queues: ["a", "b"] } }), [
      "paused a a is paused, and 1 job waits: queue:resume --queue=a lets workers go on",
    ]);
    assert.deepEqual(said({ queues, paused: { all: true, queues: ["a"] } }), [
      "paused null every queue is paused, and 3 jobs wait: queue:resume lets workers go on",
    ]);
  });

  it("says that no worker serves a queue, unless that is paused or nothing is ready", () => {
    const queues = [counts("a", { ready: 1 }), counts("b", { ready: 2 }), counts("c", { delayed: 1 })];
    const paused = { all: false, queues: ["b"] };
    assert.deepEqual(said({ queues, workers: [worker({ queues: ["a", "b"] })] }), []);
    assert.deepEqual(said({ queues, workers: [worker({ queues: ["a"] }), worker({ queues: ["c"] })] }), [
      "workers b no worker serves b, and 2 jobs wait: start queue:work --queue=b, or add it to the queues of a worker",
    ]);
    assert.deepEqual(said({ queues, workers: [], paused }), [
      "paused b b is paused, and 2 jobs wait: queue:resume --queue=b lets workers go on",
      "workers null no worker is alive, and 1 job waits: start queue:work",
    ]);
    assert.deepEqual(said({ queues: [counts("c", { delayed: 1 })], workers: [] }), []);
  });
});

describe("the history", () => {
  it("tells by how much a queue grows a second, over the last 10 s", () => {
    const history = new History();
    assert.equal(history.trend("a"), null, "no look");
    history.add(found({ at: NOW, queues: [counts("a", { ready: 1000 })] }));
    assert.equal(history.trend("a"), null, "one look has no direction");
    history.add(found({ at: NOW + 5000, queues: [counts("a", { ready: 20 })] }));
    assert.equal(history.trend("a"), -196);
    history.add(found({ at: NOW + 15_000, queues: [counts("a", { ready: 50 })] }));
    assert.equal(history.trend("a"), 3, "the first look is too long ago");
    assert.equal(history.trend("b"), 0, "a queue that has nothing does not move");
    assert.deepEqual(history.ready("a"), [1000, 20, 50]);
  });

  it("keeps no more looks than a line can show", () => {
    const history = new History();
    for (let at = 0; at < 500; at++) {
      history.add(found({ at: NOW + at, queues: [counts("a", { ready: at })] }));
    }
    assert.equal(history.ready("a").length, 60);
    assert.equal(history.ready("a").at(-1), 499);
  });

  it("tells how many attempts the workers end a second, between their heartbeats", () => {
    const history = new History();
    const look = (...workers: WorkerInfo[]): void => history.add(found({ workers }));
    look(worker());
    assert.equal(history.rate(), null, "one heartbeat has no rate");
    look(worker());
    assert.equal(history.rate(), null, "the same heartbeat once more");
    look(worker({ seenAt: NOW + 10_000, processed: 150 }));
    assert.equal(history.rate(), 5);
    look(
      worker({ seenAt: NOW + 10_000, processed: 150 }),
      worker({ id: "w2", seenAt: NOW, processed: 9000 }),
    );
    assert.equal(history.rate(), 5, "what the second one did before is not known");
    look(
      worker({ seenAt: NOW + 20_000, processed: 150 }),
      worker({ id: "w2", seenAt: NOW + 1000, processed: 9007 }),
    );
    assert.equal(history.rate(), 7, "the first one has been idle");
    look(worker({ seenAt: NOW + 30_000, processed: 3 }));
    assert.equal(history.rate(), 0, "a count that went back is no rate, and who is gone does nothing");
  });
});

test("rates, bars and lines of bars are short and true", () => {
  assert.deepEqual([1234.4, 12.34, 3.21, 0.256, 0].map(perSecond), [
    "1234/s",
    "12/s",
    "3.2/s",
    "0.26/s",
    "0/s",
  ]);
  assert.deepEqual([3.21, -3.21, 0.001, -0.001].map(signed), ["+3.2/s", "-3.2/s", "0/s", "0/s"]);
  assert.equal(sparkline([0, 1, 4, 7]), "▁▂▅█");
  assert.equal(sparkline([0, 0]), "▁▁");
  assert.deepEqual([0, 0.5, 1, 7].map((part) => bar(part, 4)), ["░░░░", "██░░", "████", "████"]);
});

test("keys are told apart, also where several come at once", () => {
  assert.deepEqual(keysIn("q"), ["q"]);
  assert.deepEqual(keysIn("\u001b[A\u001bOBjä"), ["up", "down", "j", "ä"]);
  assert.deepEqual(keysIn("\u001b[H\u001b[4~\u0003\u001a"), ["home", "end", "interrupt", "suspend"]);
  assert.deepEqual(keysIn("\u001b"), ["escape"]);
  assert.deepEqual(keysIn("\u001b[15~\u001b[1;5Cp"), ["p"], "a key that means nothing is passed over whole");
});

/** A view with something in every part. */
function view(changes: Partial<View> = {}): View {
  const queues = [
    counts("default", { ready: 12, reserved: 2, failed: 3, oldest: NOW - 242_000 }),
    counts("mail", { ready: 40, delayed: 7, oldest: NOW - 600_000 }),
    counts("thumbnails-of-all-uploaded-images", { ready: 123_456, failed: 1, oldest: NOW - 1000 }),
  ];
  const running = [
    { id: "17", name: "thumbnail", queue: "default", attempt: 1, since: NOW - 12_000 },
    { id: "18", name: "mail", queue: "default", attempt: 2, since: NOW - 3000 },
  ];
  const look = found({
    queues,
    paused: { all: false, queues: ["mail"] },
    workers: [worker({ busy: 2, running }), worker({ id: "w2", host: "web2", queues: ["default"] })],
    progress: new Map([["17", { fraction: 0.42, note: "part 3", at: NOW }]]),
    failures: [failure("9", "upstream 503\nand more"), failure("8", "no route to host")],
  });
  const history = new History();
  history.add({ ...look, at: NOW - 2000, queues: queues.map((one) => ({ ...one, ready: one.ready - 1 })) });
  history.add(look);
  return {
    store: "storage/database.sqlite",
    found: look,
    history,
    alerts: alertsOf(look, {}),
    problem: null,
    selected: "default",
    message: null,
    keys: true,
    interval: 1000,
    now: NOW,
    colour: false,
    ...changes,
  };
}

describe("the screen", () => {
  it("shows all that is there at 80x24", () => {
    assert.deepEqual(render(view(), 80, 24), [
      "queue:monitor · storage/database.sqlite · every 1 s                     12:04:05",
      "! mail is paused, and 40 jobs wait: queue:resume --queue=mail lets workers go on",
      "  QUEUE                        READY  DELAYED  RESERVED  FAILED    WAITS   TREND",
      "› default                         12        0         2       3  4 m 2 s  +0.5/s",
      "  mail (paused)                   40        7         0       0     10 m  +0.5/s",
      "  thumbnails-of-all-uploade…  123456        0         0       1      1 s  +0.5/s",
      "  total                       123508        7         2       4     10 m  +1.5/s",
      "",
      "WORKERS  2 workers · 2 of 20 slots busy",
      "  web1:4242  2/10  every queue  100 ended",
      "    thumbnail 17  12 s  ████░░░░░░ 42 %  part 3",
      "    mail 18  3 s  attempt 2",
      "  web2:4242  0/10  default  100 ended",
      "",
      "LAST FAILURES",
      "  12-01 12:03:05  mail 9  default  upstream 503",
      "  12-01 12:03:05  mail 8  default  no route to host",
      "",
      "",
      "",
      "",
      "",
      "",
      "q quit  ↑↓ queue  p pause or resume it",
    ]);
  });

  it("leaves out columns and shortens names at 40x15", () => {
    assert.deepEqual(render(view(), 40, 15), [
      "queue:monitor · storage/databa… 12:04:05",
      "! mail is paused, and 40 jobs wait: que…",
      "  QUEUE           READY  FAILED    WAITS",
      "› default            12       3  4 m 2 s",
      "  mail (paused)      40       0     10 m",
      "  thumbnails-o…  123456       1      1 s",
      "  total          123508       4     10 m",
      "WORKERS  2 workers · 2 of 20 slots busy",
      "  web1:4242  2/10  every queue  100 end…",
      "    thumbnail 17  12 s  ████░░░░░░ 42 %…",
      "  … 2 more",
      "LAST FAILURES",
      "  12-01 12:03:05  mail 9  default  upst…",
      "  12-01 12:03:05  mail 8  default  no r…",
      "q quit  ↑↓ queue  p pause or resume it",
    ]);
  });

  it("draws the trend and the last looks where there is room", () => {
    const lines = render(view(), 120, 24);
    assert.match(lines[2]!, /WAITS {3}TREND {2}LAST LOOKS$/);
    assert.match(lines[3]!, /^› default .* 4 m 2 s {2}\+0\.5\/s {2}██$/);
    assert.match(lines[6]!, /^ {2}total [^█]*$/);
  });

  it("fits any size, with any text, and never paints a part of a character", async () => {
    const wide = "图像缩略图-".repeat(8);
    const queues = Array.from({ length: 30 }, (_, at) => counts(`${wide}${at}`, { ready: at }));
    const running = [
      { id: "1\u001b[2J", name: wide, queue: wide, attempt: 1, since: NOW },
      { id: "2", name: "👩‍👩‍👧‍👦 family", queue: "e\u0301", attempt: 12, since: 0 },
    ];
    const look = found({
      queues,
      workers: [worker({ host: wide, running, busy: 2 })],
      progress: new Map([["2", { fraction: 1, note: `\u001b]0;title\u0007${wide}`, at: NOW }]]),
      failures: [failure("1", `\u001b[31m${wide}\u0007\n`), failure("2", "\u202egnp.exe")],
    });
    const history = new History();
    history.add(look);
    const limits = { max: 0 };
    for (const colour of [false, true]) {
      for (
        const [width, height] of [[80, 24], [40, 15], [200, 60], [21, 9], [13, 4], [5, 3], [2, 2], [1, 1]]
      ) {
        for (const message of [null, wide]) {
          const changed = {
            found: look,
            history,
            alerts: alertsOf(look, limits),
            store: wide,
            colour,
            message,
          };
          const lines = render(view(changed), width!, height!);
          const size = `${width}x${height}`;
          assert.ok(lines.length <= height!, size);
          for (const line of lines) {
            assert.ok(widthOf(line) <= width!, `${size}: ${JSON.stringify(line)}`);
            // deno-lint-ignore no-control-regex -- what must not be there
            assert.doesNotMatch(line.replace(/\u001b\[\d+m/g, ""), /[\u0000-\u001f\u007f\u202e]/, size);
          }
          const screen = new Screen(width!, height!);
          screen.write("\u001b[?7l" + lines.map((line, row) => `\u001b[${row + 1};1H${line}`).join(""));
          await screen.written;
          // deno-lint-ignore no-control-regex -- the painting
          const plain = lines.map((line) => line.replace(/\u001b\[\d+m/g, "").trimEnd());
          if (width! >= 13) assert.equal(screen.rows[0], plain[0], `${size}: the terminal sees the same`);
          screen.dispose();
        }
      }
    }
  });

  it("keeps the selected queue in sight, and says which part is shown", () => {
    const queues = Array.from({ length: 30 }, (_, at) => counts(`q${String(at).padStart(2, "0")}`));
    const look = found({ queues });
    for (const [selected, first, last] of [["q00", 1, 8], ["q15", 12, 19], ["q29", 23, 30]] as const) {
      const lines = render(view({ found: look, alerts: [], selected }), 60, 16);
      const heading = lines.find((line) => line.includes(" READY "))!;
      assert.match(heading, new RegExp(`^  ${first}–${last} of 30 `), `${selected}: ${lines.join("\n")}`);
      assert.ok(lines.some((line) => line.startsWith(`› ${selected}`)), selected);
    }
    assert.ok(!render(view({ keys: false }), 80, 24).join().includes("›"), "no mark where there are no keys");
  });

  it("paints alerts, failures and paused queues, and nothing where colours are unwanted", async () => {
    const screen = new Screen(80, 24);
    screen.write(render(view({ colour: true }), 80, 24).join("\r\n"));
    await screen.written;
    assert.deepEqual([screen.colourAt(1, 2), screen.colourAt(4, 2), screen.colourAt(3, 2)], [1, 3, null]);
    assert.equal(screen.rows.join("\n"), render(view(), 80, 24).map((line) => line.trimEnd()).join("\n"));
    assert.ok(!render(view(), 80, 24).join("").includes("\u001b"));
    screen.dispose();
  });

  it("says what it waits for, why it is out of date, and what was asked", () => {
    const first = render(view({ found: null, alerts: [] }), 80, 24);
    assert.equal(first[1], "looking …");
    const stale = render(view({ problem: "queue: Redis cannot be reached" }), 80, 24);
    assert.match(stale[0]!, /as of 12:04:05$/);
    assert.equal(stale[1], "! queue: Redis cannot be reached");
    assert.match(stale[2]!, /^! mail is paused/);
    assert.equal(render(view({ message: "pause mail? y" }), 80, 24).at(-1), "pause mail? y");
    assert.equal(render(view({ keys: false }), 80, 24).at(-1), "Ctrl-C ends it");
    const idle = found({ workers: [] });
    assert.match(render(view({ found: idle, alerts: [] }), 80, 24).join("\n"), /no jobs\n[^]*no worker\n/);
  });

  it("shows as many alerts as there is room for, and how many more there are", () => {
    const queues = Array.from({ length: 9 }, (_, at) => counts(`q${at}`, { ready: 2 }));
    const look = found({ queues });
    const alerts = alertsOf(look, { max: 1 });
    const lines = render(view({ found: look, alerts }), 80, 16);
    assert.deepEqual(lines.slice(1, 5).map((line) => line.slice(0, 12)), [
      "! in q0 2 jo",
      "! in q1 2 jo",
      "! in q2 2 jo",
      "! and 6 more",
    ]);
    assert.match(render(view({ found: look, alerts }), 80, 5)[1]!, /^! 9 alerts: in q0 /);
  });
});

describe("without a terminal", () => {
  it("one look is tables of what is there", () => {
    const { found: look } = view();
    const lines = report(look!, undefined);
    assert.deepEqual(lines, [
      "QUEUE                               READY  DELAYED  RESERVED  FAILED  OLDEST WAITS",
      "default                                12        0         2       3       4 m 2 s",
      "mail (paused)                          40        7         0       0          10 m",
      "thumbnails-of-all-uploaded-images  123456        0         0       1           1 s",
      "total                              123508        7         2       4          10 m",
      "",
      "WORKER     QUEUES       BUSY  ENDED   UP",
      "web1:4242  every queue  2/10    100  1 h",
      "web2:4242  default      0/10    100  1 h",
      "",
      "RUNS       ID  QUEUE    ATTEMPT  SINCE  PROGRESS",
      "thumbnail  17  default        1   12 s  42 %  part 3",
      "mail       18  default        2    3 s",
      "",
      "FAILED AT            NAME  ID  QUEUE    ERROR",
      "2026-12-01 12:03:05  mail  9   default  upstream 503",
      "2026-12-01 12:03:05  mail  8   default  no route to host",
    ]);
    assert.deepEqual(report(found({ workers: [] }), undefined), ["no jobs", "", "no worker is alive"]);
    assert.ok(report(look!, 30).every((line) => widthOf(line) <= 30));
  });

  it("a watch prints a line for each queue and one for the workers", () => {
    const { found: look, history } = view();
    assert.deepEqual(watchLines(look!, history).slice(1), [
      "2026-12-01 12:04:05  mail (paused)  ready 40  delayed 7  reserved 0  failed 0  oldest waits 10 m  ready +0.5/s",
      "2026-12-01 12:04:05  thumbnails-of-all-uploaded-images  ready 123456  delayed 0  reserved 0  failed 1  oldest waits 1 s  ready +0.5/s",
      "2026-12-01 12:04:05  2 workers · 2 of 20 slots busy",
    ]);
    assert.deepEqual(watchLines(found(), new History())[0], "2026-12-01 12:04:05  no jobs");
  });

  it("a document has every key, whatever there is", () => {
    const { found: look, history, alerts } = view();
    const full = record(look!, history, alerts);
    const empty = record(found({ workers: [] }), new History(), []);
    assert.deepEqual(Object.keys(full), Object.keys(empty));
    const time = new Date(NOW).toISOString();
    assert.deepEqual(JSON.parse(JSON.stringify(full)), {
      ...JSON.parse(JSON.stringify(full)),
      time,
      rate: null,
      paused: { all: false, queues: ["mail"] },
      alerts: [{
        kind: "paused",
        queue: "mail",
        why: "mail is paused, and 40 jobs wait",
        remedy: "queue:resume --queue=mail lets workers go on",
      }],
    });
    const { queues, workers, failures } = full as Record<string, Record<string, unknown>[]>;
    assert.deepEqual(queues![0], {
      queue: "default",
      ready: 12,
      delayed: 0,
      reserved: 2,
      failed: 3,
      oldest: new Date(NOW - 242_000).toISOString(),
      wait: 242_000,
      paused: false,
      trend: 0.5,
    });
    assert.deepEqual((workers![0]!.running as unknown[])[0], {
      id: "17",
      name: "thumbnail",
      queue: "default",
      attempt: 1,
      since: new Date(NOW - 12_000).toISOString(),
      progress: { fraction: 0.42, note: "part 3", at: time },
    });
    assert.deepEqual(Object.keys(failures![0]!), ["id", "name", "queue", "attempts", "error", "failedAt"]);
  });
});

inSession("a look finds states, pauses and the last failures of a store", async ({ queue }) => {
  const open = await queue({
    mail: {
      tries: 1,
      handle: () => {
        throw new Error("no route");
      },
    },
    later: () => {},
  });
  await open.dispatch("mail", 1);
  await open.work({ stopWhenEmpty: true });
  await open.dispatch("later", 1, { queue: "slow" });
  await open.dispatchLater("later", 1, { hours: 1 });
  await open.pause("held");
  const watcher = new Watcher(open, { max: 0 }, 1000);
  const seen = await watcher.once();
  assert.deepEqual(
    seen.queues.map(({ queue, ready, delayed, failed }) => [queue, ready, delayed, failed]),
    [["default", 0, 1, 1], ["held", 0, 0, 0], ["slow", 1, 0, 0]],
  );
  assert.deepEqual(seen.failures.map(({ name, error }) => [name, error]), [["mail", "no route"]]);
  assert.ok(watcher.alerts.some(({ kind, queue }) => kind === "max" && queue === "slow"));
});

test("a watch goes on where the store fails, says why, and that it is over", async () => {
  let fails = false;
  const store = new SqliteDriver({ database: ":memory:" });
  const driver = changed(store, {
    counts: async (now, retryAfter) => {
      if (fails) throw new QueueError("DB", "the disk is full");
      return await store.counts(now, retryAfter);
    },
  });
  const queue = new Queue({ jobs: {}, driver, env: {} });
  const stop = new AbortController();
  const watcher = new Watcher(queue, {}, 0);
  const seen: (string | null)[] = [];
  await watcher.run(stop.signal, () => {
    seen.push(watcher.problem);
    fails = seen.length === 1 || seen.length === 2;
    if (seen.length === 4) stop.abort();
  });
  await queue.close();
  assert.deepEqual(seen, [null, "queue: the disk is full", "queue: the disk is full", null]);
});
