import SanguineModel

extension QueryCache {
    /// Puts a fuller value in the place of the one that is held, without making it newer.
    ///
    /// For a list that grew at its end: its beginning is as old as it was.
    ///
    /// - Parameters:
    ///   - value: The fuller value.
    ///   - query: Whose value it is.
    ///   - epoch: The number of the epoch in which it was fetched.
    ///   - ground: The value that it was compared with.
    ///   - size: What the value costs, in bytes of its JSON: asked for a value that is not stored,
    ///     so that it is not encoded for that alone.
    /// - Returns: Whether there was a value of that epoch and version.
    @discardableResult
    func amend<Value>(
        _ value: Value,
        for query: Query<Value>,
        epoch: UInt64,
        replacing ground: Ground,
        size: (@Sendable () -> Int?)? = nil
    ) -> Bool {
        let shown = replace(
            .of(value),
            query.erased,
            ground,
            epoch: epoch,
            isChange: false,
            size: size
        )
        return shown != nil
    }
}
