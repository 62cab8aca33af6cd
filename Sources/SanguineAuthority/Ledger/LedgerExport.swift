import SanguineModel
import Synchronization

/// A format of the exported ledger.
package enum LedgerFormat: String, Sendable, CaseIterable {
    /// Comma-separated values (RFC 4180), with a header.
    case csv
    /// CloudEvents 1.0 in JSON, one event per line.
    case cloudEvents = "cloudevents"

    /// The format that an `Accept` field asks for: CSV if it names it, otherwise CloudEvents.
    package init(accept: String?) {
        let names = (accept ?? "").lowercased().split { $0 == "," || $0 == ";" }
        let isCSV = names.contains { name in
            name.drop(while: \.isWhitespace).hasPrefix("text/csv")
        }
        self = isCSV ? .csv : .cloudEvents
    }

    /// The media type.
    package var mediaType: String {
        switch self {
        case .csv: "text/csv; charset=utf-8; header=present"
        case .cloudEvents: "application/jsonl"
        }
    }

    /// The bytes before the first entry.
    package var header: [UInt8] {
        switch self {
        case .csv:
            Array(
                """
                number,id,account,kind,amount,available_after,held_after,reason,function,at,\
                model,key,tag\r\n
                """.utf8
            )
        case .cloudEvents: []
        }
    }

    /// Returns the line of an entry, with its end.
    package func line(_ entry: NumberedTransfer) -> [UInt8] {
        switch self {
        case .csv: Array(Self.csv(entry).utf8)
        case .cloudEvents: ResponseEncoder.encode(LedgerEvent(entry)) + [UInt8(ascii: "\n")]
        }
    }

    private static func csv(_ entry: NumberedTransfer) -> String {
        let transfer = entry.transfer
        return """
            \(entry.number),\(transfer.id),\(transfer.account),\(transfer.kind.rawValue),\
            \(transfer.availableChange),\(transfer.availableAfter),\(transfer.heldAfter),\
            \(CSVText.field(transfer.reason)),\
            \(CSVText.field(transfer.chargedFunction ?? "")),\(transfer.at),\
            \(CSVText.field(transfer.labels.model ?? "")),\
            \(CSVText.field(transfer.labels.key ?? "")),\
            \(CSVText.field(transfer.labels.tag ?? ""))\r\n
            """
    }
}

/// The text of fields in CSV (RFC 4180).
enum CSVText {
    /// Returns a field, quoted if necessary.
    ///
    /// An apostrophe precedes what a spreadsheet would run as a formula: at the beginning, and
    /// after a semicolon, at which many spreadsheets split a line even if its separator is the
    /// comma.
    static func field(_ text: String) -> String {
        let text = inert(text)
        let special = "\",\r\n".utf8
        guard text.utf8.contains(where: { special.contains($0) }) else { return text }
        return "\""
            + text.split(separator: "\"", omittingEmptySubsequences: false)
            .joined(separator: "\"\"") + "\""
    }

    /// The beginnings of formulas; spreadsheets in East Asia also accept the fullwidth forms.
    private static let formulaStarts = Set(
        "=+-@\t\r\u{FF1D}\u{FF0B}\u{FF0D}\u{FF20}".unicodeScalars
    )

    private static func inert(_ text: String) -> String {
        var scalars = String.UnicodeScalarView()
        var isAtStart = true
        for scalar in text.unicodeScalars {
            if isAtStart, formulaStarts.contains(scalar) { scalars.append("'") }
            scalars.append(scalar)
            isAtStart = scalar == ";"
        }
        return String(scalars)
    }
}

/// An entry of the ledger as a CloudEvent (version 1.0).
private struct LedgerEvent: Encodable {
    struct Content: Encodable {
        var number: Int64
        var kind: LedgerEntry.Kind
        var amount: Int64
        var availableAfter: Int64
        var heldAfter: Int64
        var reason: String
        var function: String?
        var model: String?
        var key: String?
        var tag: String?
    }

