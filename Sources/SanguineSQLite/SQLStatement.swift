import GRDBSQLite
import SanguineModel

/// A prepared statement, used through SQLite's C interface.
///
/// GRDB opens and configures the connections, but its statements cost several times as much as
/// SQLite itself, and the writer has about 20 µs for each command.
///
/// Parameters are bound in order, one call each. The class is not sendable: it is used only
/// together with its connection.
final class SQLStatement {
    private let handle: OpaquePointer
    private let connection: OpaquePointer
    /// The number of parameters that were bound since the last reset.
    private var bound: Int32 = 0
    /// The first error of binding, which the next step throws.
    private var bindingCode: Int32 = SQLITE_OK

    /// Compiles one statement.
    init(_ sql: String, on connection: OpaquePointer) throws(SQLFailure) {
        var handle: OpaquePointer?
        let flags = UInt32(SQLITE_PREPARE_PERSISTENT)
        let code = sqlite3_prepare_v3(connection, sql, -1, flags, &handle, nil)
        guard code == SQLITE_OK, let handle else {
            throw SQLFailure(code: code, on: connection)
        }
        self.handle = handle
        self.connection = connection
    }

    deinit { sqlite3_finalize(handle) }

    // MARK: - Parameters

    func bind(_ number: Int64) {
        recordFailure(sqlite3_bind_int64(handle, next(), number))
    }

    func bind(_ number: Int64?) {
        if let number { bind(number) } else { bindNull() }
    }

    func bind(_ moment: Timestamp) {
        bind(moment.millisecondsSince1970)
    }

    func bind(_ moment: Timestamp?) {
        bind(moment?.millisecondsSince1970)
    }

    func bind(_ id: Identifier) {
        id.withBytes { bind($0) }
    }

    func bind(_ id: Identifier?) {
        if let id { bind(id) } else { bindNull() }
    }

    func bind(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { bind($0) }
    }

    private func bind(_ buffer: UnsafeRawBufferPointer) {
        let index = next()
        // A missing address would bind NULL instead of an empty blob.
        if buffer.isEmpty {
            recordFailure(sqlite3_bind_zeroblob(handle, index, 0))
        } else {
            let count = UInt64(buffer.count)
            recordFailure(
                sqlite3_bind_blob64(handle, index, buffer.baseAddress, count, Self.transient)
            )
        }
    }

    func bind(_ text: String) {
        let index = next()
        var text = text
        text.withUTF8 { buffer in
            buffer.withMemoryRebound(to: CChar.self) { characters in
                let count = UInt64(characters.count)
                // A non-null address even for an empty string, because a null address would bind
                // NULL.
                withUnsafePointer(to: 0 as CChar) { empty in
                    recordFailure(
                        sqlite3_bind_text64(
                            handle,
                            index,
                            characters.baseAddress ?? empty,
                            count,
                            Self.transient,
                            UInt8(SQLITE_UTF8)
                        )
                    )
                }
            }
        }
    }

    func bind(_ text: String?) {
        if let text { bind(text) } else { bindNull() }
    }

    func bindNull() {
        recordFailure(sqlite3_bind_null(handle, next()))
    }

    // MARK: - Execution

    /// Advances to the next row, and returns whether there is one.
    func step() throws(SQLFailure) -> Bool {
        guard bindingCode == SQLITE_OK else {
            throw SQLFailure(code: bindingCode, on: connection)
        }
        let code = sqlite3_step(handle)
        switch code {
        case SQLITE_ROW: return true
        case SQLITE_DONE: return false
        default: throw SQLFailure(code: code, on: connection)
        }
    }

    /// Runs the statement to its end, and resets it.
    func run() throws(SQLFailure) {
        defer { reset() }
        while try step() {}
    }

    /// Reads the first row, if there is one, and resets the statement.
    func first<Value>(
        _ read: (SQLStatement) throws(SQLFailure) -> Value
    ) throws(SQLFailure) -> Value? {
        defer { reset() }
        return try step() ? try read(self) : nil
    }

    /// Reads all rows, and resets the statement.
    func all<Value>(
        _ read: (SQLStatement) throws(SQLFailure) -> Value
    ) throws(SQLFailure) -> [Value] {
        defer { reset() }
        var values: [Value] = []
        while try step() { values.append(try read(self)) }
        return values
    }

    /// Resets the statement for the next use, and releases what it read.
    func reset() {
        sqlite3_reset(handle)
        bound = 0
        bindingCode = SQLITE_OK
    }

    /// Returns the steps of SQLite's virtual machine since the last call, a measure of the
    /// statement's cost that does not depend on the hardware.
    func stepsSinceLastCall() -> Int {
        Int(sqlite3_stmt_status(handle, SQLITE_STMTSTATUS_VM_STEP, 1))
    }

    // MARK: - Columns

    func integer(_ column: Int32) -> Int64 {
        sqlite3_column_int64(handle, column)
    }

    func isNull(_ column: Int32) -> Bool {
        sqlite3_column_type(handle, column) == SQLITE_NULL
    }

    func optionalInteger(_ column: Int32) -> Int64? {
        isNull(column) ? nil : integer(column)
    }

    func moment(_ column: Int32) -> Timestamp {
        Timestamp(millisecondsSince1970: integer(column))
    }

    func optionalMoment(_ column: Int32) -> Timestamp? {
        optionalInteger(column).map(Timestamp.init(millisecondsSince1970:))
    }

    func text(_ column: Int32) -> String {
        // Read the text first: reading it may convert it, which changes the count.
        guard let start = sqlite3_column_text(handle, column) else { return "" }
        let count = Int(sqlite3_column_bytes(handle, column))
        return String(decoding: UnsafeBufferPointer(start: start, count: count), as: UTF8.self)
    }

    func optionalText(_ column: Int32) -> String? {
        isNull(column) ? nil : text(column)
    }

    func bytes(_ column: Int32) -> [UInt8] {
        guard let start = sqlite3_column_blob(handle, column) else { return [] }
        let count = Int(sqlite3_column_bytes(handle, column))
        return [UInt8](UnsafeRawBufferPointer(start: start, count: count))
    }

    func identifier(_ column: Int32) throws(SQLFailure) -> Identifier {
        // Read from SQLite's memory, which remains valid until the next step.
        guard let start = sqlite3_column_blob(handle, column),
            let id = Identifier(
                copying: UnsafeRawBufferPointer(
                    start: start,
                    count: Int(sqlite3_column_bytes(handle, column))
                )
            )
        else { throw .unreadable("An id") }
        return id
    }

    func optionalIdentifier(_ column: Int32) throws(SQLFailure) -> Identifier? {
        isNull(column) ? nil : try identifier(column)
    }

    // MARK: - Helpers

    /// Makes SQLite copy bound values, because Swift's buffers are valid only during the call.
    private static var transient: sqlite3_destructor_type {
        // SQLite's SQLITE_TRANSIENT, a marker that SQLite compares and never calls.
        unsafeBitCast(-1, to: sqlite3_destructor_type.self)
    }

    private func next() -> Int32 {
        bound += 1
        return bound
    }

    private func recordFailure(_ code: Int32) {
        if bindingCode == SQLITE_OK { bindingCode = code }
    }
}
