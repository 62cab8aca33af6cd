import GRDB

/// The tables of the database, as a sequence of migration steps.
///
/// A released step is never changed; new steps are added after it. The database stores the number
/// of steps that were applied (`user_version`), and each step runs in one transaction together with
/// its number.
struct Schema: Sendable {
    /// SQL scripts; the first one creates the initial tables.
    let steps: [String]

    /// The number of the newest step.
    var version: Int { steps.count }

    /// The schema that this version of the program reads and writes.
    static let current = Schema(
        steps: [
            firstTables, sessionsByUse, records, room, functions, blobs, epoch, commitNumber,
            indexes, quotaHolds, documents, administration, merges, expiringGrants,
            auditDetail, eras, metering, planEnds, threadCounts,
        ]
    )

    /// Applies all missing steps to the database.
    ///
    /// - Throws: ``SQLiteStorageError/schemaTooNew(found:known:)``, or an error of SQLite.
    func migrate(_ database: Database) throws {
        let found = try Self.version(of: database)
        guard found <= version else {
            throw SQLiteStorageError.schemaTooNew(found: found, known: version)
        }
        for step in found..<version {
            try database.inTransaction(.immediate) {
                try database.execute(sql: steps[step])
                try database.execute(sql: "PRAGMA user_version = \(step + 1)")
                return .commit
            }
        }
    }

    /// Returns whether the database was never written: an opened database has at least one step.
    func isMissing(in database: Database) throws -> Bool {
        try Self.version(of: database) == 0
    }

    /// Checks that a database that cannot be changed has the newest step.
    func check(_ database: Database) throws {
        let found = try Self.version(of: database)
        guard found <= version else {
            throw SQLiteStorageError.schemaTooNew(found: found, known: version)
        }
        guard found == version else {
            throw SQLiteStorageError.schemaTooOld(found: found, known: version)
        }
    }

    /// Returns the schema with the steps that were applied to the database.
    ///
    /// - Throws: ``SQLiteStorageError/schemaTooNew(found:known:)``, or an error of SQLite.
    func known(to database: Database) throws -> Schema {
        let found = try Self.version(of: database)
        guard found <= version else {
            throw SQLiteStorageError.schemaTooNew(found: found, known: version)
        }
        return Schema(steps: Array(steps.prefix(found)))
    }

    /// Whether the schema has a table of files, which the first versions lack.
    var hasBlobs: Bool { steps.contains(Self.blobs) }

    /// Whether the schema has an audit log, which the first versions lack.
    var hasAudit: Bool { steps.contains(Self.administration) }

    /// Whether the entries of the audit log say what was done, which the first ones do not.
    var hasAuditDetail: Bool { steps.contains(Self.auditDetail) }

    static func version(of database: Database) throws -> Int {
        try Int.fetchOne(database, sql: "PRAGMA user_version") ?? 0
    }
}

