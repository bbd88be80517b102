-- What the first version made, with rows in it. Never changed: upgrades are tested on it.

CREATE TABLE audit (
  serial INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  actor TEXT NOT NULL,
  actor_id INTEGER,
  origin TEXT NOT NULL,
  action TEXT NOT NULL,
  object TEXT NOT NULL,
  owner TEXT NOT NULL,
  outcome TEXT NOT NULL,
  data TEXT NOT NULL
);

CREATE INDEX ix_audit_actor ON audit (actor, serial);

CREATE INDEX ix_audit_at ON audit (at);

CREATE TABLE events (
  serial INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  kind TEXT NOT NULL,
  cause TEXT NOT NULL,
  job INTEGER,
  attempt INTEGER,
  node TEXT,
  state VARCHAR(16),
  data TEXT NOT NULL
);

CREATE INDEX ix_events_job ON events (job, serial);

CREATE TABLE jobs (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  user TEXT NOT NULL,
  submitted_at INTEGER NOT NULL,
  spec TEXT NOT NULL,
  gpus INTEGER NOT NULL,
  state VARCHAR(16) NOT NULL,
  reason TEXT NOT NULL,
  priority INTEGER NOT NULL,
  deadline INTEGER,
  time_limit INTEGER,
  cpus_limit DOUBLE,
  workers TEXT NOT NULL,
  target TEXT,
  reached_at INTEGER,
  attempt INTEGER NOT NULL,
  restarts INTEGER NOT NULL,
  preemptions INTEGER NOT NULL,
  migrations INTEGER NOT NULL,
  migration_seconds INTEGER NOT NULL,
  move TEXT,
  resizes INTEGER NOT NULL,
  not_before INTEGER NOT NULL,
  queued_at INTEGER NOT NULL,
  started_at INTEGER,
  finished_at INTEGER,
  ran TEXT NOT NULL,
  attained TEXT NOT NULL,
  stop VARCHAR(16),
  outcome TEXT,
  forget BOOLEAN NOT NULL,
  mark TEXT,
  owner INTEGER
);

CREATE INDEX ix_jobs_finished_at ON jobs (finished_at, id);

CREATE INDEX ix_jobs_name ON jobs (name, id);

CREATE INDEX ix_jobs_owner ON jobs (owner, state);

CREATE INDEX ix_jobs_priority ON jobs (priority, id);

CREATE INDEX ix_jobs_state ON jobs (state, id);

CREATE INDEX ix_jobs_submitted_at ON jobs (submitted_at, id);

CREATE INDEX ix_jobs_user ON jobs (user, id);

CREATE TABLE nodes (
  name TEXT NOT NULL,
  executor TEXT NOT NULL,
  state VARCHAR(16) NOT NULL,
  capacity TEXT NOT NULL,
  reserved TEXT NOT NULL,
  cpus_per_gpu DOUBLE NOT NULL,
  labels TEXT NOT NULL,
  address TEXT NOT NULL,
  default_image TEXT NOT NULL,
  engine TEXT NOT NULL,
  version TEXT NOT NULL,
  drain BOOLEAN NOT NULL,
  lost_at INTEGER,
  problem TEXT NOT NULL,
  PRIMARY KEY (name)
);

CREATE TABLE notices (
  serial INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  user TEXT NOT NULL,
  address TEXT NOT NULL,
  content TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  state VARCHAR(16) NOT NULL,
  tries INTEGER NOT NULL,
  due_at INTEGER NOT NULL,
  problem TEXT NOT NULL
);

CREATE INDEX ix_notices_due ON notices (state, due_at);

CREATE INDEX ix_notices_user ON notices (user, serial);

CREATE TABLE requests (
  serial INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL,
  job INTEGER,
  data TEXT NOT NULL,
  "by" TEXT NOT NULL,
  at INTEGER NOT NULL
);

CREATE TABLE roles (
  role TEXT NOT NULL,
  holder TEXT,
  fence INTEGER NOT NULL,
  renewed_at INTEGER NOT NULL,
  ttl INTEGER NOT NULL,
  PRIMARY KEY (role)
);

CREATE TABLE settings (
  "key" TEXT NOT NULL,
  value TEXT,
  PRIMARY KEY ("key")
);

CREATE TABLE snapshots (
  sha256 VARCHAR(64) NOT NULL,
  owner INTEGER NOT NULL,
  size INTEGER NOT NULL,
  uploaded_at INTEGER NOT NULL,
  PRIMARY KEY (sha256, owner)
);

CREATE INDEX ix_snapshots_owner ON snapshots (owner, uploaded_at);

CREATE TABLE submissions (
  owner INTEGER NOT NULL,
  "key" VARCHAR(200) NOT NULL,
  digest VARCHAR(64) NOT NULL,
  job INTEGER NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (owner, "key")
);

CREATE INDEX ix_submissions_at ON submissions (at);

CREATE TABLE subscriptions (
  user TEXT NOT NULL,
  addresses TEXT NOT NULL,
  given TEXT NOT NULL,
  secret TEXT NOT NULL,
  PRIMARY KEY (user)
);

