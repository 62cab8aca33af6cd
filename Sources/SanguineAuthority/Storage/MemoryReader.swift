import SanguineModel

/// Reads all rows of a storage in memory for a command's decision.
struct MemoryReader: RecordReader {
    let records: MemoryRecords
    let rows: [Key: Row]

    func record(_ name: RecordName) -> RecordRow? { records.record(name) }

    func ids(in list: IndexList, at key: IndexKey, limit: Int) -> [RecordID] {
        records.ids(in: list, at: key, limit: limit)
    }

    func tombstones(of account: Identifier, limit: Int) -> [RecordRow] {
        records.tombstones(of: account, limit: limit)
    }

    func records(
        in collection: String,
        after position: IndexBuild.Position?,
        limit: Int,
        bytes: Int
    ) -> [RecordRow] {
        records.records(in: collection, after: position, limit: limit, bytes: bytes)
    }

    func scopes(
        in collection: String,
        after position: IndexBuild.Position?,
        limit: Int
    ) -> [Identifier?] {
        records.scopes(in: collection, after: position, limit: limit)
    }

    func entries(in list: IndexList, limit: Int) -> [IndexEntry] {
        records.entries(in: list, limit: limit)
    }

    func liveRecords(of account: Identifier, after seq: Int64, limit: Int) -> [RecordRow] {
        records.liveRecords(of: account, after: seq, limit: limit)
    }

    func ownedRows(of account: Identifier) -> OwnedRows {
        var owned = OwnedRows()
        for row in rows.values {
            switch row {
            case .blob(let row) where row.account == account: owned.blobs.append(row)
            case .hold(let row) where row.account == account && row.state == .open:
                owned.openHolds.append(row)
            case .session(let row) where row.account == account && row.endedAt == nil:
                owned.sessions.append(row)
            case .document(let row) where row.account == account: owned.documents.append(row)
            case .operation(let row) where row.account == account:
                if case .running = row.state { owned.runningKeys.append(row.key) }
            default: break
            }
        }
        return owned
    }

    func document(_ kind: DocumentKind, id: String) -> DocumentRow? {
        guard case .document(let row)? = rows[.document(kind, id: id)] else { return nil }
        return row
    }

    func hasOperation(_ account: Identifier, key: String) -> Bool {
        rows[.operation(account, key: key)] != nil
    }

    func hasBlob(_ account: Identifier, _ id: BlobID) -> Bool { rows[.blob(account, id)] != nil }
}
