CREATE TABLE failed_jobs (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  payload TEXT NOT NULL,
  error TEXT NOT NULL,
  failed_at INTEGER NOT NULL
, queue TEXT NOT NULL DEFAULT 'default', priority INTEGER NOT NULL DEFAULT 0, attempts INTEGER, stack TEXT, job_id TEXT, failure TEXT);
CREATE TABLE jobs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  payload TEXT NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  available_at INTEGER NOT NULL,
  reserved_at INTEGER
, queue TEXT NOT NULL DEFAULT 'default', priority INTEGER NOT NULL DEFAULT 0, token INTEGER);
CREATE TABLE queue_keys (key TEXT PRIMARY KEY, job INTEGER NOT NULL, at REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE queue_meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
INSERT INTO failed_jobs (id, name, payload, error, failed_at, queue, priority, attempts, stack, job_id, failure) VALUES (8, 'failed', 'it''s "naïve": \n
日本 👩‍👩‍👧', 'upstream 503', 1800000000, 'failed', 2, 1, 'Error: upstream 503
    at handle', NULL, NULL);
INSERT INTO jobs (id, name, payload, attempts, available_at, reserved_at, queue, priority, token) VALUES (1, 'ready', 'it''s "naïve": \n
日本 👩‍👩‍👧', 0, 1799999700, NULL, 'default', 0, NULL);
INSERT INTO jobs (id, name, payload, attempts, available_at, reserved_at, queue, priority, token) VALUES (3, 'urgent', '{}', 0, 1799999700, NULL, 'post', 5, NULL);
INSERT INTO jobs (id, name, payload, attempts, available_at, reserved_at, queue, priority, token) VALUES (4, 'usual', '{}', 0, 1799999700, NULL, 'post', 0, NULL);
INSERT INTO jobs (id, name, payload, attempts, available_at, reserved_at, queue, priority, token) VALUES (5, 'delayed', '{}', 0, 1800000060.25, NULL, 'delayed', 0, NULL);
INSERT INTO jobs (id, name, payload, attempts, available_at, reserved_at, queue, priority, token) VALUES (6, 'abandoned', '{}', 1, 1799999700, 1799999800, 'abandoned', 0, 471134051722322);
INSERT INTO jobs (id, name, payload, attempts, available_at, reserved_at, queue, priority, token) VALUES (7, 'retrying', '{}', 1, 1800000010, NULL, 'retrying', 0, NULL);
INSERT INTO jobs (id, name, payload, attempts, available_at, reserved_at, queue, priority, token) VALUES (9, 'held', '{}', 1, 1799999700, 1800000000, 'held', 0, 471134051722320);
INSERT INTO jobs (id, name, payload, attempts, available_at, reserved_at, queue, priority, token) VALUES (10, 'cancelled', '{}', 1, 1799999700, 1800000000, 'cancelled', 0, 471134051722321);
INSERT INTO jobs (id, name, payload, attempts, available_at, reserved_at, queue, priority, token) VALUES (11, 'parked', '{}', 0, 1799999700, NULL, 'paused', 0, NULL);
INSERT INTO jobs (id, name, payload, attempts, available_at, reserved_at, queue, priority, token) VALUES (12, 'keyed', '{}', 0, 1800000000, NULL, 'keyed', 0, NULL);
INSERT INTO queue_keys (key, job, at) VALUES ('order 7', 12, 1800000000.0);
INSERT INTO queue_meta (key, value) VALUES ('schema', 3.0);
DELETE FROM sqlite_sequence;
INSERT INTO sqlite_sequence (name, seq) VALUES ('jobs', 12);
CREATE UNIQUE INDEX failed_jobs_job ON failed_jobs (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX jobs_available ON jobs (queue, priority DESC, available_at) WHERE reserved_at IS NULL;
CREATE INDEX jobs_reserved ON jobs (reserved_at) WHERE reserved_at IS NOT NULL;
CREATE INDEX queue_keys_at ON queue_keys (at);
