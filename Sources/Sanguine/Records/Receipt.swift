public import SanguineModel

/// The result of ``SanguineClient/perform(_:)-(RecordMutation)`` for an accepted operation.
public struct Receipt: Sendable {
    /// The outcome of an operation.
    public enum Outcome: Hashable, Sendable {
        /// The authority has applied it.
        case applied
        /// The authority has refused it, and will never apply it; it is in the tray, see
        /// ``Outbox/refused``.
        case refused(Problem)
        /// It was withdrawn before it was sent, see ``Receipt/withdraw()``, or superseded by
        /// another operation, see `Superseding`.
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

    /// The outcome of the operation, as soon as the authority has answered.
    ///
    /// The wait may last as long as the network is unavailable, and it is optional: the operation
    /// is sent without it. A caller whose task is cancelled stops waiting; the operation continues.
    ///
    /// - Throws: ``SanguineError/cancelled``; ``SanguineError/userChanged`` after a sign-out and
    ///   ``SanguineError/closed`` after the client is closed: the operation is kept, and is sent
    ///   later.
    public var outcome: Outcome {
        get async throws(SanguineError) { try await shot.value() }
    }

    /// Withdraws the operation if it was certainly not sent, which undoes it.
    ///
    /// ```swift
    /// if try !receipt.withdraw() { try client.perform(Unlike(track: track)) }
    /// ```
    ///
    /// Behaves like ``Outbox/withdraw(_:)``.
    ///
    /// - Returns: Whether it was withdrawn; `false` if it was sent, may have been sent, or is over.
    /// - Throws: ``SanguineError``: `store` if the disk failed, and then nothing has changed;
    ///   ``SanguineError/userChanged`` after a sign-out, ``SanguineError/closed`` after the client
    ///   is closed.
    public func withdraw() throws(SanguineError) -> Bool { try takeBack() }
}
