import assert from "node:assert/strict";
import { test } from "node:test";
import { readReport, type Report } from "../scripts/junit.ts";

// Shortened reports of one and the same suite, as each runtime writes them.

const deno = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="deno test" tests="7" failures="2" errors="0" time="0.155">
  <testsuite name="./tests/a.test.ts" tests="5" disabled="1" errors="0" failures="2">
    <testcase name="a &quot;quoted&quot; &lt;name&gt;" classname="./tests/a.test.ts" time="0.002" line="3" col="1">
    </testcase>
    <testcase name="not here" classname="./tests/a.test.ts" time="0.000" line="6" col="1">
      <skipped/>
    </testcase>
    <testcase name="group" classname="./tests/a.test.ts" time="0.004" line="10" col="1">
      <failure message="1 test step failed">1 test step failed.</failure>
    </testcase>
    <testcase name="parent" classname="./tests/a.test.ts" time="0.001" line="15" col="1">
    </testcase>
    <testcase name="parent &gt; part" classname="./tests/a.test.ts" time="0.000" line="16" col="11">
    </testcase>
  </testsuite>
  <testsuite name="ext:deno_node/testing.ts" tests="2" disabled="0" errors="0" failures="1">
    <testcase name="group &gt; passes" classname="ext:deno_node/testing.ts" time="0.001" line="1" col="23191">
    </testcase>
    <testcase name="group &gt; fails" classname="ext:deno_node/testing.ts" time="0.001" line="1" col="21231">
      <failure message="Uncaught AssertionError: a &lt;skipped&gt; one">AssertionError: a &lt;skipped&gt; one</failure>
    </testcase>
  </testsuite>
</testsuites>`;

const bun = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="bun test" tests="4" assertions="0" failures="1" skipped="1" time="0.07">
  <testsuite name="tests/a.test.ts" file="tests/a.test.ts" tests="4" failures="1" skipped="1" time="0.04" hostname="h">
    <testcase name="a &quot;quoted&quot; &lt;name&gt;" classname="" time="0.001" file="tests/a.test.ts" line="3" assertions="0" />
    <testcase name="not here" classname="" time="0" file="tests/a.test.ts" line="6" assertions="0">
      <skipped />
    </testcase>
    <testsuite name="group" file="tests/a.test.ts" line="10" tests="2" failures="1" skipped="0" time="0" hostname="h">
      <testcase name="passes" classname="group" time="0.001" file="tests/a.test.ts" line="11" assertions="0" />
      <testcase name="fails" classname="group" time="0.001" file="tests/a.test.ts" line="12" assertions="0">
        <failure type="AssertionError" message="a &lt;skipped&gt; one">AssertionError: a &lt;skipped&gt; one</failure>
      </testcase>
    </testsuite>
    <testcase name="parent" classname="" time="0.001" file="tests/a.test.ts" line="15" assertions="0" />
  </testsuite>
</testsuites>`;

const node = `<?xml version="1.0" encoding="utf-8"?>
<testsuites>
  <testcase name="a &quot;quoted&quot; &lt;name>" time="0.001" classname="test" file="/repo/tests/a.test.ts"/>
  <testcase name="not here" time="0.0002" classname="test" file="/repo/tests/a.test.ts">
    <skipped type="skipped" message="no server"/>
  </testcase>
  <testsuite name="group" time="0.003" disabled="0" errors="0" tests="2" failures="1" skipped="0" hostname="h">
    <testcase name="passes" time="0.0003" classname="group" file="/repo/tests/a.test.ts"/>
    <testcase name="fails" time="0.0004" classname="group" file="/repo/tests/a.test.ts" failure="a &lt;skipped> one">
      <failure type="testCodeFailure" message="a &lt;skipped> one">a &lt;skipped> one</failure>
    </testcase>
  </testsuite>
  <testsuite name="parent" time="0.001" disabled="0" errors="0" tests="1" failures="0" skipped="0" hostname="h">
    <testcase name="part" time="0.0001" classname="parent" file="/repo/tests/a.test.ts"/>
  </testsuite>
</testsuites>`;

function read(xml: string, ...files: string[]): Report {
  return readReport(xml, files, "/repo");
}

for (
  const [runtime, xml, failure] of [
    ["Deno", deno, "group > fails"],
    ["Bun", bun, "tests/a.test.ts: group > fails"],
    ["Node", node, "tests/a.test.ts: group > fails"],
  ]
) {
  test(`the runner counts each leaf of ${runtime}'s report once, and names what failed`, () => {
    const { passed, failed, skipped, failures, files } = read(xml, "tests/a.test.ts");
    assert.deepEqual({ passed, failed, skipped }, { passed: 3, failed: 1, skipped: 1 });
    assert.deepEqual(failures, [failure]);
    assert.ok(files.has("tests/a.test.ts"), "its tests are placed in their file");
    assert.ok(!files.has("tests/b.test.ts"));
  });
}

test("the runner fails a file that Node lists as a test of its own, whether it crashed or held none", () => {
  const report = read(
    `<testsuites>
      <testcase name="tests/crashed.test.ts" time="0.1" classname="test" file="/repo/tests/crashed.test.ts">
        <failure type="testCodeFailure" message="test failed">test failed</failure>
      </testcase>
      <testcase name="tests/empty.test.ts" time="0.1" classname="test" file="/repo/tests/empty.test.ts"/>
      <testcase name="a test" time="0.1" classname="test" file="/repo/tests/a.test.ts"/>
    </testsuites>`,
    ...["tests/a.test.ts", "tests/crashed.test.ts", "tests/empty.test.ts"],
  );
  assert.deepEqual([report.passed, report.failed], [1, 2]);
  assert.match(report.failures[0], /^tests\/crashed\.test\.ts: the file itself failed$/);
  assert.match(report.failures[1], /^tests\/empty\.test\.ts: no test of it was reported/);
});

test("the runner counts a group of Deno's that failed by itself, and not one that only a part of it failed", () => {
  const group = (message: string): string =>
    `<testcase name="g" classname="./tests/a.test.ts"><failure message="${message}">…</failure></testcase>
     <testcase name="g &gt; part" classname="ext:deno_node/testing.ts">…</testcase>`;
  assert.equal(read(group("Uncaught Error: the hook failed")).failed, 1);
  assert.equal(read(group("2 test steps failed")).failed, 0);
});
