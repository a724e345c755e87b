CREATE TABLE failed_jobs (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  payload TEXT NOT NULL,
  error TEXT NOT NULL,
  failed_at INTEGER NOT NULL
, queue TEXT NOT NULL DEFAULT 'default', priority INTEGER NOT NULL DEFAULT 0, attempts INTEGER, stack TEXT, job_id TEXT, failure TEXT, history TEXT);
CREATE TABLE jobs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  payload TEXT NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  available_at INTEGER NOT NULL,
  reserved_at INTEGER
, queue TEXT NOT NULL DEFAULT 'default', priority INTEGER NOT NULL DEFAULT 0, token INTEGER, cancelled INTEGER, progress TEXT, dispatched_at INTEGER, trace TEXT, history TEXT);
CREATE TABLE queue_keys (key TEXT PRIMARY KEY, job INTEGER NOT NULL, at REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE queue_meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE queue_workers (id TEXT PRIMARY KEY, seen_at REAL NOT NULL, gone_at REAL NOT NULL, said TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO failed_jobs (id, name, payload, error, failed_at, queue, priority, attempts, stack, job_id, failure, history) VALUES (8, 'failed', 'it''s "naïve": \n
日本 👩‍👩‍👧', 'upstream 503', 1800000000, 'failed', 2, 1, 'Error: upstream 503
    at handle', NULL, NULL, '[{"attempt":1,"startedAt":1800000000001,"duration":5,"worker":"host:7","error":"no 1","stack":null}]');
INSERT INTO jobs (id, name, payload, attempts, available_at, reserved_at, queue, priority, token, cancelled, progress, dispatched_at, trace, history) VALUES (1, 'ready', 'it''s "naïve": \n
日本 👩‍👩‍👧', 0, 1799999700, NULL, 'default', 0, NULL, NULL, NULL, 1799999700000, NULL, NULL);
INSERT INTO jobs (id, name, payload, attempts, available_at, reserved_at, queue, priority, token, cancelled, progress, dispatched_at, trace, history) VALUES (3, 'urgent', '{}', 0, 1799999700, NULL, 'post', 5, NULL, NULL, NULL, 1799999700000, NULL, NULL);
INSERT INTO jobs (id, name, payload, attempts, available_at, reserved_at, queue, priority, token, cancelled, progress, dispatched_at, trace, history) VALUES (4, 'usual', '{}', 0, 1799999700, NULL, 'post', 0, NULL, NULL, NULL, 1799999700000, NULL, NULL);
INSERT INTO jobs (id, name, payload, attempts, available_at, reserved_at, queue, priority, token, cancelled, progress, dispatched_at, trace, history) VALUES (5, 'delayed', '{}', 0, 1800000060.25, NULL, 'delayed', 0, NULL, NULL, NULL, 1799999700000, NULL, NULL);
INSERT INTO jobs (id, name, payload, attempts, available_at, reserved_at, queue, priority, token, cancelled, progress, dispatched_at, trace, history) VALUES (6, 'abandoned', '{}', 1, 1799999700, 1799999800, 'abandoned', 0, 626452183906432, NULL, NULL, 1799999700000, NULL, NULL);
INSERT INTO jobs (id, name, payload, attempts, available_at, reserved_at, queue, priority, token, cancelled, progress, dispatched_at, trace, history) VALUES (7, 'retrying', '{}', 1, 1800000010, NULL, 'retrying', 0, NULL, NULL, NULL, 1799999700000, NULL, '[{"attempt":1,"startedAt":1800000000001,"duration":5,"worker":"host:7","error":"no 1","stack":null}]');
INSERT INTO jobs (id, name, payload, attempts, available_at, reserved_at, queue, priority, token, cancelled, progress, dispatched_at, trace, history) VALUES (9, 'held', '{}', 1, 1799999700, 1800000000, 'held', 0, 626452183906430, NULL, '{"fraction":0.25,"note":"a quarter","at":1800000000000}', 1799999700000, NULL, NULL);
INSERT INTO jobs (id, name, payload, attempts, available_at, reserved_at, queue, priority, token, cancelled, progress, dispatched_at, trace, history) VALUES (10, 'cancelled', '{}', 1, 1799999700, 1800000000, 'cancelled', 0, 626452183906431, 1, NULL, 1799999700000, NULL, NULL);
INSERT INTO jobs (id, name, payload, attempts, available_at, reserved_at, queue, priority, token, cancelled, progress, dispatched_at, trace, history) VALUES (11, 'parked', '{}', 0, 1799999700, NULL, 'paused', 0, NULL, NULL, NULL, 1799999700000, NULL, NULL);
INSERT INTO jobs (id, name, payload, attempts, available_at, reserved_at, queue, priority, token, cancelled, progress, dispatched_at, trace, history) VALUES (12, 'keyed', '{}', 0, 1800000000, NULL, 'keyed', 0, NULL, NULL, NULL, 1800000000000, NULL, NULL);
INSERT INTO queue_keys (key, job, at) VALUES ('order 7', 12, 1800000000.0);
INSERT INTO queue_meta (key, value) VALUES ('paused', '["paused"]');
INSERT INTO queue_meta (key, value) VALUES ('restarts', 1.0);
INSERT INTO queue_meta (key, value) VALUES ('schema', 6.0);
INSERT INTO queue_workers (id, seen_at, gone_at, said) VALUES ('a', 1800000000.0, 1800000030.0, '{"host":"host","pid":7,"startedAt":1800000000000,"queues":null,"concurrency":2,"names":["mail"],"processed":0,"busy":0,"running":[],"version":"1.0.0"}');
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence (name, seq) VALUES ('jobs', 12);
CREATE UNIQUE INDEX failed_jobs_job ON failed_jobs (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX failed_jobs_queue ON failed_jobs (queue);
CREATE INDEX jobs_available ON jobs (queue, priority DESC, available_at) WHERE reserved_at IS NULL;
CREATE INDEX jobs_cancelled ON jobs (id) WHERE cancelled IS NOT NULL;
CREATE INDEX jobs_reserved ON jobs (reserved_at) WHERE reserved_at IS NOT NULL;
CREATE INDEX queue_keys_at ON queue_keys (at);
