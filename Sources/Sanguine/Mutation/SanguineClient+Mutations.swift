extension SanguineClient {
    /// Performs a mutation: at once on this device, then at the backend.
    ///
    /// ```swift
    /// try client.perform(Like(post: post.id))
    /// ```
    ///
    /// When this method returns, the mutation is on disk, and its effects are part of all reads. It
    /// is sent as soon as there is a network, by a later process if necessary, until the backend
    /// has answered, each time with the same idempotency key. Its effects stay until a fetch that
    /// started after the answer has completed, even if other fetches complete earlier. If it is
    /// refused, only its own effects are removed.
    ///
    /// - Returns: A receipt for the operation's outcome.
    /// - Throws: ``SanguineError``, and nothing is stored then: `outboxFull` past
    ///   ``RecordLimits/operations``, `store` if the disk failed, `invalidDeclaration` if the type
    ///   is not registered, see ``Configuration/register(_:)-(Registrable....)``.
    @discardableResult
    public func perform(_ mutation: some RemoteMutation) throws(SanguineError) -> Receipt {
        try users.perform { user throws(SanguineError) in try user.mutations.perform(mutation) }
    }
}