CREATE TABLE tokens (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  user TEXT NOT NULL,
  label TEXT NOT NULL,
  hash VARCHAR(64) NOT NULL,
  created_at INTEGER NOT NULL,
  job INTEGER,
  attempt INTEGER,
  expires_at INTEGER,
  UNIQUE (hash)
);

CREATE INDEX ix_tokens_job ON tokens (job, attempt);

CREATE INDEX ix_tokens_user ON tokens (user);

CREATE TABLE users (
  name TEXT NOT NULL,
  role VARCHAR(16) NOT NULL,
  uid INTEGER,
  gid INTEGER,
  max_priority INTEGER,
  id INTEGER NOT NULL,
  PRIMARY KEY (name)
);

CREATE UNIQUE INDEX ux_users_id ON users (id);

CREATE TABLE attempts (
  job INTEGER NOT NULL,
  number INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  stop VARCHAR(16),
  stop_asked_at INTEGER,
  ended_at INTEGER,
  generation INTEGER NOT NULL,
  PRIMARY KEY (job, number),
  FOREIGN KEY(job) REFERENCES jobs (id) ON DELETE CASCADE
);

CREATE TABLE devices (
  node TEXT NOT NULL,
  id TEXT NOT NULL,
  position INTEGER NOT NULL,
  kind TEXT NOT NULL,
  model TEXT NOT NULL,
  memory INTEGER NOT NULL,
  outside_use TEXT NOT NULL,
  PRIMARY KEY (node, id),
  FOREIGN KEY(node) REFERENCES nodes (name) ON DELETE CASCADE
);

CREATE TABLE leases (
  job INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  node TEXT NOT NULL,
  amounts TEXT NOT NULL,
  devices TEXT NOT NULL,
  PRIMARY KEY (job, attempt, rank),
  FOREIGN KEY(job) REFERENCES jobs (id) ON DELETE CASCADE
);

CREATE TABLE metric_series (
  id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  job INTEGER NOT NULL,
  name TEXT NOT NULL,
  rank INTEGER NOT NULL,
  source VARCHAR(16) NOT NULL,
  total INTEGER NOT NULL,
  stride INTEGER NOT NULL,
  last_step INTEGER NOT NULL,
  last_value DOUBLE,
  min_value DOUBLE,
  max_value DOUBLE,
  updated_at INTEGER NOT NULL,
  spark TEXT NOT NULL,
  spark_stride INTEGER NOT NULL,
  FOREIGN KEY(job) REFERENCES jobs (id) ON DELETE CASCADE
);

CREATE UNIQUE INDEX ux_metric_series ON metric_series (job, name, rank);

CREATE TABLE lease_devices (
  device TEXT NOT NULL,
  job INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  PRIMARY KEY (device),
  FOREIGN KEY(job, attempt, rank) REFERENCES leases (job, attempt, rank) ON DELETE CASCADE
);

CREATE INDEX ix_lease_devices_worker ON lease_devices (job, attempt, rank);

CREATE TABLE metric_points (
  series INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  step INTEGER NOT NULL,
  value DOUBLE,
  at INTEGER NOT NULL,
  PRIMARY KEY (series, ordinal),
  FOREIGN KEY(series) REFERENCES metric_series (id) ON DELETE CASCADE
)
 WITHOUT ROWID;

CREATE TABLE workers (
  job INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  node TEXT NOT NULL,
  devices TEXT NOT NULL,
  started_at INTEGER,
  ended_at INTEGER,
  outcome TEXT,
  report_seq INTEGER DEFAULT (-1) NOT NULL,
  pattern_seq INTEGER DEFAULT (-1) NOT NULL,
  pattern_offset INTEGER DEFAULT 0 NOT NULL,
  joined INTEGER NOT NULL,
  left_at INTEGER,
  pattern_tries INTEGER DEFAULT 0 NOT NULL,
  PRIMARY KEY (job, attempt, rank),
  FOREIGN KEY(job, attempt) REFERENCES attempts (job, number) ON DELETE CASCADE
);

CREATE TABLE usage (
  job INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  total INTEGER NOT NULL,
  stride INTEGER NOT NULL,
  cpus DOUBLE,
  memory_peak INTEGER,
  at INTEGER NOT NULL,
  cpu_seconds DOUBLE NOT NULL,
  memory INTEGER,
  read_bytes INTEGER,
  written_bytes INTEGER,
  received_bytes INTEGER,
  sent_bytes INTEGER,
  energy DOUBLE,
  cpus_limit DOUBLE,
  weight INTEGER,
  memory_limit INTEGER,
  PRIMARY KEY (job, attempt, rank),
  FOREIGN KEY(job, attempt, rank) REFERENCES workers (job, attempt, rank) ON DELETE CASCADE
);

