import GRDB
import SanguineModel

/// Identifies one of the rows that a key has had over time.
struct RowIdentity {
    let asOf: DatabaseValue
    let checksum: DatabaseValue

    init(_ row: Row) {
        (asOf, checksum) = (row["as_of"], row["checksum"])
    }

    init(_ entry: StoredEntry) {
        asOf = entry.asOf.millisecondsSince1970.databaseValue
        checksum = RowChecksum.of(entry.key, entry.value).databaseValue
    }
}
