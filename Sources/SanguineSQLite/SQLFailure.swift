import GRDB
import GRDBSQLite
import SanguineAuthority

/// What SQLite said when it could not do something.
struct SQLFailure: Error, Hashable {
    /// The extended result code.
    let code: Int32
    /// SQLite's own words.
    let message: String

    init(code: Int32, message: String) {
        self.code = code
        self.message = message
    }

    /// Takes the reason of the connection's last failure.
    init(code: Int32, on connection: OpaquePointer?) {
        let extended = sqlite3_extended_errcode(connection)
        // Where the connection remembers another failure, the code at hand is the better witness.
        let agrees = extended & 0xFF == code & 0xFF
        self.code = agrees ? extended : code
        message = String(cString: agrees ? sqlite3_errmsg(connection) : sqlite3_errstr(code))
    }

    /// Takes over what GRDB has thrown.
    init(_ error: DatabaseError) {
        self.init(
            code: error.extendedResultCode.rawValue,
            message: error.message ?? "unknown"
        )
    }

    /// A row that does not read back as what it must be.
    static func unreadable(_ what: String) -> SQLFailure {
        SQLFailure(code: SQLITE_CORRUPT, message: "\(what) does not read back")
    }

    /// The code of a page that the disk does not give back: `SQLITE_IOERR_CORRUPTFS`.
    static let unreadableDisk = SQLITE_IOERR | 33 << 8

    /// Whether the disk did not give back a page: `SQLITE_IOERR_READ`, `_SHORT_READ`, `_DATA`,
    /// `_CORRUPTFS`.
    private var isUnreadablePage: Bool {
        [1, 2, 32, 33].contains { code == SQLITE_IOERR | $0 << 8 }
    }

    /// The text for people: the words and the code, which SQLite's documentation lists.
    var explanation: String { "\(message) (SQLite \(code))" }

    /// What a caller learns whose change was rolled back.
    var asStorageError: StorageError {
        switch code & 0xFF {
        case SQLITE_FULL: .full(explanation)
        case SQLITE_READONLY: .readOnly(explanation)
        case SQLITE_CORRUPT, SQLITE_NOTADB: .damaged(explanation)
        case SQLITE_IOERR where isUnreadablePage: .damaged(explanation)
        default: .failed(explanation)
        }
    }

    /// What callers learn whose commit failed.
    ///
    /// An I/O error may have come after the commit's last frame was written: if the process died
    /// now, recovery would find the frame and take the commit for done. Any other code is given
    /// before.
    var asCommitError: StorageError {
        code & 0xFF == SQLITE_IOERR ? .unknownOutcome(explanation) : asStorageError
    }
}