extension Schema {
    // Ids are blobs of 16 bytes, times are milliseconds since 1970. Tables have no foreign keys and
    // no checks: the commands' decisions enforce the rules, identically for all drivers.
    //
    // `transfers` has no unique index on its id, which would add a third tree to every charge. The
    // operation's key already prevents duplicate charges.
    //
    // The indexes of `holds` and `operations` are partial: a row is in at most one of them.
    private static let firstTables = """
        CREATE TABLE accounts (
            id BLOB PRIMARY KEY,
            kind TEXT NOT NULL,
            email TEXT,
            time_zone TEXT NOT NULL,
            language TEXT NOT NULL,
            display_name TEXT,
            plan TEXT NOT NULL,
            settings BLOB NOT NULL,
            created_at INTEGER NOT NULL,
            seq INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX accounts_by_email ON accounts (email) WHERE email IS NOT NULL;

        CREATE TABLE balances (
            account BLOB PRIMARY KEY,
            head INTEGER NOT NULL,
            available INTEGER NOT NULL,
            held INTEGER NOT NULL,
            seq INTEGER NOT NULL,
            changed_at INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE devices (
            id TEXT PRIMARY KEY,
            secret_hash BLOB NOT NULL,
            account BLOB NOT NULL,
            created_at INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE sessions (
            id BLOB PRIMARY KEY,
            account BLOB NOT NULL,
            generation INTEGER NOT NULL,
            rotated_at INTEGER NOT NULL,
            expires_at INTEGER NOT NULL,
            ended_at INTEGER
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX sessions_by_expiry ON sessions (expires_at);
        CREATE INDEX sessions_by_end ON sessions (ended_at) WHERE ended_at IS NOT NULL;

        CREATE TABLE quotas (
            account BLOB NOT NULL,
            name TEXT NOT NULL,
            day TEXT NOT NULL,
            used INTEGER NOT NULL,
            resets_at INTEGER NOT NULL,
            seq INTEGER NOT NULL,
            PRIMARY KEY (account, name)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE holds (
            id BLOB PRIMARY KEY,
            account BLOB NOT NULL,
            amount INTEGER NOT NULL,
            expires_at INTEGER NOT NULL,
            state INTEGER NOT NULL,
            captured INTEGER,
            reason TEXT NOT NULL,
            operation TEXT,
            sent INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX holds_open ON holds (expires_at) WHERE state = 0;
        CREATE INDEX holds_settled ON holds (expires_at) WHERE state <> 0;

        CREATE TABLE operations (
            account BLOB NOT NULL,
            key TEXT NOT NULL,
            fingerprint BLOB NOT NULL,
            state INTEGER NOT NULL,
            hold BLOB,
            status INTEGER,
            head INTEGER,
            body BLOB,
            at INTEGER NOT NULL,
            PRIMARY KEY (account, key)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX operations_running ON operations (account, key) WHERE state = 0;
        CREATE INDEX operations_done ON operations (at) WHERE state = 1;

        CREATE TABLE transfers (
            number INTEGER PRIMARY KEY,
            id BLOB NOT NULL,
            account BLOB NOT NULL,
            seq INTEGER NOT NULL,
            kind INTEGER NOT NULL,
            amount INTEGER NOT NULL,
            available_after INTEGER NOT NULL,
            held_after INTEGER NOT NULL,
            reason TEXT NOT NULL,
            at INTEGER NOT NULL
        ) STRICT;
        CREATE INDEX transfers_by_account ON transfers (account);
        CREATE TRIGGER transfers_are_never_changed BEFORE UPDATE ON transfers
        BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
        CREATE TRIGGER transfers_are_never_removed BEFORE DELETE ON transfers
        BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
        """

    // `ended_at` is in the index although it is always NULL there: without it, SQLite would look up
    // each row to check it.
    private static let sessionsByUse = """
        CREATE INDEX sessions_by_use ON sessions (account, ended_at, rotated_at)
            WHERE ended_at IS NULL;
        """

    // `records` has rowids, because a tree with values of many kilobytes in its cells is slow to
    // search. `record_index.value` contains the bytes of `IndexKey`. An empty scope means all
    // accounts.
    private static let records = """
        CREATE TABLE records (
            number INTEGER PRIMARY KEY,
            collection TEXT NOT NULL,
            scope BLOB NOT NULL,
            id TEXT NOT NULL,
            owner BLOB NOT NULL,
            seq INTEGER NOT NULL,
            through INTEGER NOT NULL,
            deleted_at INTEGER,
            value BLOB NOT NULL,
            created_at INTEGER NOT NULL,
            updated_at INTEGER NOT NULL
        ) STRICT;
        CREATE UNIQUE INDEX records_by_name ON records (collection, scope, id);
        CREATE INDEX records_by_feed ON records (owner, seq);
        CREATE INDEX records_deleted ON records (deleted_at) WHERE deleted_at IS NOT NULL;

        CREATE TABLE record_index (
            collection TEXT NOT NULL,
            scope BLOB NOT NULL,
            field TEXT NOT NULL,
            value BLOB NOT NULL,
            id TEXT NOT NULL,
            PRIMARY KEY (collection, scope, field, value, id)
        ) STRICT, WITHOUT ROWID;

        CREATE TABLE feeds (
            account BLOB PRIMARY KEY,
            records INTEGER NOT NULL,
            horizon INTEGER NOT NULL
        ) STRICT, WITHOUT ROWID;
        """

    // Tombstones have separate indexes, so that neither a list nor a read from the start steps over
    // them. A record is in one of the two indexes by feed, so a change costs no more. 100 is
    // `RecordRow.overheadBytes`.
    private static let room = """
        ALTER TABLE feeds ADD COLUMN tombstones INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE feeds ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;
        INSERT INTO feeds (account, records, horizon, tombstones, bytes)
            SELECT owner, 0, 0, sum(deleted_at IS NOT NULL), sum(length(value) + 100)
            FROM records WHERE true GROUP BY owner
            ON CONFLICT (account) DO UPDATE
                SET tombstones = excluded.tombstones, bytes = excluded.bytes;

        DROP INDEX records_by_feed;
        CREATE INDEX records_live_by_feed ON records (owner, seq) WHERE deleted_at IS NULL;
        CREATE INDEX records_deleted_by_feed ON records (owner, seq)
            WHERE deleted_at IS NOT NULL;
        CREATE INDEX records_live_by_name ON records (collection, scope, id)
            WHERE deleted_at IS NULL;
        """

