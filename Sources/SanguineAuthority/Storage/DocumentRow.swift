import Foundation
public import SanguineModel

/// A kind of ``DocumentRow``.
public enum DocumentKind: String, Hashable, Sendable, CaseIterable {
    /// A way to sign in: an e-mail address, or the subject of an identity provider.
    case login
    /// An e-mail address or a password that waits for its code.
    case verification
    /// An identity token that was used.
    case identityToken = "identity_token"
    /// A code that moves a guest to another device.
    case moveCode = "move_code"
    /// A message that waits to be sent by e-mail.
    case mail
    /// A transaction of a store.
    case purchase
    /// The count of failed attempts of a login or an address.
    case attempts
    /// An event for analytics that waits to be delivered.
    case event
    /// The report that a quota was exhausted in a period.
    case quotaExhaustion = "quota_exhaustion"
    /// The progress of a removal of an account.
    case removal
    /// A merge of a guest into an account that was done.
    case merge
    /// The fact that a device which was removed had a grant of tokens.
    case deviceGrant = "device_grant"
    /// The number of guests of an address.
    case guestCount = "guest_count"
    /// A key that a device has attested, and the sessions and challenges that used it.
    case attestation
    /// A deleted thread whose messages remain to be removed.
    case threadRemoval = "thread_removal"
    /// A thread that its user has deleted.
    case deletedThread = "deleted_thread"
    /// The switches that all apps receive.
    case switches
    /// The number of records that refer to a record.
    case recordTally = "record_tally"
    /// A resumable upload.
    case upload
}

/// A row that is found by its kind and name, and stored as JSON.
///
/// Rows that are searched by other members, or that every request reads, have tables of their own.
public struct DocumentRow: Hashable, Sendable {
    /// The kind, which is a part of the key.
    public var kind: DocumentKind
    /// The name within its kind, in ASCII: Swift and databases compare other text differently.
    public var id: String
    /// The account whose removal removes the document; `nil` for none.
    public var account: Identifier?
    /// The time after which a sweep removes the document; `nil` for never.
    public var expiresAt: Timestamp?
    /// The JSON of the document.
    public var body: [UInt8]

    /// Creates the row.
    public init(
        kind: DocumentKind,
        id: String,
        account: Identifier? = nil,
        expiresAt: Timestamp? = nil,
        body: [UInt8]
    ) {
        precondition(id.utf8.allSatisfy { $0 < 0x80 }, "The id of a document must be ASCII.")
        self.kind = kind
        self.id = id
        self.account = account
        self.expiresAt = expiresAt
        self.body = body
    }
}

/// A part of the documents of one kind.
public struct DocumentQuery: Hashable, Sendable {
    /// The kind.
    public var kind: DocumentKind
    /// The account of the documents; `nil` for all documents of the kind.
    public var account: Identifier?
    /// The id after which the part begins, by its bytes; `nil` for the first document.
    public var after: String?
    /// The maximum number of documents.
    public var limit: Int

    /// Creates the query.
    public init(
        _ kind: DocumentKind,
        of account: Identifier? = nil,
        after: String? = nil,
        limit: Int
    ) {
        self.kind = kind
        self.account = account
        self.after = after
        self.limit = limit
    }
}

/// A type that is stored as the body of a ``DocumentRow``.
protocol StoredDocument: Codable, Sendable {
    /// The kind of the document.
    static var kind: DocumentKind { get }
    /// See ``DocumentRow/id``.
    var documentID: String { get }
    /// See ``DocumentRow/account``.
    var documentAccount: Identifier? { get }
    /// See ``DocumentRow/expiresAt``.
    var documentExpiry: Timestamp? { get }
}

extension StoredDocument {
    var documentExpiry: Timestamp? { nil }

    /// The row that stores the document.
    var row: DocumentRow {
        DocumentRow(
            kind: Self.kind,
            id: documentID,
            account: documentAccount,
            expiresAt: documentExpiry,
            body: ResponseEncoder.encode(self)
        )
    }

    /// The key of the document with the id.
    static func key(_ id: String) -> Key { .document(kind, id: id) }

    /// Decodes the document of a row.
    ///
    /// - Throws: `internal_fault` if a newer version of the server has written it.
    init(_ row: DocumentRow) throws(Problem) {
        do {
            self = try JSONDecoder().decode(Self.self, from: Data(row.body))
        } catch {
            throw Problem(
                .internalFault,
                "Try again. If the error persists, update the server: its data is newer than it is."
            )
        }
    }
}

extension Change {
    /// Writes the document.
    static func put(_ document: some StoredDocument) -> Change { .put(.document(document.row)) }

    /// Removes the document.
    static func delete(_ document: some StoredDocument) -> Change {
        .delete(document.row.key)
    }
}

extension DocumentRow {
    /// The key of the row.
    var key: Key { .document(kind, id: id) }
}

extension Loaded {
    /// Returns the document, if it was requested and exists.
    func document<Document: StoredDocument>(
        _ type: Document.Type,
        _ id: String
    ) throws(Problem) -> Document? {
        guard let row = document(type.kind, id) else { return nil }
        return try Document(row)
    }
}
