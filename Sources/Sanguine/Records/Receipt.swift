public import SanguineModel

/// What ``SanguineClient/perform(_:)-(Mutator)`` gives for an operation that is taken in.
public struct Receipt: Sendable {
    /// What became of an operation.
    public enum Outcome: Hashable, Sendable {
        /// The authority has done it.
        case applied
        /// The authority has not done it, and never will; it is in the tray, see
        /// ``Outbox/refused``.
        case refused(Problem)
    }

    /// The operation's id.
    public let id: Identifier
    let shot: OneShot<Outcome>

    /// What became of the operation, as soon as the authority has said so.
    ///
    /// That may take as long as the network is away, and nobody has to ask. A caller whose task is
    /// cancelled stops waiting; the operation goes on.
    ///
    /// - Throws: ``SanguineError/cancelled``; ``SanguineError/userChanged`` after a sign-out and
    ///   ``SanguineError/closed`` after the client's end: the operation is kept, and is sent later.
    public var outcome: Outcome {
        get async throws(SanguineError) { try await shot.value() }
    }
}
