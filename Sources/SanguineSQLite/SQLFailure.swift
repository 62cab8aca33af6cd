import GRDB
import GRDBSQLite
import SanguineAuthority

/// An error of SQLite.
struct SQLFailure: Error, Hashable {
    /// The extended result code.
    let code: Int32
    /// SQLite's message.
    let message: String

    init(code: Int32, message: String) {
        self.code = code
        self.message = message
    }

    /// Captures the connection's last error.
    init(code: Int32, on connection: OpaquePointer?) {
        let extended = sqlite3_extended_errcode(connection)
        // If the connection remembers another error, the given code is more reliable.
        let agrees = extended & 0xFF == code & 0xFF
        self.code = agrees ? extended : code
        message = String(cString: agrees ? sqlite3_errmsg(connection) : sqlite3_errstr(code))
    }

    /// Converts an error of GRDB.
    init(_ error: DatabaseError) {
        self.init(
            code: error.extendedResultCode.rawValue,
            message: error.message ?? "unknown"
        )
    }

    /// The error of a row with unexpected content.
    static func unreadable(_ what: String) -> SQLFailure {
        SQLFailure(code: SQLITE_CORRUPT, message: "\(what) cannot be decoded")
    }

    /// The code for a page that the disk could not read: `SQLITE_IOERR_CORRUPTFS`.
    static let unreadableDisk = SQLITE_IOERR | 33 << 8

    /// Whether the disk could not read a page: `SQLITE_IOERR_READ`, `_SHORT_READ`, `_DATA`,
    /// `_CORRUPTFS`.
    private var isUnreadablePage: Bool {
        [1, 2, 32, 33].contains { code == SQLITE_IOERR | $0 << 8 }
    }

    /// The message and the code, which SQLite's documentation explains.
    var explanation: String { "\(message) (SQLite \(code))" }

    /// The storage error of a change that was rolled back.
    var asStorageError: StorageError {
        switch code & 0xFF {
        case SQLITE_FULL: .full(explanation)
        case SQLITE_READONLY: .readOnly(explanation)
        case SQLITE_CORRUPT, SQLITE_NOTADB: .damaged(explanation)
        case SQLITE_IOERR where isUnreadablePage: .damaged(explanation)
        default: .failed(explanation)
        }
    }

    /// The storage error of a failed commit.
    ///
    /// An I/O error may occur after the commit's last frame was written: if the process crashed
    /// now, recovery would find the frame and treat the commit as done. All other errors occur
    /// before.
    var asCommitError: StorageError {
        code & 0xFF == SQLITE_IOERR ? .unknownOutcome(explanation) : asStorageError
    }
}
