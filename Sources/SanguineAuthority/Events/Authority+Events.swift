import Crypto
import Foundation
package import SanguineModel

/// An event that waits to be delivered, as a CloudEvent.
package struct OutgoingEvent: Hashable, Sendable {
    /// The id of its document.
    package let documentID: String
    /// The id that every delivery has.
    package let id: String
    /// The keyed hash of the account; events of one account are delivered in order.
    package let subject: String
    /// The CloudEvent 1.0 in JSON; empty for an event that a newer version of the server stored,
    /// and that this one cannot read.
    package let body: [UInt8]

    /// Creates an event.
    package init(documentID: String, id: String, subject: String, body: [UInt8]) {
        self.documentID = documentID
        self.id = id
        self.subject = subject
        self.body = body
    }
}

/// The members of a CloudEvent (version 1.0).
private struct CloudEvent: Encodable {
    let specversion = "1.0"
    let datacontenttype = "application/json"
    var id: Identifier
    var source: String
    var type: String
    var subject: String
    var time: Timestamp
    var data: [String: JSONValue]
}

extension Authority {
    /// Returns the oldest events that wait to be delivered.
    package func waitingEvents(
        after documentID: String? = nil,
        limit: Int
    ) async throws(Problem) -> [OutgoingEvent] {
        let rows = try await eventRows(after: documentID, limit: limit)
        return rows.map { row in
            guard let event = try? AnalyticsEvent(row) else {
                return OutgoingEvent(documentID: row.id, id: "", subject: "", body: [])
            }
            return outgoing(event, row.id)
        }
    }

    /// Removes events that were delivered or are given up.
    package func removeEvents(_ documentIDs: [String]) async throws(Problem) {
        guard !documentIDs.isEmpty else { return }
        try await perform(
            Command(keys: []) { _ in
                Decision((), changes: documentIDs.map { .delete(.document(.event, id: $0)) })
            }
        )
    }

    /// Removes the oldest events beyond a number.
    ///
    /// - Returns: The number of waiting events, and of those that were removed.
    package func trimEvents(
        to limit: Int
    ) async throws(Problem) -> (waiting: Int, dropped: Int) {
        var count = 0
        var last: String?
        while true {
            let rows = try await eventRows(after: last, limit: Self.eventPage)
            count += rows.count
            guard let next = rows.last, rows.count == Self.eventPage else { break }
            last = next.id
        }
        var dropped = 0
        while count - dropped > limit {
            let rows = try await eventRows(
                after: nil,
                limit: min(Self.eventPage, count - dropped - limit)
            )
            guard !rows.isEmpty else { break }
            try await removeEvents(rows.map(\.id))
            dropped += rows.count
        }
        return (count - dropped, dropped)
    }

    /// The keyed hash that stands for an account in events.
    ///
    /// It is the same for all events of the account as long as the server has the same keys, and
    /// cannot be computed without them.
    func subject(of account: Identifier) -> String {
        let key = HKDF<SHA256>.deriveKey(
            inputKeyMaterial: keys.refreshKey,
            info: Data("subjects of events".utf8),
            outputByteCount: 32
        )
        let code = HMAC<SHA256>.authenticationCode(for: Data(account.bytes), using: key)
        return Base64URL.encode(Data(Data(code).prefix(16)))
    }

    /// The source of events: a reference to a URI (RFC 3986), as CloudEvents requires.
    private var source: String {
        let issuer = settings.issuer.addingPercentEncoding(withAllowedCharacters: .urlPathAllowed)
        return "/\(issuer ?? "")"
    }

    private static let eventPage = 1_000

    private func eventRows(
        after documentID: String?,
        limit: Int
    ) async throws(Problem) -> [DocumentRow] {
        try await read { storage throws(StorageError) in
            try await storage.documents(
                DocumentQuery(.event, after: documentID, limit: limit)
            )
        }
    }

    private func outgoing(_ event: AnalyticsEvent, _ documentID: String) -> OutgoingEvent {
        let subject = subject(of: event.account)
        let message = CloudEvent(
            id: event.id,
            source: source,
            type: "sanguine.\(event.kind.rawValue)",
            subject: subject,
            time: event.at,
            data: event.data
        )
        return OutgoingEvent(
            documentID: documentID,
            id: event.id.description,
            subject: subject,
            body: ResponseEncoder.encode(message)
        )
    }
}
