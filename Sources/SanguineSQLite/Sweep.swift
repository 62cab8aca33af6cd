import SanguineAuthority
import SanguineModel

/// Removes expired data, in one transaction on the writer's thread.
///
/// It changes no cached rows.
struct Sweep {
    let horizon: SweepHorizon
    let limit: Int

    /// Returns the number of rows that were deleted or emptied.
    func perform(on connection: WriteConnection) throws(SQLFailure) -> Int {
        try connection.inTransaction { () throws(SQLFailure) in
            try sweepAnswers(on: connection)
                + sweepRows(
                    on: connection,
                    """
                    DELETE FROM sessions WHERE id IN (
                        SELECT id FROM (
                            SELECT id FROM sessions WHERE expires_at < ?1
                            UNION
                            SELECT id FROM sessions WHERE ended_at IS NOT NULL AND ended_at < ?1
                        ) ORDER BY id LIMIT ?2
                    ) RETURNING 1
                    """,
                    before: horizon.sessions
                )
                + sweepRows(
                    on: connection,
                    """
                    DELETE FROM holds WHERE id IN (
                        SELECT id FROM holds WHERE state <> 0 AND expires_at < ?1
                        ORDER BY expires_at, id LIMIT ?2
                    ) RETURNING 1
                    """,
                    before: horizon.holds
                )
                + sweepRows(
                    on: connection,
                    """
                    DELETE FROM results WHERE number IN (
                        SELECT number FROM results WHERE expires_at < ?1
                        ORDER BY expires_at LIMIT ?2
                    ) RETURNING 1
                    """,
                    before: horizon.results
                )
                + sweepRows(
                    on: connection,
                    """
                    DELETE FROM parts WHERE number IN (
                        SELECT number FROM parts WHERE at < ?1 ORDER BY at LIMIT ?2
                    ) RETURNING 1
                    """,
                    before: horizon.parts
                )
                + sweepRows(
                    on: connection,
                    """
                    DELETE FROM documents WHERE (kind, id) IN (
                        SELECT kind, id FROM documents WHERE expires_at < ?1
                        ORDER BY expires_at LIMIT ?2
                    ) RETURNING 1
                    """,
                    before: horizon.documents
                )
                + sweepTombstones(on: connection)
        }
    }

    private func sweepRows(
        on connection: WriteConnection,
        _ sql: String,
        before moment: Timestamp
    ) throws(SQLFailure) -> Int {
        let statement = try connection.statement(sql)
        statement.bind(moment)
        statement.bind(limit: limit)
        return try statement.all { _ in () }.count
    }

    /// The properties of a tombstone that is removed.
    private struct Tombstone {
        let number: Int64
        let owner: Identifier
        let seq: Int64
        let bytes: Int64
    }

    private func sweepTombstones(on connection: WriteConnection) throws(SQLFailure) -> Int {
        let deleted = try connection.statement(
            """
            SELECT number, owner, seq, length(value) + ? FROM records
            WHERE deleted_at IS NOT NULL AND deleted_at < ?
            ORDER BY deleted_at, collection, scope, id LIMIT ?
            """
        )
        deleted.bind(RecordRow.overheadBytes)
        deleted.bind(horizon.tombstones)
        deleted.bind(limit: limit)
        let tombstones = try deleted.all { row throws(SQLFailure) in
            Tombstone(
                number: row.integer(0),
                owner: try row.identifier(1),
                seq: row.integer(2),
                bytes: row.integer(3)
            )
        }
        let delete = try connection.statement("DELETE FROM records WHERE number = ?")
        // The same changes as those of `FeedRow.drop`.
        let note = try connection.statement(
            """
            INSERT INTO feeds (account, records, horizon, tombstones, bytes)
            VALUES (?1, 0, max(0, ?2), 0, 0)
            ON CONFLICT (account) DO UPDATE SET
                horizon = max(horizon, excluded.horizon),
                tombstones = max(0, tombstones - 1),
                bytes = max(0, bytes - ?3)
            """
        )
        for tombstone in tombstones {
            delete.bind(tombstone.number)
            try delete.run()
            note.bind(tombstone.owner)
            note.bind(tombstone.seq)
            note.bind(tombstone.bytes)
            try note.run()
        }
        return tombstones.count
    }

    private func sweepAnswers(on connection: WriteConnection) throws(SQLFailure) -> Int {
        let done = try connection.statement(
            """
            SELECT account, key, head IS NOT NULL FROM operations
            WHERE state = 1 AND at < ? ORDER BY at, account, key LIMIT ?
            """
        )
        done.bind(horizon.answers)
        done.bind(limit: limit)
        let operations = try done.all {
            (row) throws(SQLFailure) -> (account: Identifier, key: String, isKept: Bool) in
            (try row.identifier(0), row.text(1), row.integer(2) != 0)
        }
        let forget = try connection.statement(
            """
            UPDATE operations SET state = 2, status = NULL, head = NULL, body = NULL
            WHERE account = ? AND key = ?
            """
        )
        let delete = try connection.statement(OperationRow.deleteSQL)
        for operation in operations {
            let statement = operation.isKept ? forget : delete
            statement.bind(operation.account)
            statement.bind(operation.key)
            try statement.run()
        }
        return operations.count
    }
}
