import Crypto
public import SanguineModel

/// A request that changes something, as it arrived: under a key, with what it asks for.
///
/// The content may be a refusal already. It is raised only after the key was looked up, because a
/// repetition is recognized before content is judged.
public struct Submission<Content: Sendable>: Sendable {
    /// The idempotency key that the client chose.
    public var key: String
    /// What tells a repetition from another request.
    public var fingerprint: Fingerprint
    /// What is asked for, or why that cannot be made out.
    public var content: Result<Content, Problem>
    /// Whether it may come again; not if nobody but the server knows the key.
    ///
    /// Default: it may.
    public var mayComeAgain = true

    /// Creates a submission.
    public init(key: String, fingerprint: Fingerprint, content: Result<Content, Problem>) {
        self.key = key
        self.fingerprint = fingerprint
        self.content = content
    }

    /// The same submission with another content.
    package func with<Other>(_ content: Result<Other, Problem>) -> Submission<Other> {
        var other = Submission<Other>(key: key, fingerprint: fingerprint, content: content)
        other.mayComeAgain = mayComeAgain
        return other
    }

    /// The same submission with what its content is made into.
    package func map<Other>(_ transform: (Content) -> Other) -> Submission<Other> {
        with(content.map(transform))
    }
}

/// SHA-256 over what a request means: its call and its content, each with its length.
public struct Fingerprint: Hashable, Sendable {
    /// The 32 bytes.
    public let bytes: [UInt8]

    /// Creates the fingerprint of a request from its parts.
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

/// What a request is answered with, fresh or once more.
public struct Answer: Hashable, Sendable {
    /// Status, body and head.
    public var stored: StoredAnswer
    /// Whether it was given before.
    public var replayed: Bool

    /// Creates an answer.
    public init(_ stored: StoredAnswer, replayed: Bool = false) {
        self.stored = stored
        self.replayed = replayed
    }
}

/// Decides whether an operation is new.
///
/// Refusals in their order: another request under the same key, then one that still runs, then one
/// whose answer is no longer kept.
enum Idempotency {
    /// Returns the stored answer of an operation that was done before, or `nil` if it is new, or
    /// failed without a charge: it runs again then.
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
                The operation took effect when it was first sent. Read the balance or the ledger \
                for its result, and choose a new Idempotency-Key for a new operation.
                """
            )
        }
    }
}

extension StoredAnswer {
    /// Whether the same request is answered with it again.
    ///
    /// Not a refusal or a failure that charged and changed nothing: it tells what became of the
    /// operation until the same key runs again. A failure that was charged says so in `charged`.
    var isFinal: Bool {
        guard [402, 429, 502, 503, 504].contains(status),
            let problem = try? JSONParser.parse(body, limits: .stored).value
        else { return true }
        return problem["charged"] != nil
    }
}

extension Problem {
    static var otherRequest: Problem {
        Problem(
            .idempotencyMismatch,
            "Choose a new Idempotency-Key: this one was used for a request with other content."
        )
    }

    static var stillRuns: Problem {
        Problem(
            .operationInProgress,
            "Wait, then send the same request with the same key to get its answer.",
            retryAfter: 1
        )
    }
}