CREATE TABLE usage_points (
  job INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  rank INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  at INTEGER NOT NULL,
  cpu_seconds DOUBLE NOT NULL,
  memory INTEGER,
  read_bytes INTEGER,
  written_bytes INTEGER,
  received_bytes INTEGER,
  sent_bytes INTEGER,
  energy DOUBLE,
  cpus_limit DOUBLE,
  weight INTEGER,
  memory_limit INTEGER,
  PRIMARY KEY (job, attempt, rank, ordinal),
  FOREIGN KEY(job, attempt, rank) REFERENCES usage (job, attempt, rank) ON DELETE CASCADE
)
 WITHOUT ROWID;

CREATE TABLE schema_version (
  version INTEGER NOT NULL
);

INSERT INTO "events" ("serial", "at", "kind", "cause", "job", "attempt", "node", "state", "data") VALUES
  (1, 100000000, 'submitted', 'submitted by ann', 1, NULL, NULL, 'queued', '{"name":"mnist"}');

INSERT INTO "jobs" ("id", "name", "user", "submitted_at", "spec", "gpus", "state", "reason", "priority", "deadline", "time_limit", "cpus_limit", "workers", "target", "reached_at", "attempt", "restarts", "preemptions", "migrations", "migration_seconds", "move", "resizes", "not_before", "queued_at", "started_at", "finished_at", "ran", "attained", "stop", "outcome", "forget", "mark", "owner") VALUES
  (1, 'mnist', 'ann', 100000000, '{"name":"mnist","command":"python train.py","image":null,"setup":[],"workdir":".","snapshot":null,"mounts":[],"env":{},"launcher":"command","workers":{"min":1,"want":1,"max":2},"resources":{"gpus":0,"gpu_type":null,"cpus_min":1.0,"cpus_max":1.0,"memory":null,"shm":null},"steps":null,"batch_sizes":[],"priority":50,"deadline":null,"time_limit":null,"max_restarts":0,"grace":30.0,"preemptible":"auto","depends_on":[],"metric":{"name":"loss","goal":"min","pattern":null},"target":null,"notify":[]}', 0, 'running', '', 50, NULL, NULL, NULL, '{"min":1,"want":1,"max":2}', NULL, NULL, 1, 0, 0, 0, 0, '[101.0,["local"],[["gpu1",["GPU-1"]]]]', 0, 0, 100000000, 101000000, NULL, '[5.0,100.0,1.0]', '[5.0,100.0,1.0]', NULL, '{"ending":"exited","exit_code":3}', 0, NULL, 1);

INSERT INTO "nodes" ("name", "executor", "state", "capacity", "reserved", "cpus_per_gpu", "labels", "address", "default_image", "engine", "version", "drain", "lost_at", "problem") VALUES
  ('gpu1', 'docker', 'up', '{"cpus":8.0,"gpus":1.0}', '{}', 1.0, '[["rack","2"]]', 'ssh://gpu1', '', '', '', 0, NULL, '');

INSERT INTO "roles" ("role", "holder", "fence", "renewed_at", "ttl") VALUES
  ('scheduler', 'first', 1, 100000000, 30000000);

INSERT INTO "settings" ("key", "value") VALUES
  ('last_user_id', '1');

INSERT INTO "settings" ("key", "value") VALUES
  ('memory', '{"served":[1]}');

INSERT INTO "tokens" ("id", "user", "label", "hash", "created_at", "job", "attempt", "expires_at") VALUES
  (1, 'ann', 'laptop', 'aa', 100000000, NULL, NULL, NULL);

INSERT INTO "users" ("name", "role", "uid", "gid", "max_priority", "id") VALUES
  ('ann', 'user', 1000, NULL, NULL, 1);

INSERT INTO "attempts" ("job", "number", "created_at", "stop", "stop_asked_at", "ended_at", "generation") VALUES
  (1, 1, 100500000, NULL, NULL, NULL, 2);

INSERT INTO "devices" ("node", "id", "position", "kind", "model", "memory", "outside_use") VALUES
  ('gpu1', 'GPU-1', 0, 'gpus', 'A100', 1024, '');

INSERT INTO "leases" ("job", "attempt", "rank", "node", "amounts", "devices") VALUES
  (1, 1, 0, 'gpu1', '{"cpus":2.0,"gpus":1.0}', '["GPU-1"]');

INSERT INTO "metric_series" ("id", "job", "name", "rank", "source", "total", "stride", "last_step", "last_value", "min_value", "max_value", "updated_at", "spark", "spark_stride") VALUES
  (1, 1, 'loss', 0, 'report', 1, 1, 10, 0.5, 0.5, 0.5, 102000000, '[0.5]', 1);

INSERT INTO "lease_devices" ("device", "job", "attempt", "rank") VALUES
  ('GPU-1', 1, 1, 0);

INSERT INTO "metric_points" ("series", "ordinal", "step", "value", "at") VALUES
  (1, 0, 10, 0.5, 102000000);

INSERT INTO "workers" ("job", "attempt", "rank", "node", "devices", "started_at", "ended_at", "outcome", "report_seq", "pattern_seq", "pattern_offset", "joined", "left_at", "pattern_tries") VALUES
  (1, 1, 0, 'gpu1', '["GPU-1"]', 101000000, NULL, NULL, 1, -1, 0, 0, NULL, 0);

INSERT INTO schema_version (version) VALUES (1);
