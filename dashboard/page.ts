/**
 * The page and the login form, as HTML. Neither has anything of a job in it: that comes as JSON, and is shown as text.
 *
 * @module
 */

/** What every page has. */
interface Parts {
  /** Marks script and style as ours. */
  readonly nonce: string;
  /** What this session sends with each change. */
  readonly proof: string;
  /** Of script and style, by which they may be kept. */
  readonly version: string;
}

const ICON = "data:image/svg+xml," + encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16" fill="#3563b5">' +
    '<rect x="1" y="2" width="14" height="3" rx="1.5"/><rect x="1" y="6.5" width="10" height="3" rx="1.5"/>' +
    '<rect x="1" y="11" width="6" height="3" rx="1.5"/></svg>',
);

function head({ nonce, version }: Parts, more: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Queue</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<link rel="icon" href="${ICON}">
<link rel="stylesheet" href="?get=style.css&amp;v=${version}" nonce="${nonce}">
${more}
</head>`;
}

/** What a visitor without the token gets. */
export function loginPage(parts: Parts & { readonly wrong: boolean }): string {
  return `${head(parts, "")}
<body class="login">
<main>
<h1>Queue</h1>
<form method="post" action="?do=login">
<input type="hidden" name="csrf" value="${parts.proof}">
<label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus${
    parts.wrong ? ' aria-invalid="true" aria-describedby="wrong"' : ""
  }>
${parts.wrong ? '<p id="wrong" class="bad" role="alert">That is not the token.</p>' : ""}
<button class="main">Enter</button>
<p class="muted">It is what <code>QUEUE_DASHBOARD_TOKEN</code> says where the dashboard runs.</p>
</form>
</main>
</body>
</html>
`;
}

/** The page. */
export function page(parts: Parts & { readonly readOnly: boolean; readonly canLeave: boolean }): string {
  const { nonce, proof, version, readOnly, canLeave } = parts;
  const script = `<meta name="csrf" content="${proof}">
<meta name="read-only" content="${readOnly}">
<script src="?get=app.js&amp;v=${version}" nonce="${nonce}" defer></script>`;
  return `${head(parts, script)}
<body>
<a class="skip" href="#main">Skip to content</a>
<header>
<h1>Queue</h1>
<nav aria-label="Views">
<a href="#overview">Overview</a>
<a href="#failed">Failed <span id="failed-count" class="pill bad"></span></a>
<a href="#delayed">Delayed <span id="delayed-count" class="pill"></span></a>
</nav>
<form id="find" role="search">
<input id="find-id" aria-label="Find a job by its id" placeholder="Job id" autocomplete="off" maxlength="64">
</form>
${readOnly ? '<span class="badge">read-only</span>' : ""}
<span id="live" role="status">Connecting</span>
<button type="button" id="theme" class="quiet" aria-pressed="false">Dark</button>
${
    canLeave
      ? `<form method="post" action="?do=logout"><input type="hidden" name="csrf" value="${proof}"><button class="quiet">Leave</button></form>`
      : ""
  }
</header>
<main id="main" tabindex="-1">
<noscript><p class="banner bad">This page needs JavaScript.</p></noscript>
<p id="trouble" class="banner bad" role="alert" hidden></p>
<ul id="alerts" aria-label="What is wrong" aria-live="polite"></ul>
${overview(readOnly)}
${failed(readOnly)}
${delayed(readOnly)}
</main>
<p id="note" role="status" hidden></p>
<span id="probe" hidden></span>
<dialog id="job" aria-labelledby="job-title">
<div class="top"><h2 id="job-title" tabindex="-1"></h2><button type="button" data-close class="quiet">Close</button></div>
<div id="job-body" tabindex="0" role="region" aria-labelledby="job-title"></div>
<div id="job-acts" class="acts"></div>
</dialog>
<dialog id="confirm" aria-labelledby="confirm-title" aria-describedby="confirm-text">
<h2 id="confirm-title"></h2>
<p id="confirm-text"></p>
<p id="confirm-status" class="muted" role="status"></p>
<div class="acts"><button type="button" id="confirm-yes" class="main"></button><button type="button" data-close autofocus>Back</button></div>
</dialog>
</body>
</html>
`;
}

const TOTALS = [
  ["total-ready", "Ready"],
  ["total-reserved", "Running"],
  ["total-delayed", "Delayed"],
  ["total-failed", "Failed"],
  ["total-rate", "Done / s"],
  ["total-wait", "Oldest waits"],
];

const RANGES = [["15m", "15 min"], ["3h", "3 h"], ["24h", "24 h"], ["7d", "7 d"]];

function overview(readOnly: boolean): string {
  return `<section id="overview" tabindex="-1" aria-label="Overview">
<dl id="totals">${
    TOTALS.map(([id, label]) => `<div><dt>${label}</dt><dd id="${id}">–</dd></div>`).join("\n")
  }</dl>
<div class="head"><h2>Activity</h2><fieldset id="ranges"><legend class="unseen">How far back the charts go</legend>${
    RANGES.map(([value, label], at) =>
      `<label><input type="radio" name="range" value="${value}"${at === 0 ? " checked" : ""}>${label}</label>`
    ).join("")
  }</fieldset></div>
<div id="charts">
<figure><figcaption>Throughput</figcaption><div id="throughput"></div></figure>
<figure><figcaption>Wait <span id="backlog-note" class="muted" hidden></span></figcaption><div id="backlog"></div></figure>
</div>
<div class="head"><h2>Queues</h2>${
    readOnly ? "" : '<button type="button" id="pause-all" class="quiet">Pause every queue</button>'
  }</div>
<p id="no-queues" class="empty" hidden>No queue has a job.</p>
<table id="queues" role="table" hidden>
<caption class="unseen">How many jobs each queue has in each state</caption>
<thead role="rowgroup"><tr role="row">${
    columns([
      ["Queue", ""],
      ["Ready", "number"],
      ["Delayed", "number"],
      ["Running", "number"],
      [
        "Failed",
        "number",
      ],
      ["Oldest waits", "number"],
      ...(readOnly ? [] : [["Change", "unseen"]]),
    ])
  }</tr></thead>
<tbody id="queue-rows" role="rowgroup"></tbody>
</table>
<p id="more-queues" class="muted"></p>
<div class="head"><h2>Workers</h2></div>
<p id="no-workers" class="empty" hidden>No worker is running.</p>
<ul id="workers"></ul>
<p id="more-workers" class="muted"></p>
</section>`;
}

function failed(readOnly: boolean): string {
  return `<section id="failed" tabindex="-1" aria-label="Failed jobs" hidden>
<div class="head"><h2>Failed</h2><span id="failed-total" class="muted" role="status"></span></div>
<form id="failed-filter" class="filter" role="search" aria-label="Failed jobs">
<label>Error contains<input name="text" type="search" autocomplete="off" maxlength="500"></label>
<label>Job type<input name="name" type="search" autocomplete="off" maxlength="500"></label>
<label>Queue<select name="queue" id="failed-queue"><option value="">every queue</option></select></label>
<label>Failed<select name="period"><option value="">at any time</option><option value="60">in the last hour</option><option value="1440">in the last day</option><option value="10080">in the last week</option></select></label>
</form>
${
    readOnly
      ? ""
      : '<div id="failed-acts" class="acts" hidden><button type="button" id="failed-retry" class="main"></button><button type="button" id="failed-forget"></button></div>'
  }
<p id="failed-none" class="empty" hidden></p>
<table id="failed-table" class="jobs" role="table" hidden>
<caption class="unseen">Failed jobs, the newest first</caption>
<thead role="rowgroup"><tr role="row">${all("failed", readOnly)}${
    columns([["Job", ""], ["Error", ""], ["Queue", ""], ["Attempts", "number"], ["Failed", "number"]])
  }</tr></thead>
<tbody id="failed-rows" role="rowgroup"></tbody>
</table>
<nav id="failed-pages" class="acts" aria-label="Pages of failed jobs" hidden><button type="button" id="failed-newer">Newer</button><button type="button" id="failed-older">Older</button></nav>
</section>`;
}

function delayed(readOnly: boolean): string {
  return `<section id="delayed" tabindex="-1" aria-label="Delayed jobs" hidden>
<div class="head"><h2>Delayed</h2><span id="delayed-more" class="muted"></span></div>
<form class="filter"><label>Queue<select id="delayed-queue"><option value="">every queue</option></select></label></form>
${
    readOnly
      ? ""
      : '<div id="delayed-acts" class="acts" hidden><button type="button" id="delayed-cancel" disabled></button></div>'
  }
<p id="delayed-none" class="empty" hidden>No job is delayed.</p>
<table id="delayed-table" class="jobs" role="table" hidden>
<caption class="unseen">Delayed jobs, the next one first</caption>
<thead role="rowgroup"><tr role="row">${all("delayed", readOnly)}${
    columns([["Job", ""], ["Due in", ""], ["Queue", ""], ["Attempts", "number"]])
  }</tr></thead>
<tbody id="delayed-rows" role="rowgroup"></tbody>
</table>
</section>`;
}

function columns(titles: readonly string[][]): string {
  return titles.map(([title, kind]) =>
    `<th role="columnheader" scope="col"${kind === "number" ? ' class="number"' : ""}>${
      kind === "unseen" ? `<span class="unseen">${title}</span>` : title
    }</th>`
  ).join("");
}

function all(name: string, readOnly: boolean): string {
  return readOnly
    ? ""
    : `<th role="columnheader" scope="col" class="box"><input type="checkbox" id="${name}-all" aria-label="Select the whole page"></th>`;
}