    // Cached answers and parts of streams have rowids, as records do. An account of no bytes means
    // all accounts: an index on NULL could not be searched by equality.
    private static let functions = """
        ALTER TABLE holds ADD COLUMN quota TEXT;
        ALTER TABLE holds ADD COLUMN quota_day TEXT;
        ALTER TABLE holds ADD COLUMN quota_units INTEGER;
        ALTER TABLE holds ADD COLUMN charge_when_cut INTEGER;
        ALTER TABLE operations ADD COLUMN run BLOB;
        ALTER TABLE operations ADD COLUMN parts INTEGER;

        CREATE TABLE results (
            number INTEGER PRIMARY KEY,
            key BLOB NOT NULL UNIQUE,
            account BLOB NOT NULL,
            function TEXT NOT NULL,
            output BLOB NOT NULL,
            made_at INTEGER NOT NULL,
            expires_at INTEGER NOT NULL
        ) STRICT;
        CREATE INDEX results_by_account ON results (account, made_at);
        CREATE INDEX results_by_expiry ON results (expires_at);

        CREATE TABLE parts (
            number INTEGER PRIMARY KEY,
            run BLOB NOT NULL,
            first INTEGER NOT NULL,
            texts BLOB NOT NULL,
            at INTEGER NOT NULL,
            UNIQUE (run, first)
        ) STRICT;
        CREATE INDEX parts_by_time ON parts (at);
        """

    // The content comes first, so that finding any owner of a file needs no other index.
    private static let blobs = """
        CREATE TABLE blobs (
            id BLOB NOT NULL,
            account BLOB NOT NULL,
            size INTEGER NOT NULL,
            type TEXT NOT NULL,
            width INTEGER,
            height INTEGER,
            created_at INTEGER NOT NULL,
            PRIMARY KEY (id, account)
        ) STRICT, WITHOUT ROWID;
        """

    // Values of the whole database, by name. SQLite generates the epoch, because a step has no
    // parameters.
    private static let epoch = """
        CREATE TABLE meta (
            name TEXT PRIMARY KEY,
            value TEXT NOT NULL
        ) STRICT, WITHOUT ROWID;
        INSERT INTO meta (name, value) VALUES ('epoch', lower(hex(randomblob(8))));
        """

    // One row on one page, which each commit updates: see `CommitNumber`.
    private static let commitNumber = """
        CREATE TABLE commits (id INTEGER PRIMARY KEY, number INTEGER NOT NULL) STRICT;
        INSERT INTO commits VALUES (1, 0);
        """

    // A unit that was used is returned if its call is lost.
    private static let quotaHolds = "ALTER TABLE holds ADD COLUMN quota_kept INTEGER;"

    // `state` is 0 for active, 1 for merged, 2 for deleted.
    private static let documents = """
        ALTER TABLE accounts ADD COLUMN state INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE accounts ADD COLUMN merged_into BLOB;
        ALTER TABLE accounts ADD COLUMN plan_expires_at INTEGER;

        CREATE TABLE documents (
            kind TEXT NOT NULL,
            id TEXT NOT NULL,
            account BLOB,
            expires_at INTEGER,
            body BLOB NOT NULL,
            PRIMARY KEY (kind, id)
        ) STRICT, WITHOUT ROWID;
        CREATE INDEX documents_by_account ON documents (account, kind, id)
            WHERE account IS NOT NULL;
        CREATE INDEX documents_by_expiry ON documents (expires_at)
            WHERE expires_at IS NOT NULL;
        """

    // The chain of hashes reveals changes by someone who has removed the triggers.
    private static let administration = """
        ALTER TABLE sessions ADD COLUMN device_name TEXT;
        CREATE INDEX accounts_by_kind ON accounts (kind, id) WHERE state = 0;
        CREATE INDEX devices_by_account ON devices (account, id);
        CREATE INDEX blobs_by_account ON blobs (account, id);

        CREATE TABLE audit (
            number INTEGER PRIMARY KEY,
            previous BLOB NOT NULL,
            at INTEGER NOT NULL,
            actor TEXT NOT NULL,
            role TEXT NOT NULL,
            action TEXT NOT NULL,
            account BLOB,
            reason TEXT NOT NULL,
            outcome TEXT NOT NULL
        ) STRICT;
        CREATE TRIGGER audit_is_never_changed BEFORE UPDATE ON audit
        BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
        CREATE TRIGGER audit_is_never_removed BEFORE DELETE ON audit
        BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
        """