    let specversion = "1.0"
    let source = "/v1/ledger"
    let datacontenttype = "application/json"
    var id: Identifier
    var type: String
    var subject: Identifier
    var time: Timestamp
    var data: Content

    init(_ entry: NumberedTransfer) {
        let transfer = entry.transfer
        id = transfer.id
        type = "sanguine.ledger.\(transfer.kind.rawValue)"
        subject = transfer.account
        time = transfer.at
        data = Content(
            number: entry.number,
            kind: transfer.kind,
            amount: transfer.availableChange,
            availableAfter: transfer.availableAfter,
            heldAfter: transfer.heldAfter,
            reason: transfer.reason,
            function: transfer.chargedFunction,
            model: transfer.labels.model,
            key: transfer.labels.key,
            tag: transfer.labels.tag
        )
    }
}

/// A ledger that is exported page by page, in constant memory.
///
/// Mutable state: `state`, guarded by its mutex; one reader asks for one piece at a time.
package final class LedgerExport: Sendable {
    private struct State {
        var hasBegun = false
        var number: Int64?
        var isDone = false
        var isComplete = false
    }

    private let format: LedgerFormat
    private let page: @Sendable (Int64?) async throws(StorageError) -> [NumberedTransfer]
    private let state = Mutex(State())

    /// Creates an export.
    ///
    /// - Parameters:
    ///   - format: The format.
    ///   - page: Returns the entries after the one with the number, `nil` for the first; at most
    ///     ``pageSize``, and fewer only at the end.
    package init(
        _ format: LedgerFormat,
        page: @escaping @Sendable (Int64?) async throws(StorageError) -> [NumberedTransfer]
    ) {
        self.format = format
        self.page = page
    }

    /// The number of entries of a page: 500.
    package static let pageSize = Authority.ledgerPage

    /// Whether everything was returned, as opposed to an export that failed or was closed.
    package var isComplete: Bool { state.withLock(\.isComplete) }

    /// Returns the next bytes; `nil` at the end.
    ///
    /// - Throws: ``StorageError`` if the entries could not be read.
    package func next() async throws(StorageError) -> [UInt8]? {
        let (number, begins, isDone) = state.withLock { state in
            defer { state.hasBegun = true }
            return (state.number, !state.hasBegun, state.isDone)
        }
        guard !isDone else { return nil }
        let entries = try await page(number)
        state.withLock { state in
            state.number = entries.last?.number ?? state.number
            guard entries.count < Self.pageSize else { return }
            state.isDone = true
            state.isComplete = true
        }
        let bytes = (begins ? format.header : []) + entries.flatMap(format.line)
        return bytes.isEmpty ? nil : bytes
    }

    /// Ends the export.
    package func close() { state.withLock { $0.isDone = true } }

    /// The export as a response that is sent while it is read.
    package func response() -> WireResponse {
        var stream = WireStream(
            next: { [self] in
                do { return try await next() } catch { return nil }
            },
            close: { [self] in close() }
        )
        stream.isComplete = { [self] in isComplete }
        var response = WireResponse(
            status: 200,
            fields: [(.contentType, format.mediaType), (.cacheControl, "private, no-store")]
        )
        response.stream = stream
        return response
    }
}

extension Authority {
    /// Exports the ledger of an account and of the guests that were merged into it, newest first.
    ///
    /// - Throws: `not_found`.
    func export(
        of account: Identifier,
        as format: LedgerFormat
    ) async throws(Problem) -> LedgerExport {
        _ = try await self.account(account)
        let owners = try await ledgerOwners(of: account)
        return LedgerExport(format) { [storage] number throws(StorageError) in
            try await storage.transfers(
                ofAll: owners,
                before: number,
                limit: LedgerExport.pageSize
            )
        }
    }

    /// Exports the ledger of all accounts, oldest first.
    package func exportLedger(as format: LedgerFormat) -> LedgerExport {
        LedgerExport(format) { [storage] number throws(StorageError) in
            try await storage.transfers(after: number ?? 0, limit: LedgerExport.pageSize)
        }
    }
}
