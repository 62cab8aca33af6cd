public import SanguineModel

/// What ``SanguineClient/perform(_:)-(RecordMutation)`` gives for an operation that is taken in.
public struct Receipt: Sendable {
    /// What became of an operation.
    public enum Outcome: Hashable, Sendable {
        /// The authority has done it.
        case applied
        /// The authority has not done it, and never will; it is in the tray, see
        /// ``Outbox/refused``.
        case refused(Problem)
        /// It was taken back before it was sent, see ``Receipt/withdraw()``, or superseded by
        /// another one, see `Superseding`.
        case withdrawn
    }

    /// The operation's id.
    public let id: Identifier
    let shot: OneShot<Outcome>
    private let takeBack: @Sendable () throws(SanguineError) -> Bool

    init(
        id: Identifier,
        shot: OneShot<Outcome>,
        takeBack: @escaping @Sendable () throws(SanguineError) -> Bool
    ) {
        (self.id, self.shot, self.takeBack) = (id, shot, takeBack)
    }

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

    /// Takes the operation back if it has surely reached nobody: an undo.
    ///
    /// ```swift
    /// if try !receipt.withdraw() { try client.perform(Unlike(track: track)) }
    /// ```
    ///
    /// As ``Outbox/withdraw(_:)`` does.
    ///
    /// - Returns: Whether it was taken back; `false` if it was sent, may have been, or is over.
    /// - Throws: ``SanguineError``: `store` if the disk failed, and nothing has changed then;
    ///   ``SanguineError/userChanged`` after a sign-out, ``SanguineError/closed`` after the
    ///   client's end.
    public func withdraw() throws(SanguineError) -> Bool { try takeBack() }
}