    // A merge finds the rows of a guest by their owner: also by the indexes of `administration`.
    private static let merges = """
        CREATE INDEX holds_open_by_account ON holds (account) WHERE state = 0;
        """

    // Earlier versions did not record which indexes contain all records: those with entries get
    // version 0, and are rebuilt.
    private static let indexes = """
        CREATE TABLE indexes (
            number INTEGER PRIMARY KEY,
            builds TEXT NOT NULL
        ) STRICT;
        INSERT INTO indexes (number, builds)
            SELECT 1, json_group_array(json_object(
                'collection', collection, 'field', field, 'version', 0, 'stage', 'complete'
            ))
            FROM (SELECT DISTINCT collection, field FROM record_index);
        """

    // `grants` is the text of `ExpiringGrants`; `grants_expire_at` is the first of its moments.
    private static let expiringGrants = """
        ALTER TABLE balances ADD COLUMN grants TEXT;
        ALTER TABLE balances ADD COLUMN grants_expire_at INTEGER;
        ALTER TABLE balances ADD COLUMN spending_limit INTEGER;
        ALTER TABLE balances ADD COLUMN spending_day TEXT;
        ALTER TABLE balances ADD COLUMN spending_used INTEGER;
        ALTER TABLE balances ADD COLUMN spending_resets_at INTEGER;
        CREATE INDEX balances_by_expiry ON balances (grants_expire_at)
            WHERE grants_expire_at IS NOT NULL;
        ALTER TABLE holds ADD COLUMN grants TEXT;
        ALTER TABLE holds ADD COLUMN spent_on TEXT;
        ALTER TABLE transfers ADD COLUMN function TEXT;
        """

    // `INSERT OR REPLACE` removes a row without its triggers, unless the connection sets
    // `recursive_triggers`. A row without a number of its own gets a new one.
    private static let auditDetail = """
        ALTER TABLE audit ADD COLUMN detail TEXT;
        CREATE TRIGGER transfers_are_never_replaced BEFORE INSERT ON transfers
        WHEN EXISTS (SELECT 1 FROM transfers WHERE number = NEW.number)
        BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
        CREATE TRIGGER audit_is_never_replaced BEFORE INSERT ON audit
        WHEN EXISTS (SELECT 1 FROM audit WHERE number = NEW.number)
        BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
        """

    // Earlier versions did not record the devices of sessions. So the devices of registered
    // accounts remain in the era before, and their users sign in after a reinstall; their sessions
    // continue. The sessions of a guest with one device are that device's.
    private static let eras = """
        ALTER TABLE accounts ADD COLUMN era INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE devices ADD COLUMN era INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE sessions ADD COLUMN device TEXT;
        ALTER TABLE sessions ADD COLUMN era INTEGER NOT NULL DEFAULT 0;
        UPDATE sessions SET era = 1
            WHERE account IN (SELECT id FROM accounts WHERE kind = 'registered');
        UPDATE accounts SET era = 1 WHERE kind = 'registered';
        UPDATE sessions SET device = (
                SELECT min(id) FROM devices WHERE devices.account = sessions.account
                GROUP BY devices.account HAVING count(*) = 1
            )
            WHERE ended_at IS NULL AND era = 0;
        """

    // `labels` is the JSON of `ChargeLabels`; NULL for none. Open holds of a period may return
    // their units to it.
    private static let metering = """
        ALTER TABLE transfers ADD COLUMN labels TEXT;
        ALTER TABLE holds ADD COLUMN labels TEXT;
        ALTER TABLE quotas ADD COLUMN held INTEGER NOT NULL DEFAULT 0;
        UPDATE quotas SET held = min(used, ifnull((
            SELECT sum(quota_units) FROM holds
            WHERE holds.account = quotas.account AND state = 0
                AND quota = quotas.name AND quota_day = quotas.day
        ), 0));
        """

    // An account is in the index until its end was put into the feed.
    private static let planEnds = """
        CREATE INDEX accounts_by_plan_end ON accounts (plan_expires_at, id)
            WHERE plan_expires_at IS NOT NULL AND state = 0 AND plan <> 'free';
        """

    private static let threadCounts = """
        ALTER TABLE feeds ADD COLUMN threads INTEGER NOT NULL DEFAULT 0;
        UPDATE feeds SET threads = (
            SELECT count(*) FROM records
            WHERE collection = '$threads' AND scope = feeds.account AND deleted_at IS NULL
        );
        """
}
