import Crypto
public import SanguineModel

/// A request with a change, as received: its idempotency key and its content.
///
/// The content may already be a refusal. It is thrown only after the key was looked up, because a
/// repetition is recognized before its content is checked.
public struct Submission<Content: Sendable>: Sendable {
    /// The idempotency key that the client chose.
    public var key: String
    /// The fingerprint, which distinguishes a repetition from another request.
    public var fingerprint: Fingerprint
    /// The decoded content, or the problem of decoding it.
    public var content: Result<Content, Problem>
    /// Whether the request may be repeated; it cannot be if only the server knows the key.
    ///
    /// Default: true.
    public var mayComeAgain = true
    /// The labels of the charge, which do not distinguish a repetition from another request.
    ///
    /// Default: none.
    public var labels = ChargeLabels()

    /// Creates a submission.
    public init(key: String, fingerprint: Fingerprint, content: Result<Content, Problem>) {
        self.key = key
        self.fingerprint = fingerprint
        self.content = content
    }

    /// Returns the same submission with other content.
    package func with<Other>(_ content: Result<Other, Problem>) -> Submission<Other> {
        var other = Submission<Other>(key: key, fingerprint: fingerprint, content: content)
        other.mayComeAgain = mayComeAgain
        other.labels = labels
        return other
    }

    /// Returns the same submission with transformed content.
    package func map<Other>(_ transform: (Content) -> Other) -> Submission<Other> {
        with(content.map(transform))
    }
}

/// The SHA-256 of a request's meaning: its call and its content, each prefixed with its length.
public struct Fingerprint: Hashable, Sendable {
    /// The 32 bytes.
    public let bytes: [UInt8]

    /// Creates a fingerprint from the parts of a request.
    public init(_ parts: String...) {
        var hash = SHA256()
        for part in parts {
            var length = UInt64(part.utf8.count).bigEndian
            withUnsafeBytes(of: &length) { hash.update(bufferPointer: $0) }
            var part = part
            part.withUTF8 { hash.update(bufferPointer: UnsafeRawBufferPointer($0)) }
        }
        bytes = Array(hash.finalize())
    }
}

/// The response to an operation, either new or replayed.
public struct Answer: Hashable, Sendable {
    /// Status, body and head.
    public var stored: StoredAnswer
    /// Whether the answer is replayed.
    public var replayed: Bool

    /// Creates an answer.
    public init(_ stored: StoredAnswer, replayed: Bool = false) {
        self.stored = stored
        self.replayed = replayed
    }
}

/// Decides whether an operation is new.
///
/// Checks in this order: another request with the same key, one that is still running, one whose
/// answer is no longer stored.
enum Idempotency {
    /// Returns the stored answer of an operation that is done, or `nil` if the operation is new or
    /// failed without a charge, so that it runs again.
    static func replay(
        _ row: OperationRow?,
        fingerprint: Fingerprint
    ) throws(Problem) -> StoredAnswer? {
        guard let row else { return nil }
        guard row.fingerprint == fingerprint.bytes else {
            throw .otherRequest
        }
        switch row.state {
        case .done(let answer):
            return answer.isFinal ? answer : nil
        case .running:
            throw .stillRuns
        case .forgotten, .pushed:
            throw Problem(
                .idempotencyExpired,
                """
                The operation took effect when it was first sent. See the balance or the ledger \
                for its result, and use a new Idempotency-Key for a new operation.
                """
            )
        }
    }
}

extension StoredAnswer {
    /// Whether a repetition of the request receives this answer.
    ///
    /// A refusal or failure without a charge or change is not final: the answer shows the result
    /// until the same key runs again. A failure that was charged has the member `charged`.
    var isFinal: Bool {
        guard [402, 429, 502, 503, 504].contains(status),
            let problem = try? JSONParser.parse(body, limits: .stored).value
        else { return true }
        return problem["charged"] != nil
    }
}
