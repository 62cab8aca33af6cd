extension SanguineClient {
    /// Does what the user did: at once on this device, then at the backend, for good.
    ///
    /// ```swift
    /// try client.perform(Like(post: post.id))
    /// ```
    ///
    /// When this returns, the mutation is on disk, and its effects are in everything that is read.
    /// It is sent as soon as there is a network, also by a later process, until the backend has
    /// answered, each time with the same idempotency key. Its effects stay until a fetch that was
    /// begun after the answer has landed, whatever lands before; if it is refused, its own go, and
    /// no others.
    ///
    /// - Returns: What tells of the operation's outcome, for those who want to know.
    /// - Throws: ``SanguineError``; nothing is taken in then: `outboxFull` past
    ///   ``RecordLimits/operations``, `store` if the disk cannot keep it, `invalidDeclaration` if
    ///   its type is not registered, see ``Configuration/register(_:)-(Registrable....)``.
    @discardableResult
    public func perform(_ mutation: some RequestMutation) throws(SanguineError) -> Receipt {
        try users.perform { user throws(SanguineError) in try user.mutations.perform(mutation) }
    }
}
